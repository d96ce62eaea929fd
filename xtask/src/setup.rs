//! `cargo xtask setup`: installs what check, test, bench and dist need.
//!
//! Idempotent, and quick when nothing is missing: each item is recognised by a file that it installs. Downloads run in
//! parallel where possible.

use std::path::PathBuf;
use std::thread;

use anyhow::{Result, bail};
use qd1_lab::{clock, cmd};

use crate::debian::{self, Package};
use crate::tools::CHECKERS;
use crate::{examples, packages, pip, python, servers};

/// The target of the released binary.
pub(crate) const MUSL: &str = "x86_64-unknown-linux-musl";

const fn package(program: &'static str, name: &'static str, purpose: &'static str) -> Package {
    Package { program, name, purpose }
}

/// Packages that everything needs.
const NEEDED: &[Package] = &[
    package("fio", "fio", "the peer that tests and benches compare with"),
    package("bc", "bc", "used by fio for arithmetic in job files (tests)"),
    package("jq", "jq", "used by scripts to read the reports (tests)"),
    package("zstd", "zstd", "independent reader and writer of exports (tests)"),
    package("valgrind", "valgrind", "instruction counts (bench cost)"),
    package("musl-gcc", "musl-tools", "the C parts of the static binary (dist)"),
    package("mkfs.ext4", "e2fsprogs", "filesystems on loop devices (tests)"),
    package("tmux", "tmux", "a terminal for tests of the display"),
];

/// Packages that only some commands need, which report if they are missing.
const WISHED: &[Package] = &[
    packages::QEMU,
    package("bpftrace", "bpftrace", "the kernel's own timing (bench ebpf)"),
    package("ioping", "ioping", "the peer of qd1 ping (bench peers, tests)"),
    package("iostat", "sysstat", "a peer of qd1 watch (tests)"),
    package("vmstat", "procps", "a peer of qd1 watch (tests)"),
    package("blktrace", "blktrace", "files that qd1 trace reads (lab, its test)"),
    package("bonnie++", "bonnie++", "the peer of qd1 meta (bench peers, tests)"),
    package("fusermount3", "fuse3", "simulated disks for users other than root (tests)"),
    package("mkfs.xfs", "xfsprogs", "filesystems to compare (tests)"),
    package("mkfs.btrfs", "btrfs-progs", "filesystems to compare (tests)"),
    package("chromium", "chromium", "a browser for pages of qd1 report (tests)"),
    package("clang-14", "clang-14", "in-kernel (eBPF) programs (bpf, check)"),
    package("llvm-strip-14", "llvm-14", "in-kernel (eBPF) programs (bpf, check)"),
];

/// Installs whatever is missing, and reports what it did.
pub(crate) fn run() -> Result<()> {
    let (outcome, took) = clock::timed(|| {
        let mut wished = [debian::missing(WISHED), debian::missing(servers::PACKAGES)].concat();
        // Asking Python takes half a second, so only where an answer is needed.
        let mut wheels = CHECKERS.iter().filter(|tool| tool.is_wheel());
        let is_missing = python::are_missing()? || wheels.any(|tool| !tool.is_installed().unwrap_or(false));
        let wants_pip = is_missing && !pip::is_there();
        if wants_pip {
            wished.push(pip::PACKAGE);
        }
        let debian = || {
            debian::install(&debian::missing(NEEDED), &wished)?;
            // If pip is not available, that has been reported.
            if wants_pip && pip::is_there() { from_pypi() } else { Ok(()) }
        };
        let pypi = || if wants_pip { Ok(()) } else { from_pypi() };
        thread::scope(|scope| {
            let built = || checkers(false);
            let jobs = [
                scope.spawn(debian),
                scope.spawn(pypi),
                scope.spawn(built),
                scope.spawn(musl_target),
                scope.spawn(unpacked),
            ];
            // All of them run to the end, even if one fails.
            let outcomes = jobs.map(|job| job.join().expect("no job panics"));
            outcomes.into_iter().collect::<Result<()>>()
        })
    });
    outcome?;
    println!("setup: everything is installed ({:.1} s)", took.as_secs_f64());
    Ok(())
}

/// What pip installs. Tests run without it, some of them skipped with a message.
fn from_pypi() -> Result<()> {
    python::fetch()?;
    checkers(true)
}

/// Tools of `check`: those that pip installs, or those that cargo builds. `check` installs them again if needed.
fn checkers(are_wheels: bool) -> Result<()> {
    for tool in CHECKERS.iter().filter(|tool| tool.is_wheel() == are_wheels) {
        if let Err(error) = tool.install() {
            println!("setup: {error:#}");
        }
    }
    Ok(())
}

/// Debian packages that are unpacked but not installed.
fn unpacked() -> Result<()> {
    if let Err(error) = packages::fetch() {
        println!("setup: the lab cannot run here: {}", error.to_string().lines().next().unwrap_or_default());
    }
    examples::fetch()
}

fn musl_target() -> Result<()> {
    add_target(MUSL)
}

/// Installs the standard library for a target.
pub(crate) fn add_target(triple: &str) -> Result<()> {
    if cmd::find("rustup").is_none() {
        // A distribution's Rust: the standard library for the target is in its sysroot or missing.
        let sysroot = cmd::capture(cmd::command("rustc").args(["--print", "sysroot"]))?;
        let library = PathBuf::from(sysroot.trim()).join("lib/rustlib").join(triple);
        if !library.is_dir() {
            bail!("the Rust target {triple} is missing and there is no rustup; install it from the system's packages");
        }
        return Ok(());
    }
    let installed = cmd::capture(cmd::command("rustup").args(["target", "list", "--installed"]))?;
    if installed.lines().any(|target| target == triple) {
        return Ok(());
    }
    println!("setup: rustup target add {triple}");
    cmd::capture(cmd::command("rustup").args(["target", "add", triple])).map(drop)
}
