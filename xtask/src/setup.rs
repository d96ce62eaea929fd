//! `cargo xtask setup`: installs what check, test, bench and dist need.
//!
//! Idempotent, and quick when nothing is missing: each thing is looked for by the file that it brings. What can be
//! fetched side by side is.

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

/// What nothing goes without.
const NEEDED: &[Package] = &[
    package("fio", "fio", "the peer that tests and benches compare with"),
    package("bc", "bc", "what fio works out sums of job files with (tests)"),
    package("jq", "jq", "how scripts read the reports (tests)"),
    package("zstd", "zstd", "the other reader and writer of exports (tests)"),
    package("valgrind", "valgrind", "instruction counts (bench cost)"),
    package("musl-gcc", "musl-tools", "the C parts of the static binary (dist)"),
    package("mkfs.ext4", "e2fsprogs", "filesystems on loop devices (tests)"),
    package("tmux", "tmux", "a terminal for tests of the display"),
];

/// What only some things need, which say so where it is missing.
const WISHED: &[Package] = &[
    packages::QEMU,
    package("bpftrace", "bpftrace", "the kernel's own timing (bench ebpf)"),
    package("ioping", "ioping", "the peer of qd1 ping (bench peers, tests)"),
    package("iostat", "sysstat", "a peer of qd1 watch (tests)"),
    package("vmstat", "procps", "a peer of qd1 watch (tests)"),
    package("bonnie++", "bonnie++", "the peer of qd1 meta (bench peers, tests)"),
    package("fusermount3", "fuse3", "simulated disks for users other than root (tests)"),
    package("mkfs.xfs", "xfsprogs", "filesystems to compare (tests)"),
    package("mkfs.btrfs", "btrfs-progs", "filesystems to compare (tests)"),
    package("chromium", "chromium", "a browser for pages of qd1 report (tests)"),
    package("clang-14", "clang-14", "programs in the kernel (bpf, check)"),
    package("llvm-strip-14", "llvm-14", "programs in the kernel (bpf, check)"),
];

/// Installs whatever is missing, and says what it did.
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
            // Where pip could not be had, that was said.
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
            // All of them end, whichever fails.
            let outcomes = jobs.map(|job| job.join().expect("no job panics"));
            outcomes.into_iter().collect::<Result<()>>()
        })
    });
    outcome?;
    println!("setup: all is there ({:.1} s)", took.as_secs_f64());
    Ok(())
}

/// What pip brings. Tests go without it, some skipped aloud.
fn from_pypi() -> Result<()> {
    python::fetch()?;
    checkers(true)
}

/// Tools of `check`: those that pip brings, or those that cargo builds. `check` asks for them again.
fn checkers(are_wheels: bool) -> Result<()> {
    for tool in CHECKERS.iter().filter(|tool| tool.is_wheel() == are_wheels) {
        if let Err(error) = tool.install() {
            println!("setup: {error:#}");
        }
    }
    Ok(())
}

/// Debian's packages that are unpacked and not installed.
fn unpacked() -> Result<()> {
    if let Err(error) = packages::fetch() {
        println!("setup: no lab: {}", error.to_string().lines().next().unwrap_or_default());
    }
    examples::fetch()
}

fn musl_target() -> Result<()> {
    add_target(MUSL)
}

/// Installs the standard library for a target.
pub(crate) fn add_target(triple: &str) -> Result<()> {
    if cmd::find("rustup").is_none() {
        // A distribution's Rust: the standard library for the target lies in its sysroot or is not there.
        let sysroot = cmd::capture(cmd::command("rustc").args(["--print", "sysroot"]))?;
        let library = PathBuf::from(sysroot.trim()).join("lib/rustlib").join(triple);
        if !library.is_dir() {
            bail!("the Rust target {triple} is missing and there is no rustup; install it with the system's packages");
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
