//! `cargo xtask test`: builds and runs every test and sums the result up in one line.
//!
//! A test that cannot run here (no root, no loop device) passes for cargo. It says so by appending `name: why` to the
//! file that QD1_SKIP_LOG names; it is then counted as skipped and listed, never silently green.

use std::fs;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{cmd, examples, metadata, python, setup};

/// The counts of one run.
#[derive(Default, Debug, PartialEq, Eq)]
struct Sum {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Runs the tests with these arguments for cargo. False where one failed.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    setup::run()?;
    let target = metadata::target_dir()?;
    fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    // A log of its own for each run: two runs at a time must not count each other's tests.
    let log = tempfile::Builder::new().prefix("skipped-").suffix(".log").tempfile_in(&target)?;
    let mut test = cmd::cargo();
    test.args(["test", "--no-fail-fast"]);
    if !names_a_package(args) {
        test.arg("--workspace");
    }
    test.args(args).env("QD1_SKIP_LOG", log.path());
    let jobs = examples::dir()?;
    if jobs.is_dir() {
        test.env("QD1_FIO_EXAMPLES", jobs);
    }
    if let Some(plot) = python::dir()?.filter(|dir| dir.is_dir()) {
        test.env("QD1_FIO_PLOT", plot);
    }
    // The test that runs the lab calls us.
    test.env("QD1_XTASK", std::env::current_exe().context("cannot find our own program")?);
    let (mut sum, success) = stream(&mut test)?;
    let skips = read_skips(log.path())?;
    sum.finish(skips.len(), success);
    for skip in &skips {
        println!("SKIPPED: {skip}");
    }
    if !success && sum.failed == 1 {
        eprintln!("cargo test failed; the reason is above");
    }
    println!("{sum}");
    Ok(sum.failed == 0)
}

/// Whether the arguments choose packages themselves; `--workspace` would override them.
fn names_a_package(args: &[String]) -> bool {
    let cargo_args = args.iter().take_while(|arg| *arg != "--");
    cargo_args.into_iter().any(|arg| {
        let long = ["--package", "--manifest-path", "--workspace"].iter().any(|flag| arg.starts_with(flag));
        long || (arg.starts_with("-p") && !arg.starts_with("--"))
    })
}

/// Runs cargo, passes its output on as it comes, and adds up the results in it.
fn stream(test: &mut Command) -> Result<(Sum, bool)> {
    let mut child = test.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let pipe = child.stdout.take().context("cargo test has no stdout")?;
    let mut sum = Sum::default();
    for line in BufReader::new(pipe).split(b'\n') {
        // A test may print anything; only the summary lines must be text.
        let line = line.context("cannot read what cargo test prints")?;
        sum.add(&String::from_utf8_lossy(&line));
        let mut out = stdout().lock();
        out.write_all(&line)?;
        out.write_all(b"\n")?;
    }
    Ok((sum, child.wait()?.success()))
}

/// The lines that tests wrote, each once, in order.
fn read_skips(log: &Path) -> Result<Vec<String>> {
    let text = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    let mut skips: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    skips.sort();
    // A property test may skip more than once.
    skips.dedup_by_key(|line| line.split_once(": ").map_or(line.clone(), |(name, _)| name.to_owned()));
    Ok(skips)
}

impl Sum {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out`.
    fn add(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else { return };
        for count in counts.1.split(';') {
            let mut words = count.split_whitespace();
            let Some(Ok(n)) = words.next().map(str::parse::<u64>) else { continue };
            match words.next() {
                Some("passed") => self.passed += n,
                Some("failed") => self.failed += n,
                Some("ignored") => self.skipped += n,
                _ => {}
            }
        }
    }

    /// Moves the tests that said they could not run from passed to skipped, and makes sure that a run which failed
    /// without a failed test (it did not compile, a test binary was killed) counts as a failure.
    fn finish(&mut self, skips: usize, success: bool) {
        let skips = u64::try_from(skips).unwrap_or(u64::MAX);
        self.passed = self.passed.saturating_sub(skips);
        self.skipped += skips;
        if !success && self.failed == 0 {
            self.failed = 1;
        }
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_binaries_are_added_up() {
        let mut sum = Sum::default();
        for line in [
            "running 4 tests",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "a test printed: 7 failed;",
            "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 5 filtered out; finished in 0.10s",
        ] {
            sum.add(line);
        }
        assert_eq!(sum, Sum { passed: 6, failed: 1, skipped: 1 });
        assert_eq!(sum.to_string(), "6 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_skipped_test_is_not_a_passed_one() {
        let mut sum = Sum { passed: 5, failed: 0, skipped: 0 };
        sum.finish(2, true);
        assert_eq!(sum, Sum { passed: 3, failed: 0, skipped: 2 });
    }

    #[test]
    fn a_run_that_dies_counts_as_failed() {
        let mut sum = Sum { passed: 5, failed: 0, skipped: 0 };
        sum.finish(0, false);
        assert_eq!(sum.failed, 1);
    }

    #[test]
    fn each_skipped_test_counts_once() {
        let log = tempfile::NamedTempFile::new().unwrap();
        fs::write(log.path(), "b: no root\na: no loop device\nb: no root\n\n").unwrap();
        assert_eq!(read_skips(log.path()).unwrap(), ["a: no loop device", "b: no root"]);
    }

    #[test]
    fn a_chosen_package_is_left_alone() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(names_a_package(&words("-p qd1-model")));
        assert!(names_a_package(&words("--package=qd1-model hist")));
        assert!(!names_a_package(&words("hist -- -p")));
    }
}
