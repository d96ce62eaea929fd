//! House rules that no lint knows: how a file opens, how long it is, where `unsafe` and clap may be, what must not be
//! left behind, what `cargo run` runs.

use std::path::Path;

use anyhow::{Result, bail};

use serde_json::Value;

use super::rust::{code_of, has_word};
use super::{Notes, sources};
use crate::metadata;

/// Lines of a file before its tests: above the first a note, above the second a failure.
const LINES_NOTED: usize = 400;
const LINES_MAX: usize = 500;

/// Where `unsafe` may be written: what reads the processor's counter, what issues I/O, what asks the kernel, what traces it,
/// and the simulated disk.
const UNSAFE_HOMES: &[&str] = &["crates/clock/", "crates/engine/", "crates/probe/", "crates/trace/", "crates/simdisk/"];

/// Where clap may be used: the commands themselves, and the command line that they share. All else is called with plain
/// options. This package has a command line of its own.
const CLAP_HOMES: &[&str] =
    &["crates/app/src/commands/", "crates/app/src/cli", "crates/app/src/args.rs", "crates/app/src/main.rs", "xtask/"];

/// Where a report may be asked for the part of one kind of run: the parts, how they are worked out, their sections and charts,
/// the command of that kind, and what is for tests alone. All else loops over the parts.
const PART_HOMES: &[&str] = &[
    "crates/model/src/part.rs",
    "crates/model/src/report.rs",
    "crates/analysis/src/parts.rs",
    "crates/report/src/sections/",
    "crates/report/src/plot/",
    "crates/report/src/samples/",
    "crates/app/src/commands/",
    "crates/truth/",
];
/// How it is asked.
const ASKS: &[&str] = &[concat!(".pa", "rt::<"), concat!(".part_", "mut::<"), concat!("Is", "Part")];

/// Code that says that something is missing. Split, so that this table does not find itself.
const LEFT_BEHIND: &[&str] = &[concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("#[", "ignore")];
/// Marks in comments that say the same.
const MARKS: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X")];

/// What was found in the files.
#[derive(Default, Debug)]
struct Found {
    faults: Vec<String>,
    notes: Vec<String>,
}

pub(super) fn run() -> Result<Notes> {
    let mut found = Found::default();
    for (path, source) in sources(&["*.rs"])? {
        scan(&path, &source, &mut found);
    }
    let metadata = metadata::workspace()?;
    found.faults.extend(doctests(&metadata));
    let binaries = default_binaries(&metadata);
    if binaries != ["qd1"] {
        found.faults.push(format!("Cargo.toml: `cargo run` has to run qd1; its default members have {binaries:?}"));
    }
    if !found.faults.is_empty() {
        bail!("{}", found.faults.join("\n"));
    }
    Ok(found.notes)
}

/// Libraries whose documentation may have examples, which `cargo xtask test` would not run.
fn doctests(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let tested = targets.filter(|target| target["doctest"] == true);
    tested.map(|target| format!("{}: its [lib] has to say doctest = false", target["name"])).collect()
}

/// Names of the programs that `cargo run` may run without a name.
fn default_binaries(metadata: &Value) -> Vec<&str> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let members = list(&metadata["workspace_default_members"]);
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages
        .filter(|package| members.contains(&package["id"]))
        .flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let programs = targets.filter(|target| list(&target["kind"]).contains(&Value::from("bin")));
    programs.filter_map(|target| target["name"].as_str()).collect()
}

/// Holds one file against the rules.
fn scan(path: &str, source: &str, found: &mut Found) {
    let mut fault = |line: usize, what: &str| found.faults.push(format!("{path}:{line}: {what}"));
    if !source.starts_with("//!") {
        fault(1, "the file must open with //!: what it is, and why");
    }
    let code = code_of(source);
    let may_be_unsafe = UNSAFE_HOMES.iter().any(|home| path.starts_with(home));
    for (index, (line, raw)) in code.lines().zip(source.lines()).enumerate() {
        if !may_be_unsafe && has_word(line, "unsafe") {
            fault(index + 1, "unsafe belongs in clock, engine, probe, trace and simdisk only");
        }
        for word in LEFT_BEHIND.iter().filter(|word| line.contains(**word)) {
            fault(index + 1, &format!("{word} must not be left behind"));
        }
        for mark in MARKS.iter().filter(|mark| has_word(raw, mark)) {
            fault(index + 1, &format!("{mark} must not be left behind"));
        }
    }
    let lines = lines_before_tests(&code);
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let asks = |line: &str| ASKS.iter().any(|ask| line.contains(ask));
    if !is_test
        && !PART_HOMES.iter().any(|home| path.starts_with(home))
        && let Some(index) = code.lines().take(lines).position(asks)
    {
        fault(index + 1, "a report is asked for its kind here: let its section say it (crates/report/src/sections)");
    }
    let clap = code.lines().position(|line| has_word(line, "clap"));
    if let Some(index) = clap.filter(|_| !CLAP_HOMES.iter().any(|home| path.starts_with(home))) {
        fault(index + 1, "clap belongs in app/src/commands, cli, args.rs and main.rs only: take plain options");
    }
    if is_crate_root(path) && !may_be_unsafe && !code.contains("#![forbid(unsafe_code)]") {
        fault(1, "a crate other than clock, engine, probe, trace and simdisk says #![forbid(unsafe_code)]");
    }
    if lines > LINES_MAX {
        fault(lines, &format!("{lines} lines before the tests; {LINES_MAX} are the limit: split the file"));
    } else if lines > LINES_NOTED {
        found
            .notes
            .push(format!("{path}: {lines} lines before the tests; about {LINES_NOTED} are the house's measure"));
    }
}

fn is_crate_root(path: &str) -> bool {
    let in_src = Path::new(path).parent().is_some_and(|parent| parent.ends_with("src"));
    in_src && (path.ends_with("/lib.rs") || path.ends_with("/main.rs"))
}

/// Lines before the test module; all where there is none. A `#[cfg(test)]` that marks something else does not count.
fn lines_before_tests(code: &str) -> usize {
    let lines: Vec<_> = code.lines().map(str::trim).collect();
    let opens = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    lines.windows(2).position(opens).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, source: &str) -> Found {
        let mut found = Found::default();
        scan(path, source, &mut found);
        found
    }

    #[test]
    fn a_file_in_order_has_no_faults() {
        let found = found("crates/app/src/main.rs", "//! The app.\n#![forbid(unsafe_code)]\n\nfn main() {}\n");
        assert!(found.faults.is_empty() && found.notes.is_empty(), "{found:?}");
    }

    #[test]
    fn each_fault_names_its_line() {
        let left = LEFT_BEHIND.map_lines();
        let faults = found("crates/app/src/cli.rs", &format!("fn f() {{\n    unsafe {{ g() }}\n{left}}}\n")).faults;
        assert_eq!(faults.len(), 2 + LEFT_BEHIND.len(), "{faults:?}");
        assert!(faults[0].starts_with("crates/app/src/cli.rs:1: the file must open"));
        assert!(faults[1].starts_with("crates/app/src/cli.rs:2: unsafe"));
        assert!(faults[2].starts_with("crates/app/src/cli.rs:3: "));
    }

    #[test]
    fn marks_are_found_in_comments() {
        let source = format!("//! File.\n// {}: later\n", MARKS[0]);
        assert_eq!(found("crates/model/src/a.rs", &source).faults.len(), 1);
    }

    #[test]
    fn the_engine_may_be_unsafe_and_words_in_text_are_no_code() {
        assert!(found("crates/engine/src/uring.rs", "//! Rings.\nfn f() { unsafe {} }\n").faults.is_empty());
        assert!(found("crates/model/src/a.rs", "//! No unsafe here.\nconst A: &str = \"unsafe\";\n").faults.is_empty());
    }

    #[test]
    fn a_report_is_asked_for_its_kind_in_sections_alone() {
        let source = format!("//! A format.\nfn f() {{\n    report{}Surface>();\n}}\n", ASKS[0]);
        assert!(found("crates/report/src/formats/csv.rs", &source).faults[0].contains(":3: a report is asked"));
        assert!(found("crates/report/src/sections/sweep.rs", &source).faults.is_empty());
        let tested = source.replace("fn f", "#[cfg(test)]\nmod tests {\nfn f");
        assert!(found("crates/report/src/formats/csv.rs", &tested).faults.is_empty());
    }

    #[test]
    fn clap_stays_with_the_commands() {
        let with_clap = "//! Arguments.\nuse clap::Args;\n// Of clap.\n#[derive(clap::Parser)]\nstruct A;\n";
        for home in [
            "crates/app/src/commands/ping/mod.rs",
            "crates/app/src/cli.rs",
            "crates/app/src/cli/option_help.rs",
            "xtask/src/fuzz.rs",
        ] {
            assert!(found(home, with_clap).faults.is_empty(), "{home}");
        }
        for elsewhere in ["crates/app/src/session.rs", "crates/programs/src/etcd.rs", "crates/app/src/ping/args.rs"] {
            let faults = found(elsewhere, with_clap).faults;
            assert_eq!(faults.len(), 1, "{elsewhere}: {faults:?}");
            assert!(faults[0].starts_with(&format!("{elsewhere}:2: clap belongs in")), "{faults:?}");
        }
    }

    #[test]
    fn cargo_run_has_one_program_to_run() {
        let package = |id: &str, kind: &str| serde_json::json!({"id": id, "targets": [{"name": id, "kind": [kind]}]});
        let packages = [package("qd1", "bin"), package("xtask", "bin"), package("model", "lib")];
        let members = |names: &[&str]| serde_json::json!({"packages": packages, "workspace_default_members": names});
        assert_eq!(default_binaries(&members(&["qd1", "model"])), ["qd1"]);
        assert_eq!(default_binaries(&members(&["qd1", "model", "xtask"])), ["qd1", "xtask"]);
    }

    #[test]
    fn a_crate_root_forbids_unsafe() {
        assert_eq!(found("crates/model/src/lib.rs", "//! Model.\n").faults.len(), 1);
        assert!(found("crates/model/src/a/b.rs", "//! Part.\n").faults.is_empty());
    }

    #[test]
    fn length_counts_up_to_the_tests() {
        let long = |lines: usize| format!("//! Long.\n{}", "fn f() {}\n".repeat(lines - 1));
        assert!(found("a.rs", &long(LINES_NOTED)).notes.is_empty());
        assert_eq!(found("a.rs", &long(LINES_NOTED + 1)).notes.len(), 1);
        assert_eq!(found("a.rs", &long(LINES_MAX + 1)).faults.len(), 1);
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", long(100), "fn g() {}\n".repeat(900));
        assert!(found("a.rs", &tested).faults.is_empty());
    }

    trait MapLines {
        fn map_lines(&self) -> String;
    }

    impl MapLines for [&str] {
        /// The words, a line each.
        fn map_lines(&self) -> String {
            self.iter().map(|word| format!("    {word}\n")).collect()
        }
    }
}
