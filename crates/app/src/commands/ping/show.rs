//! The output of a ping: a header, a line for each request as it completes, a summary; or the same as JSON, one object
//! per line.

use std::io::{ErrorKind, Write as _};

use anyhow::{Context as _, Result};
use qd1_engine::backing::PathKind;
use qd1_model::op::OpClass;
use qd1_model::plan::Sync;
use qd1_model::record::Stream;
use qd1_model::sync::SyncMethod;
use qd1_model::units::{format_count, format_ns, format_rate, format_share, format_span_ns};
use qd1_model::{Bytes, Estimate, SCHEMA_VERSION, printable_output};
use qd1_stats as stats;
use serde::Serialize;

use super::PingOutcome;
use super::args::{Directions, PingArgs, PingSettings};
use super::disk::{Outcome, Request};
use qd1_runner::place::Place;

/// Prints to stdout.
pub(crate) struct Show {
    json: bool,
    quiet: bool,
    start: Start,
}

/// The first object, and the content of the header.
#[derive(Serialize)]
struct Start {
    #[serde(rename = "type")]
    kind: &'static str,
    schema_version: u32,
    path: String,
    filesystem: String,
    source: String,
    /// Any of `read` and `write`.
    operations: Vec<&'static str>,
    size: u32,
    area: u64,
    linear: bool,
    direct: bool,
    cached: bool,
    sync: Sync,
    interval_ns: u64,
    seed: u64,
}

/// A completed request.
pub(crate) struct Pong<'a> {
    pub(crate) number: u64,
    /// Time since the first request, ns.
    pub(crate) at_ns: u64,
    pub(crate) warmup: bool,
    pub(crate) request: &'a Request,
}

/// A completed request as a JSON object.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    request: u64,
    operation: &'static str,
    at_ns: u64,
    offset: u64,
    bytes: u32,
    lat_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_ns: Option<u64>,
    warmup: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Smallest share of reads from the page cache that the summary reports.
const CACHED_MIN: f64 = 0.1;

/// The last object.
#[derive(Serialize)]
struct Summary {
    #[serde(rename = "type")]
    kind: &'static str,
    requests: u64,
    failed: u64,
    warmup: u64,
    elapsed_ns: u64,
    requests_per_second: f64,
    /// As in [`PingOutcome`].
    #[serde(skip_serializing_if = "Option::is_none")]
    from_page_cache: Option<f64>,
    operations: Vec<Figures>,
}

/// One kind of operation, summed up.
#[derive(Serialize)]
struct Figures {
    operation: &'static str,
    requests: u64,
    bytes: u64,
    /// Sum of all latencies.
    busy_ns: u64,
    /// Rate over the time in which a request was in flight.
    busy_requests_per_second: Estimate,
    busy_bytes_per_second: f64,
    lat_min_ns: u64,
    lat_mean_ns: Estimate,
    lat_p50_ns: Estimate,
    lat_p99_ns: Estimate,
    lat_max_ns: u64,
    lat_stddev_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_p50_ns: Option<Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_p99_ns: Option<Estimate>,
}

impl Show {
    pub(crate) fn new(args: &PingArgs, settings: &PingSettings, place: &Place, seed: u64, area: u64) -> Self {
        let start = Start {
            kind: "start",
            schema_version: SCHEMA_VERSION,
            path: place.path.to_string_lossy().into_owned(),
            filesystem: if matches!(place.kind, PathKind::Block(_)) {
                String::new()
            } else {
                place.filesystem.kind.clone()
            },
            source: place.filesystem.source.clone(),
            operations: match settings.directions {
                Directions::Reads => vec!["read"],
                Directions::Writes => vec!["write"],
                Directions::Both => vec!["read", "write"],
            },
            size: settings.size,
            area,
            linear: settings.linear,
            direct: settings.direct,
            cached: settings.cached,
            sync: settings.sync,
            interval_ns: settings.interval_ns,
            seed,
        };
        Self { json: args.json, quiet: args.quiet || args.rapid, start }
    }

    /// Prints the header.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn start(&mut self) -> Result<()> {
        if self.json {
            return print(&(serde_json::to_string(&self.start)? + "\n")).map(drop);
        }
        if self.quiet {
            return Ok(());
        }
        print(&format!("PING {}\n  {}\n", self.place(), self.start.describe())).map(drop)
    }

    /// Prints the line of a request. Returns false once the reader has closed the pipe.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn pong(&mut self, pong: &Pong<'_>) -> Result<bool> {
        if self.quiet {
            return Ok(true);
        }
        if self.json {
            return print(&(serde_json::to_string(&self.line(pong))? + "\n"));
        }
        print(&self.text(pong))
    }

    /// Prints the summary.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn end(&mut self, outcome: &PingOutcome) -> Result<()> {
        let summary = summary(outcome);
        let text = if self.json {
            serde_json::to_string(&summary)? + "\n"
        } else {
            format!("\n--- {} ping statistics ---\n{}", self.place(), summary_text(&summary, self.start.sync))
        };
        print(&text).map(drop)
    }

    /// Returns the place as `/srv (ext4 on /dev/vda1)`.
    fn place(&self) -> String {
        let Start { path, filesystem, source, .. } = &self.start;
        match (filesystem.as_str(), source.as_str()) {
            ("", _) => format!("{path} (block device)"),
            (filesystem, "") => format!("{path} ({filesystem})"),
            (filesystem, source) => format!("{path} ({filesystem} on {source})"),
        }
    }

    fn text(&self, pong: &Pong<'_>) -> String {
        let (operation, size) = (operation(pong.request), Bytes(self.start.size.into()));
        let lat = format_ns(pong.request.lat_ns as f64);
        let mut line = format!("{size} {operation}: request={}", pong.number);
        line += &match &pong.request.outcome {
            Outcome::Failed(error) => format!(" FAILED {error} after {lat}"),
            Outcome::Done { sync_ns: Some(sync_ns) } => {
                let write = format_ns(pong.request.lat_ns.saturating_sub(*sync_ns) as f64);
                let method = SyncMethod { sync: self.start.sync, direct: false }.name();
                format!(" time={lat} (write {write}, {method} {})", format_ns(*sync_ns as f64))
            }
            Outcome::Done { sync_ns: None } => format!(" time={lat}"),
        };
        line + if pong.warmup { " (warmup)\n" } else { "\n" }
    }

    fn line<'a>(&self, pong: &Pong<'a>) -> Line<'a> {
        let (sync_ns, error) = match &pong.request.outcome {
            Outcome::Done { sync_ns } => (*sync_ns, None),
            Outcome::Failed(error) => (None, Some(error.as_str())),
        };
        Line {
            kind: "request",
            request: pong.number,
            operation: operation(pong.request),
            at_ns: pong.at_ns,
            offset: pong.request.offset,
            bytes: self.start.size,
            lat_ns: pong.request.lat_ns,
            sync_ns,
            warmup: pong.warmup,
            error,
        }
    }
}

impl Start {
    /// Describes the requests: `4 KiB reads at random in 16 MiB, each dropped from the page cache first`.
    fn describe(&self) -> String {
        let (size, area) = (Bytes(self.size.into()), Bytes(self.area));
        let operations = self.operations.join("s and ") + "s";
        let order = if self.linear { "in order" } else { "at random" };
        let reads = self.operations.contains(&"read");
        let how = match (self.direct, self.cached) {
            (true, _) => ", O_DIRECT",
            (_, true) => ", cached",
            _ if reads => ", each dropped from the page cache first",
            _ => "",
        };
        let method = SyncMethod { sync: self.sync, direct: false };
        let sync = match self.sync {
            Sync::None if reads && self.operations.len() == 1 => String::new(),
            Sync::None => ", not synced".to_owned(),
            _ => format!(", {}", method.name()),
        };
        format!("{size} {operations} {order} in {area}{how}{sync}")
    }
}

fn operation(request: &Request) -> &'static str {
    if request.writes { "write" } else { "read" }
}

/// Prints and flushes. Returns false when the reader has closed the pipe (`| head`), which is not an error.
fn print(text: &str) -> Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(printable_output(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        outcome => outcome.map(|()| true).context("cannot write to stdout"),
    }
}

fn summary(outcome: &PingOutcome) -> Summary {
    Summary {
        kind: "summary",
        requests: outcome.requests,
        failed: outcome.failed,
        warmup: outcome.warmup,
        elapsed_ns: outcome.elapsed_ns,
        requests_per_second: outcome.requests as f64 * 1e9 / outcome.elapsed_ns as f64,
        from_page_cache: outcome.from_page_cache,
        operations: outcome.streams.iter().map(|stream| figures(outcome, stream)).collect(),
    }
}

fn figures(outcome: &PingOutcome, stream: &Stream) -> Figures {
    let (class, lat) = (stream.class, &stream.lat);
    let quantile = |q: f64| stats::quantile(lat, &outcome.intervals, class, q);
    let of_sync =
        |q: f64| stream.sync_part.as_ref().map(|part| stats::quantile_of_part(part, &outcome.intervals, class, q));
    let busy_s = lat.mean_ns() * lat.count() as f64 / 1e9;
    Figures {
        operation: if class == OpClass::Read { "read" } else { "write" },
        requests: lat.count(),
        bytes: stream.bytes.0,
        busy_ns: (busy_s * 1e9) as u64,
        busy_requests_per_second: stats::rate_of_own_time(&outcome.intervals, class),
        busy_bytes_per_second: if busy_s > 0.0 { stream.bytes.0 as f64 / busy_s } else { 0.0 },
        lat_min_ns: lat.min_ns(),
        lat_mean_ns: stats::mean(lat, &outcome.intervals, class),
        lat_p50_ns: quantile(0.5),
        lat_p99_ns: quantile(0.99),
        lat_max_ns: lat.max_ns(),
        lat_stddev_ns: lat.stdev_ns(),
        sync_p50_ns: of_sync(0.5),
        sync_p99_ns: of_sync(0.99),
    }
}

/// Returns the summary as text.
fn summary_text(summary: &Summary, sync: Sync) -> String {
    let moved: Vec<String> = summary
        .operations
        .iter()
        .map(|figures| {
            let past = if figures.operation == "read" { "read" } else { "written" };
            format!(", {} {past}", Bytes(figures.bytes))
        })
        .collect();
    let warmup = match summary.warmup {
        0 => String::new(),
        some => format!(" ({some} of them for warm-up)"),
    };
    let mut text = format!(
        "{} requests{warmup}, {} failed, in {}{}\n",
        summary.requests,
        summary.failed,
        format_span_ns(summary.elapsed_ns),
        moved.concat()
    );
    if let Some(share) = summary.from_page_cache.filter(|share| *share >= CACHED_MIN) {
        text += &format!(
            "the page cache answered {} of the reads, although it was asked to drop the data: other programs \
             read this file; try --direct\n",
            format_share(share)
        );
    }
    for figures in &summary.operations {
        text += &figures_text(figures, sync, summary.operations.len() > 1);
    }
    text
}

fn figures_text(figures: &Figures, sync: Sync, named: bool) -> String {
    let name = if named { format!("{}s: ", figures.operation) } else { String::new() };
    // The observed values, on this line and the next: few requests may not resolve a rate.
    let rate = figures.requests as f64 * 1e9 / figures.busy_ns.max(1) as f64;
    let mut text =
        format!("{name}while busy {} requests/s, {}\n", format_count(rate), format_rate(figures.busy_bytes_per_second));
    let bare =
        [("min", figures.lat_min_ns as f64), ("max", figures.lat_max_ns as f64), ("stddev", figures.lat_stddev_ns)];
    let [min, max, stddev] = bare.map(|(title, ns)| format!("{title} {}", format_ns(ns)));
    let estimates = [("avg", &figures.lat_mean_ns), ("p50", &figures.lat_p50_ns), ("p99", &figures.lat_p99_ns)];
    let [avg, p50, p99] = estimates.map(|(title, estimate)| format!("{title} {}", shown(estimate)));
    text += &format!("{name}{min}, {max}, {stddev}\n{name}{avg}, {p50}\n{name}{p99}\n");
    if let (Some(p50), Some(p99)) = (&figures.sync_p50_ns, &figures.sync_p99_ns) {
        let method = SyncMethod { sync, direct: false }.name();
        text += &format!("{name}{method} alone: p50 {}, p99 {}\n", shown(p50), shown(p99));
    }
    text
}

/// Returns `240 us [221 us..263 us]`, or why there is no figure.
fn shown(estimate: &Estimate) -> String {
    let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), format_ns);
    match estimate.value {
        Some(value) if estimate.low.is_none() && estimate.high.is_none() => {
            format!("{} (n={} is too few for an interval)", format_ns(value), estimate.n)
        }
        Some(value) => format!("{} [{}..{}]", format_ns(value), end(estimate.low), end(estimate.high)),
        None => format!("not resolved (n={}, needs about {})", estimate.n, estimate.n_needed),
    }
}
