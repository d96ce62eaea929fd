//! Where results go: stdout or a file (whole or not at all), with or without colour, at the terminal's width.

use std::fs::{File, Permissions};
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::args::{OutputArgs, When};
use qd1_model::{Problem, ProblemKind};
use qd1_report::{Style, redact, render};
use qd1_system::destination::Destination;

/// Columns when the width is not known.
const WIDTH: usize = 80;

/// Returns the style that the destination can show.
pub(crate) fn style(args: &OutputArgs) -> Style {
    let to_terminal = args.output.is_none() && std::io::stdout().is_terminal();
    Style { color: color(args.color, to_terminal), width: if to_terminal { terminal_width() } else { WIDTH } }
}

/// Returns true if colour is to be used. NO_COLOR (no-color.org) wins over CLICOLOR_FORCE, both over the terminal, and
/// `--color` over all.
fn color(when: When, to_terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto if set("NO_COLOR") => false,
        When::Auto if set("CLICOLOR_FORCE") => true,
        When::Auto => to_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    }
}

fn terminal_width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| usize::from(size.ws_col));
    columns.ok().filter(|columns| *columns > 0).unwrap_or(WIDTH)
}

/// Checks that the file of `-o` can be written, so that a run does not fail after a minute of measuring.
///
/// # Errors
/// When it is a disk, or the directory is missing or cannot be written.
pub(crate) fn check_destination(path: &Path) -> Result<()> {
    refuse_disk("-o", path)?;
    if is_special(path) {
        return Ok(());
    }
    create_temporary(path, &destination("-o", path)?).map(drop)
}

/// Creates a file to be written in place, or empties it; fifos, terminals and the like are opened as they are.
///
/// # Errors
/// When it cannot be opened, or is a disk. `option` is what names it.
pub(crate) fn create_in_place(option: &str, path: &Path) -> Result<File> {
    refuse_disk(option, path)?;
    let cannot = |error| Problem::usage(cannot_write(option, path, &error));
    let special = is_special(path);
    let opened = if special { File::options().write(true).open(path) } else { destination(option, path)?.open() };
    let file = opened.map_err(cannot)?;
    let found = file.metadata().map_err(cannot)?;
    // Another one may have come to this name meanwhile.
    if found.file_type().is_block_device() {
        return Err(disk(option, path).into());
    }
    if found.is_file() && special {
        return Err(cannot(std::io::Error::other("it has just become another file")).into());
    }
    if found.is_file() {
        file.set_len(0).map_err(cannot)?;
    }
    Ok(file)
}

/// Checks, before measuring, that [`create_in_place`] will succeed: a file that is there is not emptied, one that is not
/// is not made.
///
/// # Errors
/// As it.
pub(crate) fn check_in_place(option: &str, path: &Path) -> Result<()> {
    refuse_disk(option, path)?;
    let cannot = |error| Problem::usage(cannot_write(option, path, &error));
    let checked = match std::fs::metadata(path) {
        // Opening a fifo waits for its reader.
        Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
        Ok(_) => File::options().write(true).open(destination(option, path)?.path()).map(drop),
        Err(_) => tempfile::tempfile_in(destination(option, path)?.dir_path()).map(drop),
    };
    Ok(checked.map_err(cannot)?)
}

/// Refuses a block device, whose data a result would overwrite, mounted or not.
fn refuse_disk(option: &str, path: &Path) -> Result<()> {
    let is_disk = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    if is_disk { Err(disk(option, path).into()) } else { Ok(()) }
}

fn disk(option: &str, path: &Path) -> Problem {
    let message =
        format!("{option} {}: is a block device, whose data would be overwritten; name a file", path.display());
    Problem::new(ProblemKind::Unsafe, message)
}

fn cannot_write(option: &str, path: &Path, error: &std::io::Error) -> String {
    format!("{option} {}: cannot write there: {error}; choose another place", path.display())
}

/// Returns true for a special file: a fifo, a terminal, /dev/null. It is written in place: renaming a file over it
/// would destroy it.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Follows links, so that a link remains a link; none of another user.
fn destination(option: &str, path: &Path) -> Result<Destination> {
    if path.is_dir() {
        return Err(Problem::usage(format!("{option} {}: is a directory; name a file", path.display())).into());
    }
    Ok(Destination::of(path).map_err(|error| Problem::usage(cannot_write(option, path, &error)))?)
}

/// Creates a file that can be renamed over the one at `there`, with its permissions, or those of any new file.
fn create_temporary(path: &Path, there: &Destination) -> Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".qd1-");
    let cannot = |error| Problem::usage(cannot_write("-o", path, &error));
    let old = there.stat().map_err(cannot)?;
    if old.is_none() {
        // The umask is applied to it.
        builder.permissions(Permissions::from_mode(0o666));
    }
    // Of the error only its kind: its path is one of ours.
    let file = builder.tempfile_in(there.dir_path()).map_err(|error| cannot(error.kind().into()))?;
    if let Some(old) = old {
        // Before the permissions, which it may reset. Only root can give a file away; another user's stays the writer's.
        let _ = std::os::unix::fs::fchown(file.as_file(), Some(old.st_uid), Some(old.st_gid));
        file.as_file().set_permissions(Permissions::from_mode(old.st_mode & 0o777)).map_err(cannot)?;
    }
    Ok(file)
}

/// Writes `text` to stdout, or to the file of `-o` by renaming a finished file over it; special files are written in
/// place.
///
/// # Errors
/// When it cannot be written. A closed pipe (`| head`) is not an error.
pub(crate) fn write(args: &OutputArgs, text: &str) -> Result<()> {
    let Some(path) = &args.output else {
        let mut stdout = std::io::stdout().lock();
        return match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome.context("cannot write to stdout"),
        };
    };
    if is_special(path) {
        let written = create_in_place("-o", path)?.write_all(text.as_bytes());
        return written.with_context(|| format!("cannot write {}", path.display()));
    }
    let there = destination("-o", path)?;
    let mut file = create_temporary(path, &there)?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    file.as_file().sync_all().with_context(|| format!("cannot write {}", path.display()))?;
    file.persist(there.path()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// Renders a report in the requested form and writes it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn report(args: &OutputArgs, report: &mut qd1_model::Report) -> Result<()> {
    if args.redact {
        redact(report).context("this report cannot be redacted, and is not shown")?;
    }
    write(args, &render(report, args.format(), &style(args)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_found_before_measuring() {
        let error = check_destination(Path::new("/nonexistent/out.json")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/out.json"), "{error}");
    }

    #[test]
    fn colour_follows_the_flag_before_the_terminal() {
        assert!(color(When::Always, false));
        assert!(!color(When::Never, true));
    }
}
