//! The layout of the screen.

use qd1_model::order::Order as _;
use std::collections::HashMap;

use qd1_model::units::{Bytes, format_count, format_ns, format_span_ns};
use qd1_probe::activity::DiskRates;
use qd1_trace::Stage;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::heatmap::Drawn;
use super::keys::HELP;
use super::names::name;
use super::state::{Sort, State};
use crate::commands::trace::narrow;
use crate::commands::watch::limits;
use crate::commands::watch::processes::ProcessReading;
use crate::commands::watch::reading::{DiskReading, Reading, SyncReading};

/// Most lines for requests and syncs that have been waiting for long.
const WAITING_MAX: usize = 6;
/// On a smaller screen, only a message to enlarge it is shown.
const SMALLEST: (u16, u16) = (80, 16);
/// Most lines of the map.
const MAP_MAX: usize = 12;
/// Seconds per second of waiting for syncs from which a process is always shown.
const SUFFERS: f64 = 0.05;
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Table headings: underlined, which every terminal supports.
const HEADING: Style = Style::new().add_modifier(Modifier::UNDERLINED);

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("too small: it needs {} columns and {} lines; q quits", SMALLEST.0, SMALLEST.1);
        return frame.render_widget(Paragraph::new(text), area);
    }
    let Some(reading) = state.reading() else { return };
    let waiting = waiting(reading);
    let disks = state.disks();
    let height = usize::from(area.height);
    let disk_lines = disks.len().clamp(1, (height / 5).max(2));
    let mut latencies = latencies(state);
    latencies.extend(limits_line(state));
    // The map gets three fifths of the remaining lines, up to its maximum; processes get the rest.
    let used = 2 + waiting.len() + 2 + 1 + disk_lines + latencies.len();
    let rest = height.saturating_sub(used);
    let map_lines = if state.refused().is_some() { 0 } else { (rest * 3 / 5).min(MAP_MAX) };
    let [title, alarm, machine, disk_area, latency_area, map, process_area, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(waiting.len() as u16),
        Constraint::Length(2),
        Constraint::Length(1 + disk_lines as u16),
        Constraint::Length(latencies.len() as u16),
        Constraint::Length(map_lines as u16),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(title_line(state, area.width), title);
    frame.render_widget(Paragraph::new(waiting), alarm);
    frame.render_widget(Paragraph::new(machine_lines(reading)), machine);
    frame.render_widget(Paragraph::new(disk_table(state, &disks, disk_lines, area.width)), disk_area);
    frame.render_widget(Paragraph::new(latencies), latency_area);
    let shown = state.shown_disk().and_then(|disk| state.heatmap(&disk.rates.name));
    frame.render_widget(Drawn { heatmap: shown, has_color: has_color() }, map);
    frame.render_widget(
        Paragraph::new(process_table(state, usize::from(process_area.height), area.width)),
        process_area,
    );
    frame.render_widget(footer_line(state), footer);
    if state.is_help_shown() {
        help(frame, area);
    }
}

/// Returns a figure and its column width: a plain number if it fits, so that the unit stays that of the heading.
fn figure(value: f64, width: usize) -> (String, usize) {
    let whole = if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    (if whole.len() <= width { whole } else { format_count(value) }, width)
}

/// A figure with two decimals, or none if they do not fit.
fn precise(value: f64, width: usize) -> String {
    let precise = format!("{value:.2}");
    if precise.len() <= width { precise } else { format!("{value:.0}") }
}

/// Whether colours are wanted (no-color.org).
fn has_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn title_line(state: &State, width: u16) -> Line<'static> {
    let every = format_span_ns(state.interval_ns());
    let what = match state.place() {
        Some((at, count)) if at == count && state.is_paused() => format!("end of the recording, {at} reports"),
        Some((at, count)) if state.is_paused() => format!("PAUSED, report {at} of {count}"),
        Some((at, count)) => format!("report {at} of {count}, one every {every}"),
        None if state.is_paused() => "PAUSED".to_owned(),
        None => format!("every {every}"),
    };
    let time = state.reading().map_or_else(String::new, |reading| time(reading, state.place().is_some()));
    let left = "qd1 watch";
    let right = format!("{what}  {time}");
    let gap = usize::from(width).saturating_sub(left.len() + right.len());
    Line::from(vec![Span::styled(left, BOLD), Span::raw(" ".repeat(gap)), Span::raw(right)])
}

/// The time of a reading; with the date, if it was recorded.
fn time(reading: &Reading, has_date: bool) -> String {
    let at = jiff::Timestamp::from_microsecond((reading.unix_time_s * 1e6) as i64).unwrap_or_default();
    let at = at.to_zoned(jiff::tz::TimeZone::system());
    at.strftime(if has_date { "%Y-%m-%d %H:%M:%S" } else { "%H:%M:%S" }).to_string()
}

/// Requests and syncs that have been waiting for long, and who waits for them.
fn waiting(reading: &Reading) -> Vec<Line<'static>> {
    let name_of = |device: (u32, u32)| {
        let disk = reading.disks.iter().find(|disk| disk.numbers == Some(device));
        disk.map_or_else(|| format!("{}:{}", device.0, device.1), |disk| disk.rates.name.clone())
    };
    let age = |ns: u64| format!("{:.1} s", ns as f64 / 1e9);
    // Entries with the same text share one line, with the age of the oldest.
    let mut groups: HashMap<String, (u64, u64)> = HashMap::new();
    let mut wait = |what: String, age_ns: u64| {
        let group = groups.entry(what).or_default();
        *group = (group.0.max(age_ns), group.1 + 1);
    };
    for request in &reading.requests {
        let place = if request.is_issued { "in the device" } else { "in the queue" };
        let size = if request.bytes > 0 { format!(" of {}", Bytes(u64::from(request.bytes))) } else { String::new() };
        let (op, disk, who) = (request.op.name(), name_of(request.device), name(&request.asker.comm));
        wait(format!("{op}{size} on {disk} {place}, for {who} {}", request.asker.pid), request.age_ns);
    }
    for SyncReading { sync, waits_for } in &reading.syncs {
        let disk = if sync.device == (0, 0) { String::new() } else { format!(" on {}", name_of(sync.device)) };
        let who = name(&sync.asker.comm);
        let reason = if waits_for.is_empty() { String::new() } else { format!(", waits for {}", narrow(waits_for)) };
        wait(format!("{}{disk}, for {who} {}{reason}", sync.call, sync.asker.pid), sync.age_ns);
    }
    let mut groups: Vec<(String, (u64, u64))> = groups.into_iter().collect();
    groups.order_by(|a, b| b.1.0.cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
    let line = |(what, (age_ns, count)): (String, (u64, u64))| {
        let more = if count > 1 { format!(" (oldest of {count})") } else { String::new() };
        format!("{}: {what}{more}", age(age_ns))
    };
    let mut lines: Vec<String> = groups.into_iter().map(line).collect();
    let more = lines.len().saturating_sub(WAITING_MAX - 1);
    if lines.len() > WAITING_MAX {
        lines.truncate(WAITING_MAX - 1);
        lines.push(format!("and {more} more"));
    }
    let style = BOLD.add_modifier(Modifier::REVERSED);
    lines
        .into_iter()
        .map(|line| Line::from(vec![Span::styled("WAITING", style), Span::raw(" "), line.into()]))
        .collect()
}

fn machine_lines(reading: &Reading) -> Vec<Line<'static>> {
    let (cpu, now) = (&reading.rates.cpu, &reading.now);
    let pressure = reading.rates.pressure.map_or_else(String::new, |[cpu, io, memory]| {
        format!("  waited (PSI): io {io:.0} % cpu {cpu:.0} % mem {memory:.0} %")
    });
    let processors = format!(
        "cpu {:.0} us {:.0} sy {:.0} id {:.0} wa {:.0} st  r {} b {}{pressure}",
        cpu.user + cpu.nice,
        cpu.system,
        cpu.idle,
        cpu.iowait,
        cpu.steal,
        now.running,
        now.blocked
    );
    let memory = &now.memory;
    let bytes = |kib: u64| Bytes(kib * 1024);
    let limits = now
        .dirty_limits_kib
        .map_or_else(String::new, |[background, limit]| format!(" (limits {}, {})", bytes(background), bytes(limit)));
    let written = format!(
        "free {}  dirty {}{limits}  writeback {}",
        bytes(memory.free_kib),
        bytes(memory.dirty_kib),
        bytes(memory.writeback_kib)
    );
    vec![Line::from(processors), Line::from(written)]
}

/// A table row: a name, then figures aligned to the right in their columns.
fn row(first: &str, width: usize, figures: &[(String, usize)]) -> String {
    let mut line = format!("{:<width$}", clipped(first, width));
    for (figure, width) in figures {
        line.push(' ');
        line.push_str(&format!("{figure:>width$}"));
    }
    line
}

fn clipped(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

fn disk_table(state: &State, disks: &[&DiskReading], lines: usize, width: u16) -> Vec<Line<'static>> {
    let is_wide = width >= 110;
    let name_width = if is_wide { 12 } else { 8 };
    let columns = |disk: Option<&DiskRates>| -> Vec<(String, usize)> {
        let mut all = Vec::new();
        let mut add = |name: &str, width: usize, text: &dyn Fn(&DiskRates) -> String| {
            all.push((disk.map_or_else(|| name.to_owned(), text), width));
        };
        add("r/s", 6, &|disk| figure(disk.reads.per_second, 6).0);
        add("rkB/s", 6, &|disk| figure(disk.reads.kib, 6).0);
        add("r_await", 7, &|disk| precise(disk.reads.await_ms, 7));
        if is_wide {
            add("rareq-sz", 8, &|disk| format!("{:.1}", disk.reads.size_kib));
        }
        add("w/s", 6, &|disk| figure(disk.writes.per_second, 6).0);
        add("wkB/s", 6, &|disk| figure(disk.writes.kib, 6).0);
        add("w_await", 7, &|disk| precise(disk.writes.await_ms, 7));
        if is_wide {
            add("wareq-sz", 8, &|disk| format!("{:.1}", disk.writes.size_kib));
            add("d/s", 6, &|disk| figure(disk.discards.per_second, 6).0);
        }
        add("f/s", 5, &|disk| figure(disk.flushes.per_second, 5).0);
        add("f_await", 7, &|disk| precise(disk.flushes.await_ms, 7));
        add("aqu-sz", 6, &|disk| precise(disk.in_flight, 6));
        add("%util", 5, &|disk| format!("{:.0}", disk.busy));
        all
    };
    let heading = row("Device", name_width, &columns(None));
    let mut all = vec![Line::styled(heading, HEADING)];
    // If not all disks fit, show the busiest, and always the one whose latencies are shown.
    let shown = state.shown_disk().map(|disk| disk.rates.name.as_str());
    let mut fitting: Vec<&&DiskReading> = disks.iter().collect();
    let rank = |disk: &DiskReading| (shown != Some(disk.rates.name.as_str()), -disk.rates.busy);
    fitting.order_by(|a, b| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)));
    fitting.truncate(lines);
    for disk in disks.iter().filter(|disk| fitting.iter().any(|kept| kept.rates.name == disk.rates.name)) {
        let is_shown = shown == Some(disk.rates.name.as_str());
        let mark = if is_shown && disks.len() > 1 { ">" } else { "" };
        let line = row(&format!("{mark}{}", narrow(&disk.rates.name)), name_width, &columns(Some(&disk.rates)));
        all.push(Line::styled(line, if is_shown && disks.len() > 1 { BOLD } else { Style::new() }));
    }
    if disks.is_empty() {
        all.push(Line::from("no disk has had any requests"));
    }
    all
}

/// Latencies of the selected disk by operation, or why there are none.
fn latencies(state: &State) -> Vec<Line<'static>> {
    let Some(disk) = state.shown_disk() else { return Vec::new() };
    if let Some(reason) = state.refused() {
        let mut lines = Vec::new();
        // Wrapped at 80 columns.
        let whose = if rustix::process::geteuid().is_root() { "" } else { " Of processes, only your own are shown." };
        let words = format!("no latencies, syncs or waits: {reason}.{whose}");
        let mut line = String::new();
        for word in words.split(' ') {
            if line.len() + word.len() + 1 > 80 {
                lines.push(Line::from(std::mem::take(&mut line)));
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
        lines.push(Line::from(line));
        return lines;
    }
    let columns = ["/s", "p50", "p99", "p99.9", "max", "device p99", "queue p99"];
    let widths = [7, 8, 8, 8, 8, 10, 10];
    let headings: Vec<(String, usize)> = columns.into_iter().map(str::to_owned).zip(widths).collect();
    let mut lines = vec![Line::styled(row(&latency_heading(&narrow(&disk.rates.name)), 13, &headings), HEADING)];
    let seconds = state.reading().map_or(1.0, |reading| reading.rates.seconds);
    let recorded = disk.latencies.as_deref();
    for (op, latencies) in
        recorded.unwrap_or_default().iter().filter(|(_, latencies)| latencies.count(Stage::Total) > 0)
    {
        let time = |stage: Stage, share: f64| match latencies.quantile_ns(stage, share) {
            Some(ns) if ns < 64 => "<64 ns".to_owned(),
            Some(ns) => format_ns(ns as f64),
            None => "-".to_owned(),
        };
        let figures = [
            figure(latencies.count(Stage::Total) as f64 / seconds, 7).0,
            time(Stage::Total, 0.5),
            time(Stage::Total, 0.99),
            time(Stage::Total, 0.999),
            time(Stage::Total, 1.0),
            time(Stage::Device, 0.99),
            time(Stage::Queue, 0.99),
        ];
        let figures: Vec<(String, usize)> = figures.into_iter().zip(widths).collect();
        lines.push(Line::from(row(op.name(), 13, &figures)));
    }
    if let Some(reason) = state.reading().map(|reading| &reading.no_waits).filter(|reason| !reason.is_empty()) {
        lines.push(Line::from(format!("no syncs or waits: {}", narrow(reason))));
    }
    if recorded.is_none() {
        lines.push(Line::from("latencies of this disk are not recorded"));
    } else if lines.len() == 1 {
        lines.push(Line::from("no requests"));
    }
    lines.extend(state.reading().and_then(Reading::unrecorded).map(Line::from));
    lines
}

/// The time above the limits of the selected disk, if it counts that.
fn limits_line(state: &State) -> Option<Line<'static>> {
    let disk = &state.shown_disk()?.rates.name;
    Some(Line::from(format!("{} limits: {}", narrow(disk), limits::shown(state.limits(disk)?))))
}

fn latency_heading(disk: &str) -> String {
    let whole = format!("{disk} latency");
    if whole.chars().count() <= 13 { whole } else { disk.to_owned() }
}

fn process_table(state: &State, lines: usize, width: u16) -> Vec<Line<'static>> {
    if state.refused().is_some() && state.processes().is_empty() || lines == 0 {
        return Vec::new();
    }
    let mark = |of: Sort, name: &str| if state.sort() == of { format!("{name}*") } else { name.to_owned() };
    let headings = [
        (mark(Sort::Read, "rkB/s"), 7),
        (mark(Sort::Written, "wkB/s"), 7),
        (mark(Sort::Changed, "chgkB/s"), 8),
        ("syncs/s".to_owned(), 7),
        (mark(Sort::SyncWait, "sync wait"), 10),
        ("longest".to_owned(), 7),
    ];
    // The rest of the line is for names.
    let figures_width: usize = headings.iter().map(|(_, width)| width + 1).sum();
    let name_width = usize::from(width).saturating_sub(figures_width).min(60);
    let first = if state.refused().is_some() {
        "    PID COMMAND (all disks)"
    } else if state.is_by_cgroup() {
        "CONTROL GROUP"
    } else {
        "    PID COMMAND"
    };
    let mut all = vec![Line::styled(row(first, name_width, &headings), HEADING)];
    // The kernel's accounts have neither writes apart from changes nor syncs.
    let is_seen = state.refused().is_none();
    let seen = |(text, width): (String, usize)| (if is_seen { text } else { "-".to_owned() }, width);
    let figures = |of: &ProcessReading| {
        let longest = of.process.longest_sync_ns;
        [
            figure(of.read / 1024.0, 7),
            seen(figure(of.written / 1024.0, 7)),
            figure(of.changed / 1024.0, 8),
            seen(figure(of.syncs, 7)),
            seen((format!("{:.0} ms/s", of.sync_wait * 1e3), 10)),
            (if longest > 0 { format_ns(longest as f64) } else { "-".to_owned() }, 7),
        ]
    };
    if state.is_by_cgroup() && state.refused().is_none() {
        for (cgroup, of) in state.cgroups().into_iter().take(lines - 1) {
            // The end of the name is the most telling part.
            let skipped = cgroup.chars().count().saturating_sub(name_width);
            let end: String = narrow(&cgroup).chars().skip(skipped).collect();
            all.push(Line::from(row(&end, name_width, &figures(&of))));
        }
    } else {
        for (of, count) in fitting(state.processes(), lines - 1) {
            let more = if count > 1 { format!(" +{}", count - 1) } else { String::new() };
            let first = format!("{:>7} {}{more}", of.process.pid, name(&of.process.comm));
            all.push(Line::from(row(&first, name_width, &figures(&of))));
        }
    }
    all
}

/// The first processes; the last line is for the one that waits most for its syncs, if it is not among them.
fn fitting(mut all: Vec<(ProcessReading, usize)>, lines: usize) -> Vec<(ProcessReading, usize)> {
    let wait = |at: usize| all[at].0.sync_wait;
    let worst = (0..all.len()).max_by(|a, b| wait(*a).total_cmp(&wait(*b)));
    if let Some(worst) = worst.filter(|worst| *worst >= lines && lines > 0 && wait(*worst) >= SUFFERS) {
        all.swap(worst, lines - 1);
    }
    all.truncate(lines);
    all
}

fn footer_line(state: &State) -> Line<'static> {
    match state.filter() {
        (filter, true) => Line::from(format!("filter, name contains: {filter}_  (Enter applies, Esc clears)")),
        ("", false) if state.place().is_some() => {
            Line::from("q quit  h help  left/right, Home/End: move  Tab next disk  s sort  p pause")
        }
        ("", false) => Line::from("q quit  h help  Tab next disk  s sort  c control groups  / filter  p pause"),
        (filter, false) => Line::from(format!("q quit  h help  only names containing \"{filter}\" (Esc shows all)")),
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width =
        HELP.iter().map(|(keys, what)| keys.len().max(16) + what.len() + 5).chain([80]).max().unwrap_or(0) as u16;
    let height = HELP.len() as u16 + 9;
    let place = Rect {
        x: area.width.saturating_sub(width) / 2,
        y: area.height.saturating_sub(height) / 2,
        width: width.min(area.width),
        height: height.min(area.height),
    };
    let mut lines: Vec<Line<'_>> = HELP.iter().map(|(keys, what)| Line::from(format!(" {keys:<16} {what}"))).collect();
    lines.extend([
        Line::default(),
        Line::from(" The map has a column for each interval and a row for each range of latencies"),
        Line::from(" (labelled with its start): \u{2591} few requests, \u{2592} more, \u{2593} many, \u{2588} most."),
        Line::from(" chgkB/s: data changed in memory, to be written later. Processes that read,"),
        Line::from(" write or change much cause load; those with much sync wait suffer from it."),
        Line::from(" Disks have the columns of iostat -x. - means too few requests. dd +3: and three"),
        Line::from(" more processes of this name."),
    ]);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), place);
}
