//! What is wrong with the place or the command line is said once, clearly, with the documented exit code, before
//! anything is left behind.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use predicates::prelude::*;

use crate::common::filesystems::TINY;
use crate::common::refusal::{as_ordinary_user, check_refused, path_refused, refused};
use crate::common::{self, BRIEF, Place, or_skip, qd1, said, skip, test_name, thresholds};

#[test]
fn an_ordinary_user_is_told_what_may_not_be_read_or_written() {
    for (mode, command, args) in [
        (0o555, "check", &BRIEF[..]),
        (0o000, "check", &BRIEF),
        (0o755, "ping", &["-c", "1"]),
        (0o555, "meta", &["--files", "100"]),
    ] {
        let place = Place::open_to_all();
        fs::set_permissions(place.dir(), fs::Permissions::from_mode(mode)).unwrap();
        let output = or_skip!(as_ordinary_user(&place, &[&[command, place.dir_str()], args].concat()));
        refused(&output, 5, &[place.dir_str(), "EACCES"]);
        fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).unwrap();
        place.assert_empty();
    }
}

#[test]
fn an_ordinary_user_measures_a_directory_of_their_own() {
    let place = Place::open_to_all();
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = or_skip!(as_ordinary_user(&place, &[&["check", place.dir_str()], &BRIEF[..]].concat()));
    assert!(output.status.success(), "{}", said(&output.stderr));
    place.assert_empty();
}

#[test]
fn an_ordinary_user_is_told_that_filesystems_need_root() {
    let place = Place::open_to_all();
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let args = [&["filesystems", place.dir_str(), "--only", "ext4"], &TINY[..]].concat();
    let output = or_skip!(as_ordinary_user(&place, &args));
    refused(&output, 5, &["root"]);
    place.assert_empty();
}

#[test]
fn a_size_beyond_the_filesystem_is_refused() {
    let place = Place::new();
    refused(&place.qd1(&["--size", "900TiB"]).output().unwrap(), 4, &["not enough space", "900 TiB", "smaller --size"]);
    place.assert_untouched();
}

#[test]
fn a_file_that_cannot_grow_is_a_failed_run_and_is_not_kept() {
    let place = Place::new();
    let mut command = Command::new("sh");
    // Writes beyond the limit fail with EFBIG, as on a disk or quota that does not take them; the signal is ignored.
    let script = "trap '' XFSZ; ulimit -f 16384; exec \"$0\" \"$@\"";
    place.environment(&mut command).args(["-c", script, qd1(), "check", place.dir_str()]).args(BRIEF).arg("--quiet");
    refused(&command.output().unwrap(), 1, &["EFBIG", place.dir_str()]);
    place.assert_untouched();
}

#[test]
fn memory_is_named_as_not_a_disk() {
    let dir = or_skip!(tempfile::TempDir::new_in("/dev/shm").map_err(|error| error.to_string()));
    let place = Place::at(dir.path());
    let report = place.report(&["--in-memory", "--only", "qd1,commit1"]);
    if report["record"]["plan"]["target"]["filesystem"] != "tmpfs" {
        return skip(test_name!(), "/dev/shm is not in memory here");
    }
    // It was measured for 24 s before it said so.
    for command in [&["check"][..], &["check", "--dry-run"], &["sweep"], &["identify"], &["meta"], &["limits"]] {
        let output = place.qd1(&[command, &[place.dir_str()]].concat()).output().unwrap();
        refused(&output, 2, &["tmpfs", "no disk to measure", "--in-memory"]);
    }
    common::find(&report["findings"], "id", "not_a_disk");
    assert_eq!(report["record"]["plan"]["target"]["direct"], false);
    place.assert_empty();
}

#[test]
fn filesystems_that_the_kernel_makes_up_are_no_disks() {
    path_refused("/proc", 2, &["/proc", "no disk", "choose"]);
    path_refused("/sys", 2, &["/sys", "no disk", "choose"]);
}

#[test]
fn a_missing_path_is_named() {
    path_refused("/nonexistent/data", 2, &["/nonexistent/data", "does not exist"]);
}

#[test]
fn a_mistyped_command_is_recognised_as_one() {
    let place = Place::new();
    refused(&place.qd1(&["hystori"]).output().unwrap(), 2, &["did you mean", "qd1 history"]);
    place.assert_untouched();
}

/// `qd1 man` said that the path man does not exist.
#[test]
fn a_word_that_is_no_command_is_answered_with_the_commands() {
    let place = Place::new();
    refused(&place.qd1(&["frobnicate"]).output().unwrap(), 2, &["no file, directory or command", "check, run, sweep"]);
    refused(&place.qd1(&["help", "verdict"]).output().unwrap(), 2, &["did you mean verdicts?"]);
    refused(&place.qd1(&["help", "frobnicate"]).output().unwrap(), 2, &["units", "check, run, sweep"]);
    place.assert_untouched();
}

/// A sweep listed 140 names, and a check those of every effort.
#[test]
fn a_wrong_step_is_answered_with_the_steps_of_this_run() {
    let place = Place::new();
    let said = |args: &[&str]| {
        let output = place.qd1(&[args, &[place.dir_str(), "--only", "commit2"]].concat()).output().unwrap();
        refused(&output, 2, &["there is no step \"commit2\""]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let check = said(&["check", "--quick"]);
    assert!(check.contains("did you mean commit1?") && check.contains("wal") && !check.contains("zeros"), "{check}");
    let sweep = said(&["sweep"]);
    assert!(sweep.contains("more (--dry-run lists them)") && sweep.matches("randread").count() <= 17, "{sweep}");
    place.assert_untouched();
}

/// clap suggested --quiet.
#[test]
fn a_program_has_no_quick_form() {
    let place = Place::new();
    let output = place.qd1(&["app", "sqlite", place.dir_str(), "--quick"]).output().unwrap();
    refused(&output, 2, &["has no --quick", "--runtime"]);
}

#[test]
fn bonnies_file_that_is_too_large_is_answered_with_one_that_fits() {
    let place = Place::new();
    let output =
        place.qd1(&["meta", place.dir_str(), "--suite", "bonnie", "--size", "900T", "--ram", "1G"]).output().unwrap();
    refused(&output, 4, &["make bonnie's file smaller: --size ", "G --ram "]);
    place.assert_untouched();
}

/// "at most 91.4 GiB" was no help.
#[test]
fn a_dry_run_says_what_a_usual_disk_would_take() {
    let place = Place::new();
    let output = place.qd1(&["check", place.dir_str(), "--dry-run"]).output().unwrap();
    assert!(said(&output.stdout).contains(" at 200 MB/s"), "{}", said(&output.stdout));
}

/// Without the right to open it, the typing error was not told.
#[test]
fn a_destroy_that_names_another_device_is_told_before_it_is_opened() {
    let place = Place::new();
    let file = place.beside("file");
    fs::write(&file, "x").unwrap();
    let output = place.qd1(&["check", file.to_str().unwrap(), "--destroy", "/dev/null"]).output().unwrap();
    refused(&output, 4, &["--destroy must name the same"]);
}

#[test]
fn a_path_below_a_file_is_a_wrong_path() {
    let place = Place::new();
    let file = place.beside("file");
    fs::write(&file, "x").unwrap();
    path_refused(&format!("{}/below", file.display()), 2, &["file/below"]);
}

#[test]
fn a_name_that_is_not_utf_8_is_no_place_but_may_be_a_result() {
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"not-utf8-\xff");
    fs::create_dir(place.beside("x").with_file_name(name)).unwrap();
    let dir = place.beside("x").with_file_name(name);
    let output = place.qd1(&[]).arg(&dir).output().unwrap();
    refused(&output, 2, &["not-utf8-", "is not UTF-8", "choose"]);
    assert_eq!(common::names(&dir), Vec::<String>::new());
    place.brief(&["--only", "read32", "-o"]).arg(dir.join(name)).assert().success();
}

#[test]
fn a_character_device_is_neither_written_nor_read() {
    path_refused("/dev/null", 2, &["/dev/null", "is not a directory", "choose"]);
}

#[test]
fn a_file_too_small_to_measure_is_named_as_that() {
    let place = Place::new();
    let file = place.beside("small");
    fs::write(&file, "x").unwrap();
    path_refused(file.to_str().unwrap(), 2, &["a test area of 1 B", "small is too small", "16 MiB"]);
}

#[test]
fn a_result_file_that_cannot_be_written_is_refused_at_once() {
    let place = Place::new();
    let dir = place.dir_str().to_owned();
    check_refused(&["-o", &dir], 2, &[&dir, "is a directory"]);
    check_refused(&["-o", "/nonexistent/out.json"], 2, &["/nonexistent/out.json", "choose another place"]);
    let file = place.beside("file");
    fs::write(&file, "x").unwrap();
    check_refused(&["-o", &format!("{}/out.json", file.display())], 2, &["file/out.json"]);
}

#[test]
fn figures_without_sense_are_refused_by_name() {
    for size in ["0", "lots", "-1", "1.5.2G", "4GX"] {
        let place = Place::new();
        refused(&place.qd1(&[&format!("--size={size}")]).output().unwrap(), 2, &["size"]);
        place.assert_untouched();
    }
    refused(
        &Place::new().qd1(&["--size", "1MiB"]).output().unwrap(),
        2,
        &["1 MiB", "too small", "--size needs at least 16 MiB"],
    );
    for time in ["0s", "soon", "5 parsecs", "-3s"] {
        let place = Place::new();
        refused(&place.qd1(&[&format!("--runtime={time}")]).output().unwrap(), 2, &["--runtime"]);
        place.assert_untouched();
    }
    check_refused(&["--seed", "x"], 2, &["--seed"]);
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    check_refused(&["--only", "qd1,nosuch"], 2, &["nosuch", "choose from", "commit1"]);
    check_refused(&["--engine", "posixaio"], 2, &["posixaio", "io_uring"]);
    check_refused(&["--format", "xml"], 2, &["xml", "ndjson"]);
    check_refused(&["--fail-on", "pass"], 2, &["marginal"]);
    check_refused(&["--nosuch"], 2, &["--nosuch", "--help"]);
    check_refused(&["--json", "--format", "csv"], 2, &["--json", "--format"]);
    check_refused(&["--quick", "--full"], 2, &["--quick", "--full"]);
}

#[test]
fn thresholds_that_cannot_be_meant_are_refused_before_measuring() {
    let place = Place::new();
    let file = place.beside("mine.toml");
    let path = file.to_str().unwrap();
    let good = thresholds("qd1", "read", "lat_p50_ns", 1.0, 2.0);
    for (text, words) in [
        ("this is not TOML [".to_owned(), &["mine.toml", "line 1"][..]),
        (good.replace("lat_p50_ns", "lat_p51_ns"), &["unknown metric", "lat_p51_ns", "lat_p999_ns"]),
        (good.replace("title", "heading"), &["heading"]),
        (String::new(), &["mine.toml", "class"]),
    ] {
        fs::write(&file, text).unwrap();
        check_refused(&["--thresholds", path], 2, words);
    }
    check_refused(&["--thresholds", "/nonexistent/t.toml"], 2, &["/nonexistent/t.toml"]);
    check_refused(&["--thresholds", place.dir_str()], 2, &[place.dir_str()]);
}

/// Root undid what the journals of whoever owned the home directory named (`sudo -E`).
#[test]
fn journals_that_another_user_could_write_are_not_obeyed() {
    let place = Place::new();
    let state = place.beside("home/.local/state/qd1/journal");
    fs::create_dir_all(&state).unwrap();
    fs::set_permissions(place.beside("home"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(state.join("0.journal"), "00000000 {}\n").unwrap();
    let output = place.qd1(&["restore"]).env("HOME", place.beside("home")).output().unwrap();
    refused(&output, 4, &["cannot trust the journals", "XDG_STATE_HOME", "sudo -H"]);
    // A run does without one.
    place.brief(&["--only", "files"]).env("HOME", place.beside("home")).assert().success();
    place.assert_empty();
}

#[test]
fn a_damaged_journal_is_told_and_kept() {
    let place = Place::new();
    let state = place.beside(".local/state/qd1/journal");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("0.journal"), b"\xff\xfe\n").unwrap();
    let output = place.qd1(&["restore"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("line 1 of"), "{}", said(&output.stderr));
    assert!(state.join("0.journal").exists());
}

#[test]
fn what_a_command_does_not_have_is_told_with_what_it_has() {
    let told = |args: &[&str], what: &str| {
        Place::new().qd1(args).assert().code(2).stdout("").stderr(predicate::str::contains(what));
    };
    told(&["app", "oracle"], "`qd1 app` has no subcommand oracle; its subcommands are postgres, mysql, etcd");
    told(&["app", "postgre"], "did you mean postgres?");
    told(&["history", "drop"], "its subcommands are show, tag, note");
    told(&["app", "postgres", "--clients", "1,x"], "'x' for '--clients <N>': not a whole number");
}
