//! House rules that no lint covers. How a file begins, where `unsafe` and clap may be used and what must not be left
//! behind are ast-grep rules in `xtask/house`; here are the length of files, what `cargo run` runs, and that examples
//! are tests.

use std::fs;

use anyhow::{Context as _, Result, bail};
use qd1_lab::cmd;
use serde_json::Value;

use super::{Notes, ast_grep};
use crate::metadata;

/// Lines of a file before its tests: more than the first gives a note, more than the second a failure.
const LINES_NOTED: usize = 400;
const LINES_MAX: usize = 500;

pub(super) fn run() -> Result<Notes> {
    let (mut faults, mut notes) = (Vec::new(), Vec::new());
    let mut list = cmd::command("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "*.rs"]);
    let listed = cmd::capture(&mut list)?;
    // A file may be deleted without the deletion being committed yet.
    for path in listed.lines().filter(|path| cmd::root().join(path).is_file()) {
        let source = fs::read_to_string(cmd::root().join(path)).with_context(|| format!("cannot read {path}"))?;
        let lines = lines_before_tests(&source);
        if lines > LINES_MAX {
            faults.push(format!("{path}: {lines} lines before the tests; the limit is {LINES_MAX}: split the file"));
        } else if lines > LINES_NOTED {
            notes.push(format!("{path}: {lines} lines before the tests; files should have about {LINES_NOTED}"));
        }
    }
    let metadata = metadata::workspace()?;
    let binaries = default_binaries(&metadata);
    if binaries != ["qd1"] {
        faults.push(format!("Cargo.toml: `cargo run` must run qd1; the default members have {binaries:?}"));
    }
    faults.extend(doctests(&metadata));
    // The rules have their own tests, which show whether they still find anything.
    for rules in [&["test", "--skip-snapshot-tests"][..], &["scan"]] {
        faults.extend(ast_grep(rules).err().map(|error| error.to_string()));
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(notes)
}

/// Lines before the test module; all where there is none. A `#[cfg(test)]` that marks something else does not count.
fn lines_before_tests(source: &str) -> usize {
    let lines: Vec<_> = source.lines().collect();
    let opens = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    lines.windows(2).position(opens).unwrap_or(lines.len())
}

/// Libraries whose documentation may have examples, which `cargo xtask test` would not run.
fn doctests(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let tested = targets.filter(|target| target["doctest"] == true);
    tested.map(|target| format!("{}: its [lib] must say doctest = false", target["name"])).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_run_has_one_program_to_run() {
        let package = |id: &str, kind: &str| serde_json::json!({"id": id, "targets": [{"name": id, "kind": [kind]}]});
        let packages = [package("qd1", "bin"), package("xtask", "bin"), package("model", "lib")];
        let members = |names: &[&str]| serde_json::json!({"packages": packages, "workspace_default_members": names});
        assert_eq!(default_binaries(&members(&["qd1", "model"])), ["qd1"]);
        assert_eq!(default_binaries(&members(&["qd1", "model", "xtask"])), ["qd1", "xtask"]);
    }

    #[test]
    fn length_counts_up_to_the_tests() {
        let long = |lines: usize| "fn f() {}\n".repeat(lines);
        assert_eq!(lines_before_tests(&long(500)), 500);
        assert_eq!(lines_before_tests(&format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", long(100), long(900))), 100);
        assert_eq!(lines_before_tests(&format!("#[cfg(test)]\nmod tests;\n{}", long(10))), 12);
    }
}
