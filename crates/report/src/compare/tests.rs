//! Every form of a comparison, with hostile names.

use jiff::tz::TimeZone;
use qd1_model::comparison::{Basis, Comparison, Difference, Effect, LeftOut, Limit, Row, RunName, Side, Word};
use qd1_model::measured::Aspect;
use qd1_model::{Estimate, OpClass};

use super::{CompareFormat, comparison as render};
use crate::page::{Detail, Style};

const HOSTILE: &str = "</script>\u{1b}[2J\u{202e}\"|<b>\n=cmd()";

fn estimate(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value: Some(value), low: Some(low), high: Some(high), n: 3, n_effective: 4.0, n_needed: 0 }
}

fn row(step: &str, metric: &str, figures: [f64; 2], word: Word, ratio: (f64, f64)) -> Row {
    let value = figures[1] / figures[0];
    let within = (word == Word::Same).then(|| (ratio.1 - 1.0).max(1.0 - ratio.0));
    Row {
        step: step.to_owned(),
        also: Vec::new(),
        title: "4k writes, each with fdatasync".to_owned(),
        op: OpClass::Commit,
        metric: metric.to_owned(),
        leads: metric != "lat_p999_ns",
        is_primary: metric != "lat_p999_ns",
        figures: figures.map(|figure| estimate(figure, 0.97 * figure, 1.03 * figure)).to_vec(),
        effects: vec![Effect { ratio: estimate(value, ratio.0, ratio.1), word, within, ..Effect::default() }],
    }
}

fn sample() -> Comparison {
    let side = |name: &str, labels: [&str; 3]| Side {
        name: name.to_owned(),
        runs: labels
            .map(|label| RunName {
                label: label.to_owned(),
                tool: "qd1 0.1.0".to_owned(),
                started_unix_ns: Some(1_771_064_551_000_000_000),
            })
            .to_vec(),
        missing: Vec::new(),
    };
    Comparison {
        schema_version: qd1_model::SCHEMA_VERSION,
        sides: vec![side("before", ["4f2a9c01", "77aa01ce", "0b2d5f11"]), side("after", ["a1", "a2", "a3"])],
        differences: vec![
            Difference {
                aspect: Aspect::Kernel,
                step: String::new(),
                values: vec!["6.1.0-13-amd64".to_owned(), "6.12.9".to_owned()],
                warning: Aspect::Kernel.warning().unwrap().to_owned(),
            },
            Difference {
                aspect: Aspect::Spoiled,
                step: String::new(),
                values: vec![String::new(), "commit1: another process wrote 31 MB to the disk".to_owned()],
                warning: Aspect::Spoiled.warning().unwrap().to_owned(),
            },
        ],
        rows: vec![
            row("commit1", "lat_p50_ns", [1e6, 1.28e6], Word::Worse, (1.21, 1.36)),
            row("commit1", "lat_p99_ns", [3e6, 2.9e6], Word::CannotTell, (0.8, 1.2)),
            row("commit1", "lat_p999_ns", [9e6, 20e6], Word::Worse, (1.8, 2.6)),
            row("wal", "lat_p50_ns", [1e6, 0.99e6], Word::Same, (0.96, 1.03)),
            row("wal", "iops", [900.0, 1200.0], Word::Better, (1.2, 1.5)),
        ],
        overall: vec![Effect { ratio: estimate(1.07, 0.98, 1.17), word: Word::CannotTell, ..Effect::default() }],
        family_wise_error: 0.05,
        false_discovery_rate: 0.05,
        left_out: vec![LeftOut { side: "after".to_owned(), step: "files".to_owned(), why: String::new() }],
        basis: Basis::Runs,
        runs_needed: Some(7),
        limits: vec![Limit {
            text: "commit1.p50 > +10%".to_owned(),
            side: "after".to_owned(),
            ratio: estimate(1.28, 1.22, 1.34),
            is_beyond: true,
            is_within: false,
            is_of_better: false,
        }],
    }
}

fn text(comparison: &Comparison, format: CompareFormat, width: usize) -> String {
    let detail = Detail::Screen { is_kept: false, lines: None };
    render(comparison, format, &Style { detail, ..Style::plain(width) }, &TimeZone::UTC)
}

#[test]
fn two_sides_at_80_columns() {
    let text = text(&sample(), CompareFormat::Human, 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn as_markdown() {
    insta::assert_snapshot!(text(&sample(), CompareFormat::Markdown, 80));
}

#[test]
fn as_junit_a_limit_that_is_exceeded_is_a_failure() {
    let with_limits = text(&sample(), CompareFormat::Junit, 80);
    assert!(with_limits.contains("tests=\"1\" failures=\"1\" skipped=\"0\""), "{with_limits}");
    assert!(with_limits.contains("name=\"commit1.p50 &gt; +10%\""), "{with_limits}");
    let figures = text(&Comparison { limits: Vec::new(), ..sample() }, CompareFormat::Junit, 80);
    assert!(figures.contains("tests=\"5\" failures=\"1\" skipped=\"2\""), "{figures}");
    assert!(figures.contains("<system-out>after: Exploratory figures, which decide"), "{figures}");
}

#[test]
fn as_bmf_and_csv_all_figures_are_there() {
    let bmf: serde_json::Value = serde_json::from_str(&text(&sample(), CompareFormat::Bmf, 80)).unwrap();
    assert_eq!(bmf["commit1/commit"]["lat_p50_ns"]["value"], 1.28e6);
    assert!(bmf["wal/commit"]["iops"]["upper_value"].is_f64());
    let csv = text(&sample(), CompareFormat::Csv, 80);
    assert_eq!(csv.lines().count(), 1 + 2 * sample().rows.len());
    let columns = csv.lines().next().unwrap().matches(',').count();
    assert!(csv.lines().all(|line| line.matches(',').count() == columns), "{csv}");
}

/// A ratio of 30 is worse whatever a wait of some percent did, and a small one is not judged; both say how much it explains.
#[test]
fn what_spoiled_a_run_is_shown_with_what_it_explains() {
    let mut spoiled = sample();
    spoiled.rows[0].effects[0].explained = Some(1.08);
    spoiled.rows[1].effects[0] = Effect { is_spoiled: true, explained: Some(1.6), ..spoiled.rows[1].effects[0] };
    let text = text(&spoiled, CompareFormat::Human, 80);
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("a factor of at most 1.08 (commit1 p50): the difference is larger."), "{text}");
    assert!(
        joined.contains("at most 1.60 (commit1 p99): that may be the whole difference, so it is not judged."),
        "{text}"
    );
}

#[test]
fn exploratory_figures_decide_nothing_in_the_first_line() {
    let mut explored = sample();
    explored.rows.iter_mut().filter(|row| row.is_primary).for_each(|row| row.effects[0].word = Word::CannotTell);
    let text = text(&explored, CompareFormat::Human, 80);
    assert!(text.starts_with("after cannot be distinguished from before in any of 5 primary figures."), "{text}");
    assert!(text.contains("decide nothing: 1 of 1 is worse"), "{text}");
}

/// Names come from files of others.
#[test]
fn hostile_names_are_shown_as_text_in_every_form() {
    let mut hostile = sample();
    let long = "x".repeat(10_000);
    hostile.sides[1].name = HOSTILE.to_owned();
    hostile.sides[1].runs[0].label = HOSTILE.to_owned();
    hostile.sides[1].runs[0].tool = long.clone();
    hostile.sides[1].missing = vec![HOSTILE.to_owned()];
    hostile.differences[0].values = vec![HOSTILE.to_owned(), long.clone()];
    hostile.rows[0].step = HOSTILE.to_owned();
    hostile.rows[1].step = format!("`{long}");
    hostile.left_out[0].why = HOSTILE.to_owned();
    hostile.limits[0].text = HOSTILE.to_owned();
    for format in [CompareFormat::Human, CompareFormat::Csv, CompareFormat::Markdown, CompareFormat::Junit] {
        let shown = text(&hostile, format, 80);
        let is_hidden = |letter: char| letter != '\n' && qd1_model::printable::is_hidden(letter);
        assert!(!shown.contains(is_hidden), "{format:?}");
        assert!(!shown.lines().any(|line| line.starts_with('=')), "{format:?}");
    }
    assert!(!text(&hostile, CompareFormat::Junit, 80).contains("</script>"));
    assert!(!text(&hostile, CompareFormat::Markdown, 80).contains("</script>"));
    for format in [CompareFormat::Json, CompareFormat::Bmf] {
        serde_json::from_str::<serde_json::Value>(&text(&hostile, format, 80)).unwrap();
    }
}

#[test]
fn three_sides_are_ranked_within_80_columns() {
    let mut three = sample();
    let mut third = three.sides[1].clone();
    third.name = "a-name-that-is-longer-than-its-column".to_owned();
    three.sides.push(third);
    three.limits.clear();
    for row in &mut three.rows {
        row.figures.push(estimate(1.0, 0.9, 1.1));
        row.effects.push(row.effects[0]);
    }
    three.overall.push(three.overall[0]);
    for difference in &mut three.differences {
        difference.values.push(String::new());
    }
    let text = text(&three, CompareFormat::Human, 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("(lowest first)") && text.contains("  1 a-na..."), "{text}");
}
