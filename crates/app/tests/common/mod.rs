//! What the tests of the whole binary share: a place of its own for each run, waiting without a clock, skipping aloud.

// Each of the three test programs uses a part of this.
#![allow(dead_code, unused_imports, unused_macros)]

pub(crate) mod apps;
pub(crate) mod browser;
pub(crate) mod disk;
pub(crate) mod filesystems;
pub(crate) mod fio;
pub(crate) mod refusal;
pub(crate) mod schema;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use qd1_model::record::StepRecord;
use serde_json::Value;
use tempfile::TempDir;

/// A step so short that it only shows behaviour, never figures.
pub(crate) const BRIEF: [&str; 4] = ["--size", "32MiB", "--runtime", "200ms"];

/// Variables that change what the binary prints or where it keeps things.
const ENVIRONMENT: [&str; 9] = [
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "TERM",
    "COLUMNS",
    "QD1_STORE",
    "XDG_STATE_HOME",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

/// The name of the test that asks, as cargo prints it, behind that of its program.
macro_rules! test_name {
    () => {{
        fn here() {}
        std::any::type_name_of_val(&here).trim_end_matches("::here").trim_end_matches("::{{closure}}")
    }};
}

/// What a test needs, from a `Result` whose error says why it cannot be had; the test is then skipped.
macro_rules! or_skip {
    ($needed:expr) => {
        match $needed {
            Ok(needed) => needed,
            Err(why) => return $crate::common::skip($crate::common::test_name!(), &why.to_string()),
        }
    };
}

pub(crate) use {or_skip, test_name};

/// Says that `test` cannot run here, and why.
pub(crate) fn skip(test: &str, why: &str) {
    println!("SKIPPED: {why}");
    if let Some(log) = std::env::var_os("QD1_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).expect("QD1_SKIP_LOG opens");
        std::io::Write::write_all(&mut log, format!("{test}: {why}\n").as_bytes()).expect("QD1_SKIP_LOG takes a line");
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Lets programs that tests start heed the signals that end them. Under `nohup`, or in the background of a script, the
/// tests themselves ignore some, which programs take over; a signal with a handler they do not.
pub(crate) fn heed_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for signal in [SIGHUP, SIGINT] {
            signal_hook::flag::register_conditional_default(signal, std::sync::Arc::new(true.into())).unwrap();
        }
    });
}

/// A directory to measure and a history, both of this test alone.
pub(crate) struct Place {
    // Dropped first: the mount before its history.
    _disk: Option<qd1_lab::Mounted>,
    root: TempDir,
    dir: PathBuf,
}

impl Place {
    /// On the disk where the build is: the system's temporary directory may be in memory.
    pub(crate) fn new() -> Self {
        Self::below(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// Where other users can get to, as the build's directory may be closed to them.
    pub(crate) fn open_to_all() -> Self {
        Self::below(open_to_all())
    }

    /// On a disk in memory where one can be made, since a shared disk stands still for longer than a brief step takes.
    pub(crate) fn quiet() -> Self {
        // Some suites want a file of 1 GiB, beside as much that stays free.
        match qd1_lab::Loop::ext4(4 << 30).and_then(|disk| qd1_lab::Mounted::new(disk, "nodiscard")) {
            Ok(disk) => Self { dir: disk.path().to_owned(), _disk: Some(disk), ..Self::new() },
            Err(_) => Self::new(),
        }
    }

    fn below(root: TempDir) -> Self {
        heed_signals();
        let dir = root.path().join("target");
        fs::create_dir(&dir).unwrap();
        fs::create_dir(root.path().join("state")).unwrap();
        // Other users have to get through to what tests give them; the directory to measure stays its owner's.
        for path in [root.path(), &dir] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(root.path().join("state"), fs::Permissions::from_mode(0o1777)).unwrap();
        Self { _disk: None, root, dir }
    }

    /// The same with the directory to measure somewhere else, such as on a loop device.
    pub(crate) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), ..Self::open_to_all() }
    }

    /// The directory to measure.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn dir_str(&self) -> &str {
        self.dir.to_str().unwrap()
    }

    /// A path beside the directory to measure.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Notes a figure of the runs that have none: on a busy machine a short run may not resolve it.
    pub(crate) fn note_figure(&self, step: &str, op: &str, metric: &str, value: f64) {
        let db = rusqlite::Connection::open(self.history()).unwrap();
        let sql = "INSERT OR IGNORE INTO figure (run, step, op, metric, value) SELECT id, ?, ?, ?, ? FROM run";
        db.execute(sql, (step, op, metric, value)).unwrap();
    }

    /// Where the history is; not made before the first run.
    pub(crate) fn history(&self) -> PathBuf {
        self.beside("state/history.db")
    }

    /// Sets up `command` as every run here: in the directory to measure, with the history of this place.
    pub(crate) fn environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for name in ENVIRONMENT {
            command.env_remove(name);
        }
        command.env("QD1_STORE", self.history()).env("HOME", self.root.path()).current_dir(&self.dir)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(qd1());
        self.environment(&mut command).args(args);
        command
    }

    /// As [`Place::command`], before all ordinary programs where that is granted: for figures that a busy machine has a part
    /// in, and the disk has not.
    pub(crate) fn real_time(&self, args: &[&str]) -> Command {
        let mut command = real_time(qd1());
        self.environment(&mut command).args(args);
        command
    }

    pub(crate) fn qd1(&self, args: &[&str]) -> assert_cmd::Command {
        assert_cmd::Command::from_std(self.command(args))
    }

    /// A command on this directory: `qd1 COMMAND DIR ARGS`.
    pub(crate) fn on(&self, command: &str, args: &[&str]) -> assert_cmd::Command {
        self.qd1(&[&[command, self.dir_str()], args].concat())
    }

    /// A brief check of the directory with more arguments; in real time, since a step of a moment has to measure something.
    pub(crate) fn brief(&self, args: &[&str]) -> assert_cmd::Command {
        let args = [&["check", self.dir_str()], &BRIEF[..], args].concat();
        assert_cmd::Command::from_std(self.real_time(&args))
    }

    /// The report of a brief check that has to succeed.
    pub(crate) fn report(&self, args: &[&str]) -> Value {
        json(self.brief(&[&["--json"], args].concat()))
    }

    /// What `qd1 history --json` lists.
    pub(crate) fn runs(&self) -> Vec<Value> {
        match json(self.qd1(&["history", "--json"])) {
            Value::Array(rows) => rows,
            other => panic!("not a list: {other}"),
        }
    }

    /// Nothing in the directory, not even hidden.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(names(&self.dir), Vec::<String>::new(), "left in {}", self.dir.display());
    }

    /// Neither a file was left nor a run kept.
    pub(crate) fn assert_untouched(&self) {
        self.assert_empty();
        if self.history().exists() {
            assert_eq!(self.runs(), Vec::<Value>::new());
        }
    }
}

/// A new directory that every user can enter.
pub(crate) fn open_to_all() -> TempDir {
    heed_signals();
    qd1_lab::open_dir().unwrap()
}

/// A file of thresholds with one class, `mine`, that has one criterion.
pub(crate) fn thresholds(step: &str, op: &str, metric: &str, pass: f64, fail: f64) -> String {
    format!(
        "[[class]]\nname = \"mine\"\ntitle = \"mine\"\n[[class.criterion]]\nstep = \"{step}\"\nop = \"{op}\"\n\
         metric = \"{metric}\"\npass = {pass:?}\nfail = {fail:?}\nsource = \"nowhere\"\n"
    )
}

/// The binary under test.
pub(crate) fn qd1() -> &'static str {
    env!("CARGO_BIN_EXE_qd1")
}

/// A program with real-time priority where that is granted, and as it is elsewhere.
pub(crate) fn real_time(program: &str) -> Command {
    if !has_real_time() {
        return Command::new(program);
    }
    let mut command = Command::new(REAL_TIME[0]);
    command.args(&REAL_TIME[1..]).arg(program);
    command
}

/// Before all ordinary programs, by turns with each other, and behind the simulated disk.
pub(crate) const REAL_TIME: [&str; 3] = ["chrt", "--rr", "1"];

/// Whether real-time priority is granted. Without it, nobody can say how much longer a busy machine makes anything take.
pub(crate) fn has_real_time() -> bool {
    static GRANTED: OnceLock<bool> = OnceLock::new();
    *GRANTED.get_or_init(|| is_root() && qd1_lab::tool(REAL_TIME[0], &[REAL_TIME[1], REAL_TIME[2], "true"]).is_ok())
}

/// `program` as a process of the group, in real time.
pub(crate) fn in_group(group: &qd1_lab::Throttle, program: &str, args: &[&str]) -> Command {
    let launcher: &[&str] = if has_real_time() { &REAL_TIME } else { &[] };
    let mut command = group.command(launcher, program);
    command.args(args);
    command
}

/// The JSON that a successful command prints.
pub(crate) fn json(mut command: assert_cmd::Command) -> Value {
    let output = command.assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).expect("stdout is one JSON document")
}

/// What a command that succeeds prints.
pub(crate) fn text(mut command: assert_cmd::Command) -> String {
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

/// What a program said, as text.
pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A step of a Record.
pub(crate) fn typed(step: &Value) -> StepRecord {
    serde_json::from_value(step.clone()).expect("a step of a Record")
}

/// The intervals of a step as objects: in a Record they are packed.
pub(crate) fn intervals(step: &Value) -> Vec<Value> {
    typed(step).intervals.iter().map(|interval| serde_json::to_value(interval).unwrap()).collect()
}

/// The elements of a JSON array.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not an array: {value}"))
}

/// The element of a JSON array whose `key` is `wanted`.
pub(crate) fn find<'a>(array: &'a Value, key: &str, wanted: &str) -> &'a Value {
    list(array).iter().find(|item| item[key] == wanted).unwrap_or_else(|| panic!("no {key} {wanted:?} in {array}"))
}

pub(crate) fn int(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a whole number: {value}"))
}

pub(crate) fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// A quantile of a step's latencies as they were counted, ns: a machine that stalls leaves the estimate unresolved.
pub(crate) fn quantile_ns(report: &qd1_model::Report, step: &str, class: qd1_model::OpClass, q: f64) -> f64 {
    let step = report.record.step(step).unwrap_or_else(|| panic!("no step {step}"));
    step.stream(class).unwrap_or_else(|| panic!("no {class:?} in {}", step.name)).lat.quantile(q) as f64
}

/// The step called `name` of a report's record.
pub(crate) fn step<'a>(report: &'a Value, name: &str) -> &'a Value {
    find(&report["record"]["steps"], "name", name)
}

/// Tries `condition` again and again, for about half a minute of an undisturbed machine.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(comes_true(3_000, condition), "waited in vain until {what}");
}

/// Whether `condition` comes true in so many tries, 10 ms apart.
pub(crate) fn comes_true(tries: u32, mut condition: impl FnMut() -> bool) -> bool {
    (0..tries).any(|_| {
        let so = condition();
        if !so {
            std::thread::sleep(Duration::from_millis(10));
        }
        so
    })
}

/// Changes a file of `dir` in memory and makes it durable, `count` times, by fio.
pub(crate) fn msyncs(dir: &Path, count: u32) {
    let job = ["--name=job", "--ioengine=mmap", "--rw=write", "--bs=4k", "--size=1m", "--fsync=1", "--thread"];
    let more = ["--thinktime=100ms", "--output=/dev/null", &format!("--number_ios={}", count + 1)];
    // It syncs between its writes.
    let mut fio = Command::new("timeout");
    fio.args(["-k", "5", "120", "fio"]).args(job).args(more).arg(format!("--directory={}", dir.display()));
    assert!(fio.status().unwrap().success(), "fio should sync a mapping");
}

/// A process of ours, killed at the end of the test if it still lives.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts `command` with stdout and stderr caught.
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.0)
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Panics with what it said where it ended early.
    #[track_caller]
    pub(crate) fn assert_running(&mut self) {
        if !self.is_running() {
            let said = self.0.stderr.take().map(std::io::read_to_string).transpose().unwrap().unwrap_or_default();
            panic!("it ended early: {said}");
        }
    }

    /// Waits longer than until a step reads: nothing is measured in its ramp, at most a quarter of a second.
    pub(crate) fn wait_until_it_measures(&mut self) {
        self.wait_until_it_reads();
        std::thread::sleep(Duration::from_secs(1));
        // It may have waited for a processor meanwhile.
        let before = self.bytes_read();
        wait_until("it goes on reading", || self.bytes_read() > before + (1 << 20));
    }

    /// Waits until a step reads: so many bytes came in by read calls that it cannot be the start alone, which as root
    /// includes the kernel's type information, twice.
    pub(crate) fn wait_until_it_reads(&mut self) {
        let types = std::fs::metadata("/sys/kernel/btf/vmlinux").map_or(0, |types| types.len());
        let start = if rustix::process::geteuid().is_root() { 2 * types } else { 0 };
        wait_until("it reads", || self.bytes_read() > start + (1 << 20));
    }

    fn bytes_read(&mut self) -> u64 {
        self.bytes("rchar: ")
    }

    /// What went out by write calls.
    pub(crate) fn bytes_written(&mut self) -> u64 {
        self.bytes("wchar: ")
    }

    /// A count of its calls' bytes, caches or not; the process has to be alive.
    fn bytes(&mut self, key: &str) -> u64 {
        self.assert_running();
        let text = fs::read_to_string(format!("/proc/{}/io", self.0.id())).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix(key)).and_then(|n| n.parse().ok());
        count.unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A seeded stream of numbers in 0..1, for tests that try many moments (Numerical Recipes' 64-bit LCG).
pub(crate) fn random(mut seed: u64) -> impl FnMut() -> f64 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The objects that a trace with these options prints while `work` runs.
pub(crate) fn traced(disk: &str, args: &[&str], work: impl FnOnce()) -> Vec<Value> {
    use std::io::BufRead as _;
    let place = Place::new();
    let mut trace = Running::start(place.command(&[&["trace", disk, "--json"], args].concat()));
    let mut lines = std::io::BufReader::new(trace.0.stdout.take().unwrap()).lines();
    let start = lines.next().expect("trace should start").unwrap();
    work();
    // A trace with --count may have ended already.
    let _ = rustix::process::kill_process(trace.pid(), rustix::process::Signal::INT);
    let objects = [start].into_iter().chain(lines.map(Result::unwrap));
    objects.map(|line| serde_json::from_str(&line).unwrap()).collect()
}
