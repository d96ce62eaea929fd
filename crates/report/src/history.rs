//! `qd1 history`: the saved runs, as a table for people and as JSON.

use jiff::tz::TimeZone;

use crate::formats::document;
use crate::page::Style;
use crate::page::{BOLD, DIM, MIDDLING, Page, shorten, wrap};
use crate::words::when;
use qd1_model::history::Row;
use qd1_model::printable;

/// Where a run's headline begins, below its line.
const INDENT: usize = 10;
/// Lines of it at most; those of a check have two.
const LINES_MAX: usize = 4;

/// Returns a few lines per run, the newest first: which run it is, and what it found, with times in `zone`.
pub fn history_human(rows: &[Row], style: &Style, zone: &TimeZone) -> String {
    let mut page = Page::new(style);
    if rows.is_empty() {
        page.line("no runs yet; `qd1 check PATH` makes one");
        return page.text;
    }
    let cells: Vec<[String; 5]> = rows.iter().map(|row| cells(row, zone)).collect();
    let titles = ["run", "when", "suite", "took", "disk"];
    let widths: Vec<usize> = (0..titles.len())
        .map(|at| cells.iter().map(|cell| cell[at].chars().count()).chain([titles[at].len()]).max().unwrap_or(0))
        .collect();
    let joined = |cells: &[String]| -> String {
        cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  ")).collect()
    };
    let heading = page.paint(BOLD, &format!("{}path", joined(&titles.map(String::from))));
    page.line(&heading);
    let before: usize = widths.iter().map(|width| width + 2).sum();
    for (row, cells) in rows.iter().zip(&cells) {
        let (note, length) = if row.interrupted { ("  interrupted", 13) } else { ("", 0) };
        let path = shorten(&printable(&row.path), page.style.width.saturating_sub(before + length).max(8));
        let note = page.paint(MIDDLING, note);
        page.line(&format!("{}{path}{note}", joined(cells)));
        let tags = row.tags.iter().map(|tag| format!("@{tag}")).collect::<Vec<_>>().join(" ");
        let said = [tags.as_str(), row.note.as_deref().unwrap_or_default()];
        let said = said.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        for line in
            wrap(&printable(&said), page.style.width.saturating_sub(INDENT).max(8)).iter().filter(|_| !said.is_empty())
        {
            page.line(&format!("{:INDENT$}{line}", ""));
        }
        if let Some(headline) = row.headline.as_deref().filter(|headline| !headline.is_empty()) {
            let room = page.style.width.saturating_sub(INDENT).max(8);
            let mut lines = wrap(&printable(headline), room.saturating_sub(3));
            if lines.len() > LINES_MAX {
                lines.truncate(LINES_MAX);
                lines[LINES_MAX - 1] += "...";
            }
            for line in lines {
                let line = page.paint(DIM, &line);
                page.line(&format!("{:INDENT$}{line}", ""));
            }
        }
    }
    page.text
}

fn cells(row: &Row, zone: &TimeZone) -> [String; 5] {
    let disk = match (row.filesystem.as_str(), row.device.as_str()) {
        ("", device) => device.to_owned(),
        (filesystem, "") => filesystem.to_owned(),
        (filesystem, device) => format!("{filesystem} on {device}"),
    };
    let when = when(row.started_unix_ns, zone);
    // Eight digits are enough to identify a run; all twelve are in the JSON.
    let id = row.id.chars().take(8).collect::<String>();
    let suite = shorten(&printable(&row.suite), 16);
    [printable(&id).into_owned(), when, suite, took(row.elapsed_ns), shorten(&printable(&disk), 16)]
}

/// Formats a duration for a narrow column: `71 s`, `12 min`.
fn took(ns: u64) -> String {
    let seconds = (ns + 500_000_000) / 1_000_000_000;
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", (seconds + 30) / 60) }
}

/// Returns the rows as a JSON array.
pub fn history_json(rows: &[Row]) -> String {
    document(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = Row {
            id: "4f2a9c01d3e7".into(),
            started_unix_ns: 1_771_064_551_000_000_000,
            elapsed_ns: 71_300_000_000,
            suite: "check".into(),
            path: "/srv/data".into(),
            device: "vda1".into(),
            filesystem: "ext4".into(),
            version: "0.1.0".into(),
            interrupted: false,
            headline: Some("commits p99 12.9 ms, reads p99.9 2.46 ms; 1 pass, 2 marginal, 2 open".into()),
            tags: vec!["before-upgrade".into(), "nightly".into()],
            note: Some("after the controller was replaced".into()),
            ..Row::default()
        };
        let long = "/var/lib/containers/storage/overlay/9f8e7d6c5b4a/merged/srv/postgresql".to_owned();
        let second = Row {
            id: "a00000000001".into(),
            path: long,
            interrupted: true,
            elapsed_ns: 130_000_000_000,
            headline: None,
            ..row.clone()
        };
        let third = Row {
            suite: "sweep".into(),
            filesystem: String::new(),
            device: "nvme0n1".into(),
            path: "/dev/nvme0n1".into(),
            headline: Some(
                "randread 4k up to 182k IOPS, knee 14 [12..17]; randwrite 4k up to 96.0k IOPS, knee 7.1 [6.2..8.4]"
                    .into(),
            ),
            ..row.clone()
        };
        vec![row, second, third]
    }

    #[test]
    fn history_snapshot_at_80_columns_in_local_time() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let text = history_human(&rows(), &Style::plain(80), &zone);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn an_empty_history_says_how_to_begin() {
        let text = history_human(&[], &Style::plain(80), &TimeZone::UTC);
        assert!(text.contains("qd1 check PATH"));
    }

    #[test]
    fn history_as_json_holds_the_same_rows() {
        let json: serde_json::Value = serde_json::from_str(&history_json(&rows())).unwrap();
        assert_eq!(json[1]["interrupted"], true);
        assert_eq!(json[0]["started_unix_ns"], 1_771_064_551_000_000_000_u64);
    }
}
