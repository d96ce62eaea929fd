//! What is wrong with the place or the command line is said once, clearly, with the documented exit code, before
//! anything is left behind.

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use common::device::{Loop, Mounted};
use common::{BRIEF, Place, is_root, qd1, skip};

/// The one message is on stderr, it names `words`, and the exit code is `code`.
#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stderr}{stdout}");
    assert_eq!(stdout, "", "only results belong on stdout");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
    }
    let messages = stderr.lines().filter(|line| line.starts_with("qd1:") || line.starts_with("error:")).count();
    assert_eq!(messages, 1, "{stderr}");
    for noise in ["panicked", "backtrace", "RUST_", "Err(", "Some("] {
        assert!(!stderr.contains(noise), "{noise:?} is in: {stderr}");
    }
}

/// A brief check with `args` is refused, and nothing remains of it.
#[track_caller]
fn check_refused(args: &[&str], code: i32, words: &[&str]) {
    let place = Place::new();
    refused(&place.brief(args).output().unwrap(), code, words);
    place.assert_untouched();
}

/// A brief check of `path` is refused, and nothing is kept.
#[track_caller]
fn path_refused(path: &str, code: i32, words: &[&str]) {
    let place = Place::new();
    refused(&place.qd1(&[&["check", path], &BRIEF[..]].concat()).output().unwrap(), code, words);
    place.assert_untouched();
}

/// A brief check as a user who is not root; the reason where there can be none.
fn as_ordinary_user(place: &Place, args: &[&str]) -> Result<Output, String> {
    let mut command = if is_root() {
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let reachable =
            Command::new("setpriv").args(user).args(["test", "-x", qd1(), "-a", "-x"]).arg(place.beside(".")).status();
        if !reachable.is_ok_and(|status| status.success()) {
            return Err("an ordinary user cannot reach the binary here, or there is no setpriv".to_owned());
        }
        let mut command = Command::new("setpriv");
        command.args(user).arg(qd1());
        command
    } else {
        Command::new(qd1())
    };
    // From the root, since the directory to measure may be closed to that user.
    place.environment(&mut command).current_dir("/").args(args);
    command.output().map_err(|error| error.to_string())
}

fn directory_refused_to_ordinary_user(test: &str, mode: u32) {
    let place = Place::new();
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(mode)).unwrap();
    match as_ordinary_user(&place, &[&["check", place.dir_str()], &BRIEF[..]].concat()) {
        Ok(output) => refused(&output, 5, &[place.dir_str(), "EACCES"]),
        Err(why) => return skip(test, &why),
    }
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    place.assert_empty();
}

#[test]
fn a_directory_the_user_may_not_write_needs_another_user() {
    directory_refused_to_ordinary_user("a_directory_the_user_may_not_write_needs_another_user", 0o555);
}

#[test]
fn a_directory_without_any_permission_needs_another_user() {
    directory_refused_to_ordinary_user("a_directory_without_any_permission_needs_another_user", 0o000);
}

#[test]
fn an_ordinary_user_measures_a_directory_of_their_own() {
    let place = Place::new();
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    match as_ordinary_user(&place, &[&["check", place.dir_str()], &BRIEF[..]].concat()) {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(why) => return skip("an_ordinary_user_measures_a_directory_of_their_own", &why),
    }
    place.assert_empty();
}

#[test]
fn a_block_device_is_not_read_by_a_user_who_may_not() {
    let test = "a_block_device_is_not_read_by_a_user_who_may_not";
    let disk = match Loop::new(64 << 20, &[]) {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let place = Place::new();
    match as_ordinary_user(&place, &["check", disk.path()]) {
        Ok(output) => refused(&output, 5, &[disk.path(), "EACCES"]),
        Err(why) => skip(test, &why),
    }
}

#[test]
fn a_read_only_filesystem_is_a_missing_capability() {
    match Loop::ext4(64 << 20).and_then(|disk| Mounted::new(disk, "ro")) {
        Ok(mounted) => path_refused(mounted.path().to_str().unwrap(), 5, &["EROFS"]),
        Err(why) => skip("a_read_only_filesystem_is_a_missing_capability", &why),
    }
}

#[test]
fn a_filesystem_with_too_little_space_is_not_filled() {
    let mounted = match Loop::ext4(256 << 20).and_then(|disk| Mounted::new(disk, "defaults")) {
        Ok(mounted) => mounted,
        Err(why) => return skip("a_filesystem_with_too_little_space_is_not_filled", &why),
    };
    path_refused(mounted.path().to_str().unwrap(), 4, &["not enough space", "--size", "stay free"]);
    assert_eq!(common::names(mounted.path()), Vec::<String>::new());
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
    let shm = Path::new("/dev/shm");
    let Ok(dir) = tempfile::TempDir::new_in(shm) else {
        return skip("memory_is_named_as_not_a_disk", "no /dev/shm to write to");
    };
    let place = Place::at(dir.path());
    let report = place.report(&["--only", "qd1,commit1"]);
    if report["record"]["plan"]["target"]["filesystem"] != "tmpfs" {
        return skip("memory_is_named_as_not_a_disk", "/dev/shm is not in memory here");
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

#[test]
fn a_path_below_a_file_is_a_wrong_path() {
    let place = Place::new();
    let file = place.beside("file");
    fs::write(&file, "x").unwrap();
    path_refused(&format!("{}/below", file.display()), 2, &["file/below"]);
}

#[test]
fn a_name_that_is_not_utf_8_is_refused_as_a_place_and_taken_for_a_result() {
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
    path_refused("/dev/null", 2, &["/dev/null", "neither a directory", "choose"]);
}

#[test]
fn a_file_too_small_to_measure_is_named_as_that() {
    let place = Place::new();
    let file = place.beside("small");
    fs::write(&file, "x").unwrap();
    path_refused(file.to_str().unwrap(), 2, &["a test area of 1 B", "small is too small", "16 MiB"]);
}

#[test]
fn a_result_file_that_cannot_be_written_is_found_before_measuring() {
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
    let good = include_str!("../../suites/src/thresholds.toml");
    for (text, words) in [
        ("this is not TOML [".to_owned(), &["mine.toml", "line 1"][..]),
        (good.replace("sync_p99_ns", "sync_p98_ns"), &["unknown metric", "sync_p98_ns", "lat_p999_ns"]),
        (good.replace("title = \"web\"", "heading = \"web\""), &["heading"]),
        (String::new(), &["mine.toml", "class"]),
    ] {
        fs::write(&file, text).unwrap();
        check_refused(&["--thresholds", path], 2, words);
    }
    check_refused(&["--thresholds", "/nonexistent/t.toml"], 2, &["/nonexistent/t.toml"]);
    check_refused(&["--thresholds", place.dir_str()], 2, &[place.dir_str()]);
}
