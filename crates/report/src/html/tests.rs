//! The page: that it is safe, whole, and readable without its script.

use super::*;
use crate::samples as sample;
use qd1_model::chart::{ChartData, Distribution, Moment, Part, Timeline};
use qd1_model::{Estimate, Record};
use std::io::Read as _;

const HOSTILE: &str = "</script><script>alert(1)</script><b onclick=x>\"'&`|**\u{202e}\u{7}";

fn pictured(name: &str, report: Report) -> Pictured {
    let step = report.summary.steps[0].name.clone();
    let class = report.summary.steps[0].streams[0].class;
    let distribution = Distribution {
        step: step.clone(),
        class,
        part: Part::Whole,
        count: 1000,
        points: vec![(0.5, 1e5), (0.99, 1e6), (1.0, 1e7)],
        figures: vec![(0.5, Estimate { low: Some(9e4), high: Some(1.1e5), ..Estimate::exact(1e5, 1000) })],
    };
    let moment = |start_ns| Moment {
        start_ns,
        length_ns: 100_000_000,
        goes_on: start_ns > 0,
        ios: 10,
        p50_ns: Some(1e5),
        max_ns: Some(1e6),
        bins: vec![(140, 10)],
        ..Moment::default()
    };
    let moments = vec![moment(0), moment(100_000_000)];
    let timeline = Timeline { step, class, moments, events: Vec::new() };
    let data = ChartData { distributions: vec![distribution], timelines: vec![timeline] };
    Pictured { name: name.to_owned(), report, data }
}

fn page(runs: &[Pictured]) -> String {
    html(runs, None, &TimeZone::UTC)
}

/// What is in a packed element of the page.
fn unpacked(page: &str, id: &str) -> String {
    let text = page.split(&format!("id=\"{id}\">")).nth(1).unwrap().split('<').next().unwrap();
    let mut json = String::new();
    flate2::read::ZlibDecoder::new(BASE64.decode(text).unwrap().as_slice()).read_to_string(&mut json).unwrap();
    json
}

/// The texts between a tag and its end.
fn between<'a>(page: &'a str, begin: &'a str, end: &'a str) -> Vec<&'a str> {
    page.split(begin).skip(1).map(|rest| rest.split(end).next().unwrap()).collect()
}

#[test]
fn the_policy_allows_the_pages_own_scripts_and_style_and_nothing_else() {
    let page = page(&[pictured("a", sample::slow_vps())]);
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"")[0].replace("&#39;", "'");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    let scripts = between(&page, "<script>", "</script>");
    let styles = between(&page, "<style>", "</style>");
    assert_eq!((scripts.len(), styles.len()), (2, 1));
    for text in scripts.iter().chain(&styles) {
        assert!(policy.contains(&BASE64.encode(Sha256::digest(text))), "{}", &text[..60]);
    }
    assert!(!styles[0].contains("url(") && !styles[0].contains("@import"));
    let body = page.split("<script>").next().unwrap().split("</style>").nth(1).unwrap();
    for attribute in [" src=", " style=", " onclick=", "href=\"http"] {
        assert!(!body.contains(attribute), "{attribute}");
    }
}

#[test]
fn the_record_in_it_is_the_run_and_every_chart_has_its_place() {
    let report = sample::slow_vps();
    let page = page(&[pictured("a", report.clone())]);
    assert!(serde_json::from_str::<Record>(&unpacked(&page, "record-0")).unwrap() == report.record);
    let charts: serde_json::Value = serde_json::from_str(&unpacked(&page, "chart-data")).unwrap();
    let charts = charts.as_array().unwrap();
    let places: Vec<usize> = between(&page, "data-chart=\"", "\"").iter().map(|place| place.parse().unwrap()).collect();
    assert_eq!(places, (0..charts.len()).collect::<Vec<_>>());
    let captions = between(&page, "<figcaption>", "</figcaption>");
    let titles: Vec<&str> = charts.iter().map(|chart| chart["title"].as_str().unwrap()).collect();
    assert_eq!(captions, titles);
    let heat = charts.iter().find(|chart| chart["kind"] == "heat").unwrap();
    assert_eq!(heat["heat"]["cells"], serde_json::json!([[0, 10], [0, 10]]));
}

#[test]
fn verdicts_and_findings_are_there_without_the_script() {
    let report = sample::slow_vps();
    let page = page(&[pictured("a", report.clone())]);
    assert!(page.contains("<strong class=\"middling\">marginal</strong>"));
    for verdict in &report.verdicts {
        assert!(page.contains(&format!("<td>{}</td>", verdict.title)), "{}", verdict.title);
    }
    assert!(page.contains("<h2>Findings</h2>") && page.contains("<h2>Run it again</h2>"));
}

/// Cause: `</script>` in the name of a job would end the script that holds it.
#[test]
fn names_from_outside_are_text_wherever_they_are() {
    let mut report = sample::suite();
    for step in &mut report.summary.steps {
        (step.name, step.title) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    }
    for finding in &mut report.findings {
        (finding.step, finding.title, finding.evidence) = (HOSTILE.to_owned(), HOSTILE.to_owned(), HOSTILE.to_owned());
    }
    report.record.plan.target.path = HOSTILE.into();
    report.record.environment.hostname = HOSTILE.repeat(100);
    let benign = [pictured("a", sample::suite()), pictured("b", sample::slow_vps())];
    let hostile = [pictured(HOSTILE, report), pictured("b", sample::slow_vps())];
    let (benign, hostile) = (page(&benign), page(&hostile));
    for tag in ["<script", "</script", "<b ", "<img", "<a "] {
        assert_eq!(hostile.matches(tag).count(), benign.matches(tag).count(), "{tag}");
    }
    assert!(hostile.contains("&lt;script&gt;alert(1)") || hostile.contains("&#60;script&#62;alert(1)"));
    assert!(!hostile.contains(['\u{202e}', '\u{7}']));
}

#[test]
fn several_runs_are_overlaid_and_keep_their_names() {
    let mut other = sample::slow_vps();
    other.record.id = "other0000000".to_owned();
    let page = page(&[pictured("before", sample::slow_vps()), pictured("after", other)]);
    let charts: serde_json::Value = serde_json::from_str(&unpacked(&page, "chart-data")).unwrap();
    let step = charts
        .as_array()
        .unwrap()
        .iter()
        .find(|chart| chart["id"].as_str().unwrap().starts_with("percentiles-"))
        .unwrap();
    let names: Vec<&str> = step["series"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["before", "after"]);
    assert!(page.contains("data-file=\"qd1-other0000000.json\""));
    assert_eq!(between(&page, "<details class=\"run\">", "</summary>").len(), 2);
}

#[test]
fn a_run_without_figures_has_a_page() {
    let mut report = sample::interrupted();
    report.summary.steps.clear();
    report.record.steps.clear();
    let run = Pictured { name: "a".to_owned(), report, data: ChartData::default() };
    let page = page(&[run]);
    assert!(page.contains("<h2>Charts</h2>") && unpacked(&page, "chart-data") == "[]");
}

/// The page of a search for limits held no limit.
#[test]
fn limits_are_in_the_page_with_their_evidence() {
    let report = sample::limits();
    let page = page(&[pictured("a", report)]);
    assert!(page.contains("3,000 IOPS") && page.contains("the same at twice the depth"), "{page}");
}

#[test]
fn the_first_screen_is_the_answer_and_its_tables_are_folded() {
    let page = page(&[pictured("a", sample::slow_vps())]);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    let first = between(&page, "<section class=\"answer\">", "</section>")[0];
    assert!(
        first.contains("<li class=\"tile bad\"><strong class=\"bad\">FAIL</strong> <b>etcd / Kubernetes</b>"),
        "{first}"
    );
    assert!(first.contains("data-chart=\"0\"") && first.contains("What to do"), "{first}");
    assert!(first.contains("Ask the provider whether the volume&#39;s cache survives a power cut"), "{first}");
    assert_eq!(
        page.matches("too few samples: n=812, needs about 1000").count(),
        2,
        "below the tiles, and in the table"
    );
    for folded in ["Verdict", "All steps", "What programs wait for: queue depth 1 and commits"] {
        assert!(page.contains(&format!("<details class=\"folded\">\n<summary>\n<h2>{folded}</h2>")), "{folded}");
    }
    assert!(place("class=\"tiles\"") < place("data-chart=\"0\"") && place("data-chart=\"0\"") < place("What to do"));
    assert!(place("What to do") < place("<h2>Verdict</h2>"));
}

#[test]
fn several_checks_begin_with_their_grades_side_by_side() {
    let mut fast = sample::fast_nvme();
    fast.record.id = "other0000000".to_owned();
    let page = page(&[pictured("vps", sample::slow_vps()), pictured("local", fast)]);
    let rows = between(&page, "<tr><th scope=\"row\">", "</tr>");
    assert!(rows[0].starts_with("vps</th><td class=\"tile bad\"><strong class=\"bad\">FAIL</strong>"), "{}", rows[0]);
    assert!(rows[1].starts_with("local</th>") && rows[1].contains("PASS"), "{}", rows[1]);
}
