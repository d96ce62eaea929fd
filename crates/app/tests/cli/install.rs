//! `packaging/install.sh`: where it looks for a release, and what it says where there is none. The whole of it is tried by
//! `cargo xtask dist --try`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use qd1_lab::tool;

use crate::common::{Place, or_skip, said};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/install.sh");

/// A release in a directory of its own, whose binary is a script that only says its name.
fn release(dir: &Path, name: &str) {
    let archive = format!("qd1-0.0.1-{}-unknown-linux-musl", std::env::consts::ARCH);
    let inside = dir.join(&archive);
    fs::create_dir_all(&inside).unwrap();
    fs::write(inside.join("qd1"), format!("#!/bin/sh\necho {name}\n")).unwrap();
    let script = format!(
        "chmod 755 {archive}/qd1; tar -czf {archive}.tar.gz {archive}; rm -r {archive}; \
                          sha256sum {archive}.tar.gz >SHA256SUMS"
    );
    assert!(Command::new("sh").args(["-ec", &script]).current_dir(dir).status().unwrap().success());
}

/// The shells of this machine.
fn shells() -> Vec<&'static str> {
    ["sh", "dash", "bash"].into_iter().filter(|shell| tool(shell, &["-c", "true"]).is_ok()).collect()
}

/// Runs a command of installation in `dir`, for a user whose home is there.
fn run(command: &mut Command, dir: &Path) -> Output {
    command.current_dir(dir).env("HOME", dir).env_remove("QD1_FROM").output().unwrap()
}

#[track_caller]
fn failed(output: &Output, words: &[&str]) {
    let stderr = said(&output.stderr);
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{stderr}{}", said(&output.stdout));
    assert!(words.iter().all(|word| stderr.contains(word)), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

fn dir(place: &Place, name: &str) -> PathBuf {
    let dir = place.beside(name);
    fs::create_dir(&dir).unwrap();
    dir
}

/// From a pipe it took the release of whoever had put one into the current directory.
#[test]
fn a_script_from_a_pipe_installs_only_what_is_named() {
    let place = Place::new();
    let (here, elsewhere) = (dir(&place, "here"), dir(&place, "elsewhere"));
    release(&here, "planted");
    release(&elsewhere, "named");
    for shell in shells() {
        // Also where something has the name that the script believes to have.
        for planted in [false, true] {
            if planted {
                fs::copy(SCRIPT, here.join(shell)).unwrap();
            }
            let piped = || Stdio::from(fs::File::open(SCRIPT).unwrap());
            let output = run(Command::new(shell).args(["-s", "--", "--to", "bin"]).stdin(piped()), &here);
            failed(&output, &["name the release", "--from ADDRESS-OR-DIRECTORY"]);
            assert!(!here.join("bin").exists(), "{shell}");
            let from = ["-s", "--", "--to", "bin", "--from", "../elsewhere"];
            let output = run(Command::new(shell).args(from).stdin(piped()), &here);
            assert!(said(&output.stdout).contains("installed bin/qd1 (named)"), "{shell}: {}", said(&output.stderr));
            fs::remove_dir_all(here.join("bin")).unwrap();
        }
    }
}

/// What was said was that cp cannot stat SHA256SUMS.
#[test]
fn an_installer_without_a_release_says_what_to_do() {
    let place = Place::new();
    let (alone, beside) = (dir(&place, "alone"), dir(&place, "beside"));
    release(&beside, "beside");
    for at in [&alone, &beside] {
        fs::copy(SCRIPT, at.join("install.sh")).unwrap();
    }
    for shell in shells() {
        let output = run(Command::new(shell).args(["install.sh", "--to", "bin"]), &alone);
        failed(&output, &["no release next to this script", "--from ADDRESS-OR-DIRECTORY"]);
        let output = run(Command::new(shell).args(["install.sh", "--to", "bin", "--from", "/nonexistent"]), &alone);
        failed(&output, &["cannot get SHA256SUMS from /nonexistent", "--from"]);
        for script in ["install.sh", "../beside/install.sh"] {
            let output = run(Command::new(shell).args([script, "--to", "bin"]), &beside);
            assert!(said(&output.stdout).contains("(beside)"), "{shell} {script}: {}", said(&output.stderr));
        }
    }
}

/// With TMPDIR on such a filesystem, the reason was that the binary does not run on this machine.
#[test]
fn where_no_program_may_run_is_named_by_the_installer() {
    let place = Place::new();
    // A mount that this process alone has.
    let unshared = ["--user", "--map-root-user", "--mount"];
    or_skip!(tool("unshare", &[&unshared[..], &["true"]].concat()));
    let (beside, noexec) = (dir(&place, "beside"), dir(&place, "noexec"));
    release(&beside, "beside");
    let mount = format!("mount -t tmpfs -o noexec qd1 {}; ", noexec.display());
    for shell in shells() {
        let install = |environment: &str, to: &str| {
            let script = format!("{mount} {environment} {shell} {SCRIPT} --from . --to {to}");
            run(Command::new("unshare").args(unshared).args(["sh", "-c", &script]), &beside)
        };
        let noexec = noexec.to_str().unwrap();
        let output = install(&format!("TMPDIR={noexec}"), "bin");
        assert!(said(&output.stdout).contains("installed bin/qd1 (beside)"), "{shell}: {}", said(&output.stderr));
        fs::remove_dir_all(beside.join("bin")).unwrap();
        let output = install("", noexec);
        failed(&output, &["mounted noexec", "--to"]);
    }
}
