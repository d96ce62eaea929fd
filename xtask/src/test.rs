//! `cargo xtask test`: builds and runs every test and summarises the result in one line.
//!
//! Most tests wait for disks, servers and signals. So the test programs run in parallel, more of them than there are
//! processors; the tests are written for a busy machine. With arguments, `cargo test` runs them instead.
//!
//! For cargo, a test that cannot run here (no root, no loop device) passes. It reports that by appending `name: why` to
//! the file that QD1_SKIP_LOG names; it is then counted as skipped and listed, never silently green.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write, stdout};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use qd1_lab::{catch_signals, clock, cmd, interrupted};
use serde_json::Value;

use crate::{examples, metadata, python, setup};

/// The counts of one run.
#[derive(Default, Debug, PartialEq, Eq)]
struct Sum {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Environment variables for the tests.
type Environment = Vec<(&'static str, OsString)>;

/// Runs the tests with these arguments for cargo. False if one failed.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    setup::run()?;
    let target = metadata::target_dir()?;
    fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    // A separate log for each run: two concurrent runs must not count each other's tests.
    let log = tempfile::Builder::new().prefix("skipped-").suffix(".log").tempfile_in(&target)?;
    let environment = environment(log.path())?;
    let mut sum = if args.is_empty() { side_by_side(&environment)? } else { by_cargo(args, &environment)? };
    let skips = read_skips(log.path())?;
    sum.take_off(skips.len());
    for skip in &skips {
        println!("SKIPPED: {skip}");
    }
    println!("{sum}");
    Ok(sum.failed == 0)
}

fn environment(log: &Path) -> Result<Environment> {
    let mut environment = vec![("QD1_SKIP_LOG", log.as_os_str().to_owned())];
    let jobs = examples::dir()?;
    if jobs.is_dir() {
        environment.push(("QD1_FIO_EXAMPLES", jobs.into()));
    }
    if let Some(plot) = python::dir()?.filter(|dir| dir.is_dir()) {
        environment.push(("QD1_PYTHON_PACKAGES", plot.into()));
    }
    // The test that runs the lab calls this program.
    environment.push(("QD1_XTASK", std::env::current_exe().context("cannot find this program")?.into()));
    Ok(environment)
}

/// Lets cargo run the tests that the arguments select, one program after another.
fn by_cargo(args: &[String], environment: &Environment) -> Result<Sum> {
    let mut test = cmd::cargo();
    test.args(["test", "--no-fail-fast"]);
    if !names_a_package(args) {
        test.arg("--workspace");
    }
    let mut child = test.args(args).envs(environment.iter().cloned()).stdout(Stdio::piped()).spawn()?;
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
    sum.end(child.wait()?.success());
    Ok(sum)
}

/// Whether the arguments select packages themselves; `--workspace` would override them.
fn names_a_package(args: &[String]) -> bool {
    let cargo_args = args.iter().take_while(|arg| *arg != "--");
    cargo_args.into_iter().any(|arg| {
        let long = ["--package", "--manifest-path", "--workspace"].iter().any(|flag| arg.starts_with(flag));
        long || (arg.starts_with("-p") && !arg.starts_with("--"))
    })
}

/// A test program that cargo built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// Its package's directory, where cargo would start it.
    package: PathBuf,
    /// The source of its root, as cargo shows it.
    source: PathBuf,
    executable: PathBuf,
}

impl Program {
    /// The test program that one of cargo's messages describes, if any.
    fn of(message: &Value) -> Option<Self> {
        let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let executable = path(&message["executable"]).filter(|_| is_test)?;
        let package = path(&message["manifest_path"])?.parent()?.to_owned();
        Some(Self { package, source: path(&message["target"]["src_path"])?, executable })
    }

    /// Those that take longest begin first: the tests of the whole binary, and among them those in `tests`.
    fn rank(&self) -> (bool, bool) {
        let is_integration = self.source.components().any(|part| part.as_os_str() == "tests");
        let is_of_binary = self.package.join("src/main.rs").is_file();
        (!is_of_binary, !is_integration)
    }

    /// Whether it compares times of simulated disks with the truth, which other tests on the same processors would
    /// disturb: those in `tests/timed`.
    fn is_timed(&self) -> bool {
        self.source.components().any(|part| part.as_os_str() == "timed")
    }

    /// Runs it; returns its output and whether it succeeded.
    fn run(&self, threads: usize, environment: &Environment, limit: Duration) -> Result<(Vec<u8>, bool)> {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package).stdin(Stdio::null());
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", threads.to_string());
        }
        output_within(command.envs(environment.iter().cloned()), limit.min(PROGRAM_LIMIT))
    }
}

/// Most time for a test program: more than twice what the longest one takes on a busy machine.
const PROGRAM_LIMIT: Duration = Duration::from_secs(25 * 60);
/// Most time for all test programs together.
const WHOLE_LIMIT: Duration = Duration::from_secs(50 * 60);
/// How often a program that takes long is mentioned.
const MENTION_EVERY: Duration = Duration::from_secs(3 * 60);

/// Runs a program; returns what it printed and whether it succeeded. If it takes longer than `limit`, it is killed with its
/// children: its last lines then name the tests that were running.
fn output_within(command: &mut Command, limit: Duration) -> Result<(Vec<u8>, bool)> {
    // Not a pipe, which a process that outlives the program would keep open.
    let printed = tempfile::NamedTempFile::new()?;
    let append = || fs::File::options().append(true).open(printed.path());
    command.stdout(append()?).stderr(append()?).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", cmd::shown(command)))?;
    let (begin, mut mentioned) = (clock::now(), Duration::ZERO);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        let took = begin.elapsed();
        if took >= limit || interrupted().is_err() {
            // A thread may be in a call that never ends, so the program is not waited for.
            cmd::capture(cmd::command("kill").args(["-KILL", "--", &format!("-{}", child.id())]))?;
            interrupted()?;
            break None;
        }
        if took >= mentioned + MENTION_EVERY {
            mentioned = took;
            eprintln!("{} has been running for {} min", cmd::shown(command), took.as_secs() / 60);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut printed = fs::read(printed.path())?;
    if status.is_none() {
        writeln!(printed, "killed, because it took longer than {} s", limit.as_secs())?;
    }
    Ok((printed, status.is_some_and(|status| status.success())))
}

/// How many programs run in parallel, and how many tests in each, for this many processors.
fn breadth(processors: usize) -> (usize, usize) {
    (processors + 1, 2 * processors)
}

/// Builds all test programs and runs several in parallel, and the timed ones after them. Each one's output is printed when
/// it has finished.
fn side_by_side(environment: &Environment) -> Result<Sum> {
    let mut build = cmd::cargo();
    build.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let messages = build.stderr(Stdio::inherit()).output().context("cannot start cargo test")?;
    let mut sum = Sum::default();
    if !messages.status.success() {
        eprintln!("the tests do not build; see the messages above");
        sum.end(false);
        return Ok(sum);
    }
    let messages = String::from_utf8_lossy(&messages.stdout).into_owned();
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs: Vec<Program> = parsed.filter_map(|message| Program::of(&message)).collect();
    programs.sort_by_key(Program::rank);
    let (timed, others): (Vec<Program>, Vec<Program>) = programs.into_iter().partition(Program::is_timed);
    // The programs are in groups of their own, which Ctrl-C does not reach.
    catch_signals()?;
    let processors = std::thread::available_parallelism()?.get();
    let total = Mutex::new((sum, Vec::new()));
    let begin = clock::now();
    run_together(&others, breadth(processors), environment, &total, begin);
    run_together(&timed, (1, processors), environment, &total, begin);
    let (mut sum, errors) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    for error in errors {
        eprintln!("error: {error:#}");
        sum.end(false);
    }
    Ok(sum)
}

/// Runs programs, so many of them in parallel, and in each so many tests; adds up what they report, and errors.
fn run_together(
    programs: &[Program],
    (at_a_time, threads): (usize, usize),
    environment: &Environment,
    total: &Mutex<(Sum, Vec<anyhow::Error>)>,
    begin: Instant,
) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (outcome, took) =
                        clock::timed(|| program.run(threads, environment, WHOLE_LIMIT.saturating_sub(begin.elapsed())));
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    let (sum, errors) = &mut *total;
                    errors.extend(outcome.and_then(|outcome| finish(program, &outcome, took, sum)).err());
                }
            });
        }
    });
}

/// Prints a program's output and adds up its counts.
fn finish(program: &Program, (printed, success): &(Vec<u8>, bool), took: Duration, sum: &mut Sum) -> Result<()> {
    let source = program.source.strip_prefix(cmd::root()).unwrap_or(&program.source);
    let mut own = Sum::default();
    String::from_utf8_lossy(printed).lines().for_each(|line| own.add(line));
    own.end(*success);
    let mut out = stdout().lock();
    writeln!(out, "\n{} ({:.0} s)", source.display(), took.as_secs_f64())?;
    out.write_all(printed)?;
    *sum = std::mem::take(sum).plus(&own);
    Ok(())
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

    /// Makes sure that a run which failed without a failed test (it did not compile, it was killed) counts as a
    /// failure.
    fn end(&mut self, success: bool) {
        if !success && self.failed == 0 {
            self.failed = 1;
        }
    }

    /// Moves the tests that reported that they could not run from passed to skipped.
    fn take_off(&mut self, skips: usize) {
        let skips = u64::try_from(skips).unwrap_or(u64::MAX);
        self.passed = self.passed.saturating_sub(skips);
        self.skipped += skips;
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
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
    fn a_program_that_hangs_is_killed_and_has_failed() {
        let script = |text: &str, limit| output_within(Command::new("sh").args(["-c", text]), limit).unwrap();
        // The child of the program is killed, too: it would hold the lock for as long as it lives.
        let lock = tempfile::NamedTempFile::new().unwrap();
        let text = format!("echo test one; flock {} sleep 1000; echo unreachable", lock.path().display());
        let (printed, success) = script(&text, Duration::from_secs(3));
        assert!(!success);
        assert_eq!(String::from_utf8(printed).unwrap(), "test one\nkilled, because it took longer than 3 s\n");
        let try_lock = format!("flock --wait 10 {} true", lock.path().display());
        let minute = Duration::from_secs(60);
        assert_eq!(script(&try_lock, minute), (Vec::new(), true));
        assert_eq!(script("echo out; echo err >&2", minute), (b"out\nerr\n".to_vec(), true));
        assert_eq!(script("exit 3", minute), (Vec::new(), false));
    }

    #[test]
    fn a_skipped_test_is_not_a_passed_one() {
        let mut sum = Sum { passed: 5, failed: 0, skipped: 0 };
        sum.take_off(2);
        assert_eq!(sum, Sum { passed: 3, failed: 0, skipped: 2 });
    }

    #[test]
    fn a_run_that_dies_counts_as_failed() {
        let mut sum = Sum { passed: 5, failed: 0, skipped: 0 };
        sum.end(false);
        assert_eq!(sum.failed, 1);
        sum.end(false);
        assert_eq!(sum.failed, 1, "what failed is counted already");
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

    #[test]
    fn test_programs_are_told_from_other_artifacts() {
        let message = |test: bool, executable: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": "/w/crates/a/Cargo.toml", "profile": {"test": test},
                "target": {"src_path": "/w/crates/a/tests/b.rs"}, "executable": executable,
            })
        };
        let program = Program::of(&message(true, "/w/target/b-1")).unwrap();
        assert_eq!(program.package, Path::new("/w/crates/a"));
        assert_eq!(program.executable, Path::new("/w/target/b-1"));
        assert_eq!(Program::of(&message(false, "/w/target/a")), None);
        assert_eq!(Program::of(&serde_json::json!({"reason": "build-finished", "success": true})), None);
    }
}
