//! One brief run of every kind, made once: what it printed, and what the history shows of it. What has to hold of every
//! kind is tested here; what is special to one, in the file of its command.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::common::{Place, json, names, schema, text};

/// A kind of run: its name in these tests, its command, and its arguments behind the directory to measure.
struct Kind {
    name: &'static str,
    command: &'static [&'static str],
    args: &'static [&'static str],
    /// What a person has to be shown.
    words: &'static [&'static str],
    run: OnceLock<Kept>,
}

/// A run that is over, with its directory gone.
pub(crate) struct Kept {
    /// What it printed.
    pub(crate) report: Value,
    /// What the history shows of it, by format.
    pub(crate) shown: BTreeMap<&'static str, String>,
    /// For people, in colour.
    coloured: String,
    /// For people, in colour by force and against NO_COLOR.
    against: String,
    /// What it left in the directory, and how many runs in the history.
    left: (Vec<String>, usize),
    /// The directory, which a redacted report must not name, and that report.
    redacted: (String, String),
}

/// The formats of reports, with what people get first.
const FORMATS: [&str; 7] = ["human", "json", "markdown", "csv", "ndjson", "post", "openmetrics"];

const fn kind(
    name: &'static str,
    command: &'static [&'static str],
    args: &'static [&'static str],
    words: &'static [&'static str],
) -> Kind {
    Kind { name, command, args, words, run: OnceLock::new() }
}

static KINDS: [Kind; 10] = [
    kind("check", &["check"], &["--size", "32MiB", "--runtime", "200ms"], &["commit1", "Nothing is judged: "]),
    kind(
        "load",
        &["check"],
        &["--size", "32MiB", "--runtime", "1s", "--only", "commit1", "--with-load"],
        &["written, ", "commit1-load"],
    ),
    kind(
        "suite",
        &["run", "vps-latency"],
        &["--size", "64MiB", "--runtime", "60ms", "--quick"],
        &["Steps          per second   throughput   p50"],
    ),
    // Two directions, two sizes, three depths, two passes: 24 steps.
    kind(
        "sweep",
        &["sweep"],
        &["--size=16MiB", "--runtime=40ms", "--bs=4k,16k", "--iodepth=1,2,4", "--seed=7", "--max-p99=1us"],
        &["randread: p99 latency", "Knees", "X: p99 is above 1.00 us", "none"],
    ),
    kind(
        "sync",
        &["sync"],
        &["--quick", "--size", "16MiB", "--runtime", "30ms", "--seed=7"],
        &["NOT DURABLE", "wal_sync_method=fdatasync", "sync_file_range makes nothing durable", "Concurrent committers"],
    ),
    kind(
        "meta",
        &["meta"],
        &["--files", "600", "--per-dir", "100", "--workers", "2", "--file-size", "1k..9k", "--seed", "7"],
        &["File operations, 600 files of 1 KiB to 9 KiB, 100 in a directory", "Random order"],
    ),
    kind(
        "identify",
        &["identify"],
        &["--quick", "--size", "256MiB", "--runtime", "300ms", "--seed", "5"],
        &["Kind of storage:", "How likely", "Why"],
    ),
    kind(
        "predict",
        &["predict"],
        &["--quick", "--size", "32MiB", "--runtime", "200ms", "--seed", "7"],
        &["What to expect", "SQLite commits/s, WAL FULL", "limited by"],
    ),
    kind(
        "bonnie",
        &["meta", "--suite", "bonnie"],
        &["--size", "32MiB", "--ram", "0", "--seed", "7"],
        &["bonnie++'s job", "One file", "Random order"],
    ),
    kind("sqlite", &["app", "sqlite"], &["--rows", "500", "--runtime", "300ms"], &["wal-full", "SQLite"]),
];

/// The run of this kind, made by whoever asks first.
pub(crate) fn kept(name: &str) -> &'static Kept {
    let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
    kind.run.get_or_init(|| Kept::of(kind))
}

impl Kept {
    fn of(kind: &Kind) -> Self {
        // In real time on a quiet disk: each step of a moment has to measure something.
        let place = Place::quiet();
        let args = [kind.command, &[place.dir_str()], kind.args, &["--json", "--quiet"]].concat();
        let report = json(assert_cmd::Command::from_std(place.real_time(&args)));
        let id = report["record"]["id"].as_str().unwrap();
        let show = |args: &[&str]| place.qd1(&[&["history", "show", id], args].concat());
        let shown = |format| {
            let output = show(&["--format", format]).output().unwrap();
            assert!(output.status.success(), "{format} of {}: {output:?}", kind.name);
            (format, String::from_utf8(output.stdout).unwrap())
        };
        let mut against = show(&[]);
        against.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1");
        Self {
            shown: FORMATS.into_iter().map(shown).collect(),
            coloured: text(show(&["--color", "always"])),
            against: text(against),
            left: (names(place.dir()), place.runs().len()),
            redacted: (place.dir_str().to_owned(), text(show(&["--redact"]))),
            report,
        }
    }
}

/// The text without its colours.
fn without_colour(coloured: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for letter in coloured.chars() {
        inside |= letter == '\u{1b}';
        if !inside {
            plain.push(letter);
        }
        inside &= letter != 'm';
    }
    plain
}

#[test]
fn each_kind_of_run_leaves_nothing_and_is_shown_again_as_it_was() {
    for Kind { name, words, .. } in &KINDS {
        let kept = kept(name);
        assert_eq!(kept.left, (Vec::new(), 1), "{name}");
        let again: Value = serde_json::from_str(&kept.shown["json"]).unwrap();
        assert!(again == kept.report, "{name} is shown as another");
        let human = &kept.shown["human"];
        for word in *words {
            assert!(human.contains(word), "{name}: {word} is not in\n{human}");
        }
        let (path, redacted) = &kept.redacted;
        assert!(!redacted.contains(path), "{name}: the path is left in\n{redacted}");
    }
}

#[test]
fn the_report_of_each_kind_is_what_the_schema_says() {
    let schema = json(Place::new().qd1(&["schema"]));
    for Kind { name, .. } in &KINDS {
        assert_eq!(schema::faults(&schema, &schema, &kept(name).report, ""), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_is_shown_of_each_kind_fits_80_columns() {
    for Kind { name, .. } in &KINDS {
        let shown = &kept(name).shown["human"];
        // The command to run it again is never wrapped: a broken line could not be pasted.
        let (body, _) = shown.split_once("\nRun it again").unwrap_or_else(|| panic!("{name} cannot be repeated"));
        let long: Vec<&str> = body.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(long, Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn colour_only_wraps_what_is_there_and_comes_only_where_wanted() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for Kind { name, .. } in &KINDS {
        let kept = kept(name);
        assert!(kept.coloured.contains("\u{1b}["), "{name}: {}", kept.coloured);
        assert_eq!(words(&without_colour(&kept.coloured)), words(&kept.shown["human"]), "{name}");
        assert!(!kept.shown["human"].contains('\u{1b}') && !kept.against.contains('\u{1b}'), "{name}");
    }
}
