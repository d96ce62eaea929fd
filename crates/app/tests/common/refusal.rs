//! Commands that are refused, with one message and nothing left behind, and those that an ordinary user gives.

use std::process::{Command, Output};

use qd1_lab::tool;

use super::{BRIEF, Place, is_root, open_to_all, qd1};

/// The one message is on stderr, it names `words`, and the exit code is `code`.
#[track_caller]
pub(crate) fn refused(output: &Output, code: i32, words: &[&str]) {
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
pub(crate) fn check_refused(args: &[&str], code: i32, words: &[&str]) {
    let place = Place::new();
    refused(&place.brief(args).output().unwrap(), code, words);
    place.assert_untouched();
}

/// A brief check of `path` is refused, and nothing is kept.
#[track_caller]
pub(crate) fn path_refused(path: &str, code: i32, words: &[&str]) {
    let place = Place::new();
    refused(&place.qd1(&[&["check", path], &BRIEF[..]].concat()).output().unwrap(), code, words);
    place.assert_untouched();
}

/// `args` as a user who is not root, from the root of the filesystem, since the directory to measure may be closed.
///
/// # Errors
/// Why nobody can become another user here.
pub(crate) fn as_ordinary_user(place: &Place, args: &[&str]) -> Result<Output, String> {
    if !is_root() {
        let mut command = Command::new(qd1());
        return Ok(place.environment(&mut command).current_dir("/").args(args).output().unwrap());
    }
    // The build's directory may be closed to that user.
    let open = open_to_all();
    let binary = open.path().join("qd1");
    // By a program: a file that another thread's child still has open for writing does not start.
    tool("cp", &[qd1(), binary.to_str().unwrap()])?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary).args(args);
    place.environment(&mut command).current_dir("/").output().map_err(|error| format!("setpriv: {error}"))
}
