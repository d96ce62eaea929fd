//! How each fault is brought about, and taken away again where it stays.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use qd1_lab::tool;
use rustix::process::{Pid, Signal};

use super::{Arena, Disk};
use crate::common::apps::children;
use crate::common::wait_until;
use crate::faults::Case;
use crate::faults::fault::Fault;

impl Arena {
    /// Leaves the files of a run that was killed with its helper.
    pub(super) fn leave_files(&self, case: &Case) {
        let calm = Case { fault: Fault::None, ..*case };
        let words = ["meta", self.target.to_str().unwrap(), "--files", "200k", "--file-size", "0", "--quiet"];
        let mut run = self.start(&calm, &words, [Stdio::null(), Stdio::null()]);
        wait_until("a run has files to leave", || {
            let made = fs::read_dir(&self.target).into_iter().flatten().flatten();
            made.filter(|entry| entry.path().join("files-1").exists()).count() > 0 || run.try_wait().unwrap().is_some()
        });
        let _ = run.kill();
        for pid in self.processes() {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let _ = run.wait();
    }

    /// What is there before the run.
    pub(super) fn prepare(&self, fault: Fault) {
        let state = self.at("home/.local/state/qd1");
        match fault {
            Fault::ReadOnlyState => {
                fs::create_dir_all(&state).unwrap();
                tool("mount", &["-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", state.to_str().unwrap()]).unwrap();
            }
            Fault::FullState => {
                fs::create_dir_all(&state).unwrap();
                tool("mount", &["-t", "tmpfs", "-o", "size=4k,mode=777", "tmpfs", state.to_str().unwrap()]).unwrap();
                let _ = fs::write(state.join("full"), [1; 8192]);
            }
            Fault::ForeignState => {
                fs::create_dir_all(&state).unwrap();
                fs::set_permissions(self.at("home"), fs::Permissions::from_mode(0o777)).unwrap();
            }
            Fault::HostileOwner => {
                let victim = self.at("victim");
                fs::create_dir(&victim).unwrap();
                fs::set_permissions(&victim, fs::Permissions::from_mode(0o700)).unwrap();
                for name in ["block", "disk.img", "kept"] {
                    fs::write(victim.join(name), vec![5; 50_000]).unwrap();
                }
            }
            _ => {}
        }
    }

    /// Brings the fault about at some moment.
    pub(super) fn bring_about(&mut self, case: &Case, run: &Child, draw: &mut impl FnMut() -> f64) {
        let fault = case.fault;
        let signal = match fault {
            Fault::Interrupt | Fault::InterruptTwice => Signal::INT,
            Fault::Terminate => Signal::TERM,
            Fault::HangUp => Signal::HUP,
            Fault::BrokenPipe => Signal::PIPE,
            Fault::Kill | Fault::KillAll | Fault::KillHelper | Fault::KillChild => Signal::KILL,
            Fault::NoSpace | Fault::Vanish => Signal::CONT,
            _ => return,
        };
        std::thread::sleep(Duration::from_secs_f64(draw() * case.command.usual_s));
        let pid = Pid::from_child(run);
        let send = |pid: Pid| {
            let _ = rustix::process::kill_process(pid, signal);
        };
        match fault {
            Fault::NoSpace => self.fill(),
            Fault::Vanish => {
                if let Disk::Simulated(disk) = &mut self.disk {
                    *disk = None;
                }
            }
            Fault::KillHelper | Fault::KillChild => {
                let helper = |pid: &Pid| {
                    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
                    String::from_utf8_lossy(&line).contains("__janitor") == (fault == Fault::KillHelper)
                };
                children(run.id()).into_iter().filter(helper).for_each(send);
            }
            Fault::KillAll => {
                let helpers = self.processes();
                send(pid);
                helpers.into_iter().for_each(send);
            }
            Fault::InterruptTwice => {
                send(pid);
                std::thread::sleep(Duration::from_secs_f64(draw() * 0.05));
                send(pid);
            }
            _ => send(pid),
        }
    }

    /// Leaves nothing free on the disk.
    fn fill(&self) {
        let file = File::create(self.mount().join("theirs/ballast")).unwrap();
        let free = rustix::fs::statvfs(self.mount()).map_or(0, |found| found.f_bfree * found.f_frsize);
        for share in [free, free / 2, free / 4, 1 << 20, 64 << 10, 4 << 10] {
            let have = file.metadata().map_or(0, |found| found.len());
            let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), have, share.max(4096));
        }
    }

    /// Takes away what is there as long as the fault is.
    pub(super) fn undo_fault(&self, fault: Fault) {
        match fault {
            Fault::NoSpace => drop(fs::remove_file(self.mount().join("theirs/ballast"))),
            Fault::ReadOnlyState | Fault::FullState => {
                let _ = tool("umount", &[self.at("home/.local/state/qd1").to_str().unwrap()]);
            }
            _ => {}
        }
    }
}

/// A limit on the process, by a program that becomes it.
pub(super) fn limits(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::Descriptors => &["prlimit", "--nofile=24"],
        Fault::Memory => &["prlimit", "--as=400000000"],
        Fault::Threads => &["prlimit", "--nproc=3"],
        Fault::FileTooLarge => &["prlimit", "--fsize=9000000"],
        _ => &["env"],
    }
}

/// As whoever owns the directory might: after a while, renames what comes there, and puts links to what root alone may
/// change in its place.
pub(super) fn meddle(target: &Path, victim: &Path, after: Duration, over: &AtomicBool) {
    let mut number = 0;
    std::thread::sleep(after);
    while !over.load(Ordering::Relaxed) {
        for entry in fs::read_dir(target).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Others' files have such names as well.
            let is_made = name.starts_with(".qd1") && !name.ends_with(".txt");
            let kind = entry.file_type().ok().filter(|kind| is_made && !kind.is_symlink());
            let Some(kind) = kind else { continue };
            number += 1;
            if fs::rename(entry.path(), target.join(format!("meddled-{number}"))).is_ok() {
                let in_its_place = if kind.is_dir() { victim.to_owned() } else { victim.join("kept") };
                let _ = symlink(in_its_place, entry.path());
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    // Its own links.
    for entry in fs::read_dir(target).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
