//! A watch for people: disks with their latencies, the programs that used them, and what took long.

use qd1_model::record::watched::{DiskLimit, LongWait, WatchedProgram};
use qd1_model::units::{format_count, format_ns, format_span_ns};
use qd1_model::watched::{Watched, WatchedLimits, WatchedRow};
use qd1_model::{Report, printable};

use crate::page::Page;
use crate::section::{Lines, Section};
use crate::table::{compact, escaped, quoted};
use crate::words;

const DISK_TITLES: [&str; 9] = ["disk", "operation", "/s", "await", "p50", "p99", "p99.9", "max", "busy"];
const PROGRAM_TITLES: [&str; 8] = ["program", "disk", "sync wait", "longest", "changed", "written", "read", "syncs"];
const WAIT_TITLES: [&str; 5] = ["at least", "what", "disk", "who", "where"];
const LIMIT_TITLES: [&str; 6] =
    ["disk", "volume IOPS", "volume throughput", "instance IOPS", "instance throughput", "observed"];
const CSV: &str = "run,disk,operation,per_second,bytes,await_ns,lat_p50_ns,lat_p99_ns,lat_p999_ns,lat_max_ns,busy\n";
/// Programs and waits on the first screen, and in the whole report.
const FEW: usize = 3;
const MANY: usize = 20;

/// What a watch saw.
pub(crate) struct Seen<'a> {
    pub(crate) report: &'a Report,
    pub(crate) watched: &'a Watched,
}

impl Section for Seen<'_> {
    fn answer(&self) -> String {
        sentence(self.watched)
    }

    fn brief(&self, page: &mut Page) {
        if !self.watched.waits.is_empty() {
            compact(page, &WAIT_TITLES, &waits(self.watched, FEW));
        }
        if !self.watched.programs.is_empty() {
            compact(page, &PROGRAM_TITLES, &programs(self.watched, FEW));
        }
        // Those of the busiest disk come first.
        let disks = disks(self.watched);
        if !disks.is_empty() {
            compact(page, &DISK_TITLES, &disks[..disks.len().min(FEW)]);
        }
    }

    fn human(&self, page: &mut Page) {
        page.heading("Disks");
        compact(page, &DISK_TITLES, &disks(self.watched));
        page.prose(
            2,
            "await: mean time in the queue and the device, like iostat's; p50 to max: latencies; busy: iostat's \
                 %util.",
        );
        if !self.watched.limits.is_empty() {
            page.heading("Time above the limits of the cloud");
            compact(page, &LIMIT_TITLES, &limits(self.watched));
            page.prose(
                2,
                "share of the observed time in which demand was above each limit, as the disk itself counts it; \
                 observed: the time that its answers cover.",
            );
        }
        if !self.watched.programs.is_empty() {
            page.heading("Programs");
            compact(page, &PROGRAM_TITLES, &programs(self.watched, MANY));
            page.prose(
                2,
                "sync wait: time that its threads waited for syncs, as a share of the time watched; changed: data in \
                 memory, which the kernel writes later; +3: and three more processes of this name.",
            );
        }
        if !self.watched.waits.is_empty() {
            page.heading("What took 0.5 s or longer");
            compact(page, &WAIT_TITLES, &waits(self.watched, MANY));
            let hidden = self.watched.waits_seen.saturating_sub(self.watched.waits.len().min(MANY) as u64);
            if hidden > 0 {
                page.line(&format!("  and {} more", words::thousands(hidden)));
            }
        }
    }

    fn markdown(&self, text: &mut String) {
        table(text, "Disks", &DISK_TITLES, &disks(self.watched));
        table(text, "Time above the limits of the cloud", &LIMIT_TITLES, &limits(self.watched));
        table(text, "Programs", &PROGRAM_TITLES, &programs(self.watched, MANY));
        table(text, "What took 0.5 s or longer", &WAIT_TITLES, &waits(self.watched, MANY));
    }

    fn csv(&self) -> Option<String> {
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let row = |row: &WatchedRow| {
            let fields = [
                quoted(&self.report.record.id),
                quoted(&row.disk),
                row.class.name().to_owned(),
                row.per_second.to_string(),
                row.bytes.0.to_string(),
                row.await_ns.to_string(),
                number(row.lat_p50_ns),
                number(row.lat_p99_ns),
                number(row.lat_p999_ns),
                number(row.lat_max_ns),
                row.busy.to_string(),
            ];
            fields.join(",") + "\n"
        };
        Some(self.watched.rows.iter().fold(CSV.to_owned(), |text, one| text + &row(one)))
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("watched", &self.watched.rows);
        lines.all("watched_limits", &self.watched.limits);
        lines.all("watched_program", &self.watched.programs);
        lines.all("long_wait", &self.watched.waits);
    }

    fn place(&self) -> Option<Vec<(&'static str, String)>> {
        let environment = &self.report.record.environment;
        let mut disks: Vec<&str> = self.watched.rows.iter().map(|row| row.disk.as_str()).collect();
        disks.dedup();
        let disks: Vec<String> = disks.into_iter().map(|disk| printable(disk).into_owned()).collect();
        let watched = format!("{} of {}", format_span_ns(self.watched.watched_ns), words::some(&disks));
        let machine = format!("{}, kernel {}", environment.hostname, environment.kernel);
        let mut place = vec![("watched", watched)];
        // A recording does not say where it was made.
        place.extend((!environment.kernel.is_empty()).then_some(("machine", machine)));
        Some(place)
    }
}

/// Appends a table in Markdown, if it has rows.
fn table(text: &mut String, title: &str, titles: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    *text += &format!("\n## {title}\n\n| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
        *text += &format!("| {} |\n", cells.join(" | "));
    }
}

/// Requests and syncs of this age are counted as long, ns.
const LONG_NS: u64 = 500_000_000;

/// Returns what the busiest disk did, and the longest wait.
fn sentence(watched: &Watched) -> String {
    let time = format_span_ns(watched.watched_ns);
    let Some(first) = watched.rows.first() else { return format!("In {time}, no disk was used.") };
    let of_disk = watched.rows.iter().filter(|row| row.disk == first.disk);
    let each: Vec<String> = of_disk.map(rate).collect();
    let disks = watched.rows.iter().filter(|row| row.disk != first.disk).map(|row| row.disk.as_str());
    let mut others: Vec<&str> = disks.collect();
    others.dedup();
    let more = match others.len() {
        0 => String::new(),
        1 => " One more disk was in use.".to_owned(),
        count => format!(" {count} more disks were in use."),
    };
    let longest = match watched.waits.first() {
        Some(wait) => {
            let seen = words::thousands(watched.waits_seen);
            let age = format_ns(wait.age_ns as f64);
            match watched.waits_seen {
                0 | 1 => format!(" The longest wait was for {}: {age} or longer.", printable(&wait.what)),
                _ => format!(" {seen} requests and syncs took 0.5 s or longer, one of them {age}."),
            }
        }
        // One that took less than two intervals may have ended before it was 0.5 s old in a reading.
        None if watched.programs.iter().any(|of| of.longest_sync_ns >= LONG_NS) => String::new(),
        None if watched.unseen.is_empty() => " No request or sync was seen to take 0.5 s.".to_owned(),
        None => {
            format!(" Latencies, syncs and waits were not seen: {}.", printable(watched.unseen.trim_end_matches('.')))
        }
    };
    let waited = watched.programs.first().filter(|of| of.suffers(watched.watched_ns)).map(waited).unwrap_or_default();
    format!("In {time}, {} served {}.{more}{waited}{longest}", printable(&first.disk), words::join(&each))
}

/// ` etcd waited 12.0 s for syncs, the longest 812 ms, while dd used the disk.`
fn waited(of: &WatchedProgram) -> String {
    let (time, longest) = (format_ns(of.sync_ns as f64), format_ns(of.longest_sync_ns as f64));
    let beside = match of.beside.first() {
        _ if !of.limit.is_empty() => format!(", held back by {}", printable(&of.limit)),
        Some(other) => format!(", while {} used the disk", printable(&other.comm)),
        None => String::new(),
    };
    format!(" {} waited {time} for syncs, the longest {longest}{beside}.", printable(&of.comm))
}

/// `2,999 reads/s (p99 590 us)`.
fn rate(row: &WatchedRow) -> String {
    let latency = match (row.lat_p99_ns, row.lat_max_ns) {
        (Some(p99), _) => format!(" (p99 {})", format_ns(p99 as f64)),
        (None, Some(max)) if max > 0 => format!(" (max {})", format_ns(max as f64)),
        _ => format!(" ({} on average)", format_ns(row.await_ns)),
    };
    format!("{} {}/s{latency}", count(row.per_second), words::plural(row.class))
}

fn count(value: f64) -> String {
    match value {
        value if value <= 0.0 => "0".to_owned(),
        value if value < 0.05 => "<0.1".to_owned(),
        value if value < 10.0 => format!("{value:.1}"),
        value if value < 100_000.0 => words::thousands(value.round() as u64),
        value => format_count(value),
    }
}

fn disks(watched: &Watched) -> Vec<Vec<String>> {
    let figure = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64));
    let row = |row: &WatchedRow| {
        vec![
            printable(&row.disk).into_owned(),
            row.class.name().to_owned(),
            count(row.per_second),
            format_ns(row.await_ns),
            figure(row.lat_p50_ns),
            figure(row.lat_p99_ns),
            figure(row.lat_p999_ns),
            figure(row.lat_max_ns),
            format!("{:.0} %", 100.0 * row.busy),
        ]
    };
    watched.rows.iter().map(row).collect()
}

fn limits(watched: &Watched) -> Vec<Vec<String>> {
    let row = |WatchedLimits { disk, limits }: &WatchedLimits| {
        let share = |limit: DiskLimit| {
            let share = limits.shares().find(|(of, _)| *of == limit);
            share.map_or_else(|| "-".to_owned(), |(_, share)| format!("{:.1} %", 100.0 * share))
        };
        vec![
            printable(disk).into_owned(),
            share(DiskLimit::VolumeIops),
            share(DiskLimit::VolumeThroughput),
            share(DiskLimit::InstanceIops),
            share(DiskLimit::InstanceThroughput),
            format_span_ns(limits.observed_ns),
        ]
    };
    watched.limits.iter().map(row).collect()
}

fn programs(watched: &Watched, most: usize) -> Vec<Vec<String>> {
    let row = |of: &WatchedProgram| {
        let more = if of.processes > 1 { format!(" +{}", of.processes - 1) } else { String::new() };
        let share = of.sync_ns as f64 / watched.watched_ns.max(1) as f64;
        let has_syncs = of.syncs > 0 || of.sync_ns > 0;
        let of_syncs = |text: String| if has_syncs { text } else { "-".to_owned() };
        vec![
            format!("{} {}{more}", printable(&of.comm), of.pid),
            printable(&of.disk).into_owned(),
            of_syncs(format!("{:.1} %", 100.0 * share)),
            of_syncs(format_ns(of.longest_sync_ns as f64)),
            of.changed_bytes.to_string(),
            if watched.unseen.is_empty() { of.written_bytes.to_string() } else { "-".to_owned() },
            of.read_bytes.to_string(),
            of_syncs(words::thousands(of.syncs)),
        ]
    };
    watched.programs.iter().take(most).map(row).collect()
}

fn waits(watched: &Watched, most: usize) -> Vec<Vec<String>> {
    let row = |wait: &LongWait| {
        vec![
            format_ns(wait.age_ns as f64),
            printable(&wait.what).into_owned(),
            printable(&wait.disk).into_owned(),
            format!("{} {}", printable(&wait.comm), wait.pid),
            printable(&wait.place).into_owned(),
        ]
    };
    watched.waits.iter().take(most).map(row).collect()
}

#[cfg(test)]
mod tests {
    use crate::samples;
    use crate::{Format, Style, render};

    #[test]
    fn limits_are_shares_of_the_observed_time_and_those_that_are_not_counted_have_none() {
        let kinds = samples::kinds();
        let (_, report, ..) = kinds.iter().find(|(name, ..)| *name == "watched").unwrap();
        let text = |format| render(report, format, &Style::plain(100));
        let row = "| sda | 43.0 % | 0.0 % | 0.0 % | - | 50 s |";
        assert!(text(Format::Markdown).contains(row), "{}", text(Format::Markdown));
        let human = text(Format::Human);
        assert!(human.contains("Time above the limits of the cloud") && human.contains("43.0 %"), "{human}");
        let lines = text(Format::Ndjson);
        let line = lines.lines().find(|line| line.contains("\"watched_limits\"")).unwrap();
        assert!(line.contains("\"disk\":\"sda\"") && line.contains("\"volume_iops_ns\":21500000000"), "{line}");
    }
}
