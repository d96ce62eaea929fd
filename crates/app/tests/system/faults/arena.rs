//! Where one run of the campaign takes place: a disk of its own, a user, what must not change.

mod inflict;
mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use qd1_clock as clock;
use qd1_lab::{Loop, Mounted, tool};
use qd1_simdisk::Mounted as Simulated;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use inflict::{limits, meddle};
use traces::{contents, segments};

use super::Case;
use super::fault::Fault;
use super::judge::{self, Ended};
use crate::common::apps::program;
use crate::common::{open_to_all, qd1, random};

/// Who runs qd1, and whose the directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Root, in a directory of root's.
    Root,
    /// An ordinary user, in a directory of their own.
    User,
    /// Root, in a directory of that user's.
    RootElsewhere,
}

impl Who {
    pub(super) const ALL: [Self; 3] = [Self::Root, Self::User, Self::RootElsewhere];
}

/// The user nobody: initdb refuses one that has no name.
const USER: u32 = 65_534;
/// No run of the campaign takes as long, hanging disks and helpers included.
const LONGEST: Duration = Duration::from_secs(90);

/// The disk that is measured.
enum Disk {
    Loop(Mounted),
    Simulated(Option<Simulated>),
}

pub(super) struct Arena {
    // Dropped in this order: mounts before the directory that they are in.
    disk: Disk,
    canary: Mounted,
    /// The directory to measure.
    pub(super) target: PathBuf,
    pub(super) root: TempDir,
    /// Marks the environment of all that this run starts.
    marker: String,
    before: BTreeMap<PathBuf, String>,
    canary_before: BTreeMap<PathBuf, String>,
    segments_before: BTreeSet<String>,
}

impl Arena {
    /// # Errors
    /// Why there can be none here.
    pub(super) fn new(case: &Case) -> Result<Self, String> {
        if let Some(name) = case.command.program
            && program(name).is_none()
            && !Path::new("/usr/sbin").join(name).exists()
        {
            return Err(format!("{name} is not installed"));
        }
        let root = open_to_all();
        let at = |name: &str| root.path().join(name);
        for dir in ["disk", "beside", "home", "tmp"] {
            fs::create_dir(at(dir)).unwrap();
            fs::set_permissions(at(dir), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let disk = match case.fault.scenario() {
            Some(scenario) => {
                if let Some(why) = Simulated::unavailable() {
                    return Err(why);
                }
                Disk::Simulated(Some(Simulated::new(&scenario, &at("disk")).map_err(|error| error.to_string())?))
            }
            None => Disk::Loop(Mounted::new(Loop::ext4(4 << 30)?, "nodiscard")?),
        };
        let mount = match &disk {
            Disk::Loop(mounted) => mounted.path().to_owned(),
            Disk::Simulated(_) => at("disk"),
        };
        let target = mount.join("target");
        fs::create_dir(&target).unwrap();
        // What others keep beside and in the directory.
        for dir in [&mount.join("theirs"), &target] {
            let _ = fs::create_dir(dir);
            fs::write(dir.join("kept"), vec![7; 10_000]).unwrap();
            fs::write(dir.join(".qd1-scratch-notes.txt"), "a file, whatever it is called").unwrap();
        }
        fs::set_permissions(mount.join("theirs"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(at("beside/job.fio"), JOB).unwrap();
        let owned_by_user: &[PathBuf] = match case.who {
            Who::Root => &[],
            Who::User => &[target.clone(), target.join("kept"), at("home"), at("tmp")],
            Who::RootElsewhere => &[target.clone(), target.join("kept")],
        };
        for path in owned_by_user {
            chown(path, Some(USER), Some(USER)).map_err(|error| format!("chown: {error}"))?;
        }
        let canary = Mounted::new(Loop::ext4(16 << 20)?, "defaults")?;
        fs::write(canary.path().join("precious"), vec![9; 100_000]).unwrap();
        let before = contents(&mount);
        let canary_before = contents(canary.path());
        let marker = format!("QD1_FAULTS_MARK={}-{:x}", std::process::id(), case.seed);
        let segments_before = segments();
        Ok(Self { disk, canary, target, root, marker, before, canary_before, segments_before })
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn mount(&self) -> PathBuf {
        self.target.parent().unwrap().to_owned()
    }

    /// A command as the user of the case, with everything it may keep in this arena.
    pub(super) fn command(&self, case: &Case, words: &[&str]) -> Command {
        let mut command = match case.who {
            Who::User => {
                let mut command = Command::new("setpriv");
                command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "--"]);
                command.args(limits(case.fault)).arg(self.binary());
                command
            }
            _ => {
                let mut all: Vec<String> = limits(case.fault).iter().map(|word| (*word).to_owned()).collect();
                all.push(self.binary().to_str().unwrap().to_owned());
                let mut command = Command::new(&all[0]);
                command.args(&all[1..]);
                command
            }
        };
        let (name, value) = self.marker.split_once('=').unwrap();
        command.args(words).env(name, value).env("HOME", self.at("home")).env("TMPDIR", self.at("tmp"));
        command.env_remove("XDG_STATE_HOME").env_remove("QD1_STORE").current_dir("/").stdin(Stdio::null());
        command
    }

    /// The build's directory may be closed to the user.
    fn binary(&self) -> PathBuf {
        let binary = self.at("qd1");
        if !binary.exists() {
            // By a program: a file that another thread's child still has open for writing does not start.
            tool("cp", &[qd1(), binary.to_str().unwrap()]).unwrap();
        }
        binary
    }

    /// Runs the case, and returns what was wrong.
    pub(super) fn run(&mut self, case: &Case) -> Vec<String> {
        let mut draw = random(case.seed);
        if case.command.finds_leftovers {
            self.leave_files(case);
        }
        self.prepare(case.fault);
        let beside = self.at("beside");
        let words: Vec<String> = case
            .command
            .words
            .iter()
            .map(|word| word.replace("DIR", self.target.to_str().unwrap()).replace("BESIDE", beside.to_str().unwrap()))
            .collect();
        let output = (case.fault == Fault::OutputIsInput).then(|| self.output_that_is_read(case));
        let words: Vec<&str> = words.iter().chain(&output).map(String::as_str).collect();
        let others = if case.fault == Fault::Together { 1 + (draw() * 7.0) as usize } else { 0 };
        let (out, err) = (self.at("out"), self.at("err"));
        let mut first = self.start(case, &words, streams(case.fault, &out, &err));
        let mut rest: Vec<Child> = (0..others)
            .map(|number| {
                let [out, err] = ["out", "err"].map(|name| self.at(&format!("{name}{number}")));
                self.start(case, &words, streams(Fault::None, &out, &err))
            })
            .collect();
        let over = AtomicBool::new(false);
        let hostile = (case.fault == Fault::HostileOwner).then(|| {
            // At once in half of the runs, which meets them while things are made; later in the others.
            let after = Duration::from_secs_f64((draw() - 0.5).max(0.0) * 2.0 * case.command.usual_s);
            (self.target.clone(), self.at("victim"), after)
        });
        let ended = std::thread::scope(|scope| {
            if let Some((target, victim, after)) = hostile {
                let over = &over;
                scope.spawn(move || meddle(&target, &victim, after, over));
            }
            self.bring_about(case, &first, &mut draw);
            let ended = wait(&mut first);
            over.store(true, Ordering::Relaxed);
            ended
        });
        let mut wrong = Vec::new();
        for child in &mut rest {
            if wait(child).is_none() {
                wrong.push("one of several runs hangs".to_owned());
            }
        }
        if ended.is_none() {
            wrong.push(format!("it did not end in {} s", LONGEST.as_secs()));
        }
        self.undo_fault(case.fault);
        wrong.extend(self.wait_for_processes());
        let ended = Ended { status: ended, stdout: out, stderr: err };
        if case.fault.kills() || case.command.finds_leftovers {
            wrong.extend(judge::restored(self, case));
        }
        wrong.extend(judge::judged(self, case, &ended, others));
        wrong.extend(self.changed(case));
        if fs::read_to_string(self.at("beside/job.fio")).ok().as_deref() != Some(JOB) {
            wrong.push("the job file was replaced".to_owned());
        }
        wrong
    }

    /// The option that sends the result to the job file of a job, and to the history of any other run.
    fn output_that_is_read(&self, case: &Case) -> String {
        let file = if case.command.is_job { "beside/job.fio" } else { "home/.local/state/qd1/history.db" };
        let option = if case.command.name == "fio" { "--output" } else { "-o" };
        let separator = if option == "-o" { "" } else { "=" };
        format!("{option}{separator}{}", self.at(file).display())
    }

    fn start(&self, case: &Case, words: &[&str], [stdout, stderr]: [Stdio; 2]) -> Child {
        // A group of its own, as a terminal's job has.
        self.command(case, words).stdout(stdout).stderr(stderr).process_group(0).spawn().expect("it starts")
    }

    /// All processes of this run: they have its mark in their environment.
    fn processes(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let has_mark = environment.split(|byte| *byte == 0).any(|word| word == self.marker.as_bytes());
            found.extend(pid.filter(|_| has_mark));
        }
        found
    }

    /// Waits until helpers and children are gone.
    fn wait_for_processes(&self) -> Option<String> {
        let until_ns = clock::now_ns() + 45_000_000_000;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return None;
            }
            if clock::now_ns() > until_ns {
                let names: Vec<String> = left
                    .iter()
                    .map(|pid| fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default())
                    .collect();
                for pid in left {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
                return Some(format!("processes are left: {names:?}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The job file of the campaign: it writes, reads, and leaves its file as fio does.
const JOB: &str = "[global]\nsize=1m\nbs=4k\nfilename=job\n[writes]\nrw=randwrite\nfsync=8\n[reads]\nstonewall\nrw=randread\n\
                   time_based\nruntime=300ms\n";

fn streams(fault: Fault, out: &Path, err: &Path) -> [Stdio; 2] {
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    // Read-only: what is written to it fails as to a closed one.
    let closed = || Stdio::from(File::open("/dev/null").unwrap());
    let file = |path: &Path| Stdio::from(File::create(path).unwrap());
    let stdout = match fault {
        Fault::StdoutFull => full(),
        Fault::StdoutClosed => closed(),
        Fault::ReaderGone => {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            writer.into()
        }
        _ => file(out),
    };
    let stderr = match fault {
        Fault::StderrFull => full(),
        Fault::StderrClosed => closed(),
        _ => file(err),
    };
    [stdout, stderr]
}

/// Waits for a run; `None` if it does not end, and is then killed.
fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let until_ns = clock::now_ns() + LONGEST.as_nanos() as u64;
    while clock::now_ns() < until_ns {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
