//! The report as one HTML file that asks for nothing else: what the Markdown form says, charts, and the records.
//!
//! The page is readable without its script, which only draws. What it may do is bounded by a Content-Security-Policy
//! with the hashes of its own script and style. Charts and records are zlib streams in base64, which the script inflates.

mod answer;
mod machine;
mod prose;
mod ranking;

use std::io::Write as _;
use std::sync::LazyLock;

use answer::Answer;
pub use ranking::{Prices, ranking_html};

use askama::Template;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use jiff::tz::TimeZone;
use pulldown_cmark::HeadingLevel;
use qd1_model::comparison::Comparison;
use qd1_model::{Report, printable};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::compare::{CompareFormat, comparison};
use crate::formats::body_of_page;
use crate::headline;
use crate::packed::packed_text;
use crate::page::{Style, unbroken};
use crate::plot::{Group, Matrix, Pictured, groups, matrix};

use crate::words;

static UPLOT: LazyLock<String> = LazyLock::new(|| packed_text!("uPlot.iife.min.js"));
static SCRIPT: LazyLock<String> = LazyLock::new(|| packed_text!("report.js"));
const STYLE: &str = concat!(include_str!("uPlot.min.css"), "\n", include_str!("report.css"));

/// Most letters of a title that are shown in the browser's tab.
const TITLE_MAX: usize = 120;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: String,
    subtitle: String,
    policy: String,
    style: &'a str,
    uplot: &'a str,
    script: &'a str,
    matrix: Option<Matrix>,
    /// The chart of the first screen.
    first: Option<ChartOf>,
    comparison: Option<String>,
    runs: Vec<Section<'a>>,
    groups: Vec<GroupOf>,
    charts: String,
    version: &'a str,
}

/// What is said of one run.
struct Section<'a> {
    name: &'a str,
    headline: String,
    answer: Answer,
    more: String,
    prose: String,
    machine: String,
    file: String,
    record: String,
}

/// Charts that belong together, each by its place among all.
struct GroupOf {
    title: String,
    about: String,
    findings: Vec<String>,
    is_open: bool,
    charts: Vec<ChartOf>,
}

struct ChartOf {
    place: usize,
    title: String,
    note: String,
}

/// Returns the page of one or more runs; `beside` is their comparison, if there are several.
#[must_use]
pub fn html(runs: &[Pictured], beside: Option<&Comparison>, zone: &TimeZone) -> String {
    // Names are made safe to show; the embedded records are unchanged.
    let shown: Vec<Pictured> = runs.iter().map(Pictured::shown).collect();
    let groups = groups(&shown, zone);
    let charts = packed(&groups.iter().flat_map(|group| &group.charts).collect::<Vec<_>>());
    let mut groups = places(groups);
    // The first of all stands above, with the answer.
    let first = groups.first_mut().filter(|group| !group.charts.is_empty()).map(|group| group.charts.remove(0));
    groups.retain(|group| !group.charts.is_empty());
    let page = Page {
        title: title(&shown),
        subtitle: subtitle(&shown, zone),
        policy: policy(&[&UPLOT, &SCRIPT]),
        style: STYLE,
        uplot: &UPLOT,
        script: &SCRIPT,
        comparison: beside.map(|beside| {
            prose::of_markdown(&comparison(beside, CompareFormat::Markdown, &Style::plain(80), zone), HeadingLevel::H3)
        }),
        runs: runs.iter().zip(&shown).map(|(run, shown)| section(run, shown, runs.len())).collect(),
        matrix: matrix(&shown).filter(|_| shown.len() > 1).map(unbroken_matrix),
        first,
        charts,
        groups,
        version: env!("CARGO_PKG_VERSION"),
    };
    page.render().expect("writing to a String cannot fail")
}

/// The same with the units bound to their numbers.
fn unbroken_matrix(mut matrix: Matrix) -> Matrix {
    for cell in matrix.cells.iter_mut().flatten().flatten() {
        cell.value = unbroken(&cell.value);
    }
    matrix
}

fn section<'a>(run: &Pictured, shown: &'a Pictured, runs: usize) -> Section<'a> {
    // Those of several runs lie below the name of each.
    let level = if runs == 1 { HeadingLevel::H2 } else { HeadingLevel::H3 };
    let answer = answer::of(&shown.report);
    Section {
        name: &shown.name,
        headline: headline::line(&shown.report),
        more: answer::more(answer.more_tiles),
        answer,
        prose: prose::of_markdown(&body_of_page(&shown.report), level),
        machine: prose::of_markdown(&machine::markdown(&shown.report), level),
        file: format!("qd1-{}.json", run.report.record.id),
        record: packed(&run.report.record),
    }
}

fn places(groups: Vec<Group>) -> Vec<GroupOf> {
    let mut place = 0..;
    let mut of_chart = |chart: crate::plot::Chart| ChartOf {
        place: place.next().unwrap_or_default(),
        title: chart.title,
        note: chart.note,
    };
    let of_group = |group: Group| GroupOf {
        title: group.title,
        about: group.about,
        findings: group.findings,
        is_open: group.is_open,
        charts: group.charts.into_iter().map(&mut of_chart).collect(),
    };
    groups.into_iter().map(of_group).collect()
}

fn title(runs: &[Pictured]) -> String {
    let title = match runs {
        [run] => format!("qd1 {} of {}", run.report.record.plan.suite, path(&run.report)),
        _ => format!("qd1: {}", words::join(&runs.iter().map(|run| run.name.clone()).collect::<Vec<_>>())),
    };
    crate::page::shorten(&title, TITLE_MAX)
}

fn path(report: &Report) -> String {
    printable(&report.record.plan.target.path.to_string_lossy()).into_owned()
}

/// Where and when each run was.
fn subtitle(runs: &[Pictured], zone: &TimeZone) -> String {
    let one = |run: &Pictured| {
        let record = &run.report.record;
        let host = &record.environment.hostname;
        let on = if host.is_empty() { String::new() } else { format!(" on {host}") };
        let name = if runs.len() == 1 {
            String::new()
        } else {
            format!("{}: {} of {}, ", run.name, record.plan.suite, path(&run.report))
        };
        format!("{name}{}, run {}{on}", words::when(record.started_unix_ns, zone), record.id)
    };
    runs.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// What a page may do: its own scripts and style, pictures that it made itself, and nothing else.
fn policy(scripts: &[&str]) -> String {
    let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(Sha256::digest(text)));
    let scripts = match scripts {
        [] => "'none'".to_owned(),
        scripts => scripts.iter().map(|script| hash(script)).collect::<Vec<_>>().join(" "),
    };
    format!(
        "default-src 'none'; script-src {scripts}; style-src {}; img-src blob: data:; base-uri 'none'; form-action 'none'",
        hash(STYLE)
    )
}

/// Returns base64 of the zlib stream of the JSON.
fn packed(body: &impl Serialize) -> String {
    let json = serde_json::to_vec(body).expect("charts and records are plain JSON");
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    let written = zlib.write_all(&json).and_then(|()| zlib.finish());
    BASE64.encode(written.expect("a Vec takes all"))
}

#[cfg(test)]
mod tests;
