//! Where results go: stdout or a file (whole or not at all), with or without colour, at the terminal's width.

use std::fs::{File, Metadata, Permissions};
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::args::{DestinationArgs, OutputArgs, When};
use crate::{message, signals, terminal};
use qd1_model::{Problem, ProblemKind, printable_output};
use qd1_report::{Detail, Style, render};
use qd1_system::destination::Destination;
use qd1_system::inputs;
use qd1_system::state::default_path;

/// Returns the requested style, as far as the destination supports it.
pub(crate) fn style(args: &DestinationArgs, detail: Detail) -> Style {
    let to_terminal = args.output.is_none() && std::io::stdout().is_terminal();
    let (width, height) = terminal::size(std::io::stdout());
    let (width, height) = if to_terminal { (width, Some(height)) } else { (terminal::WIDTH, None) };
    let detail = match detail {
        _ if args.verbose => Detail::All,
        Detail::Screen { is_kept, .. } => Detail::Screen { is_kept, lines: height },
        Detail::All => Detail::All,
    };
    Style { color: color(args.color, to_terminal), width, detail }
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

/// Checks that the file of `-o` can be written, so that a run does not fail after a minute of measuring.
///
/// # Errors
/// When it is a disk, or the directory is missing or cannot be written.
pub(crate) fn check_destination(path: &Path) -> Result<()> {
    let there = destination("-o", path)?;
    refuse_in_use("-o", path)?;
    if is_special(&there) {
        return Ok(());
    }
    if there.is_frozen() {
        let error = std::io::Error::other("it, or its directory, is immutable or append-only (chattr)");
        return Err(Problem::usage(cannot_write("-o", path, &error)).into());
    }
    create_temporary(path, &there).map(drop)
}

/// Refuses a file that this command reads, including the history: the result would replace it.
fn refuse_in_use(option: &str, path: &Path) -> Result<()> {
    let history: Option<PathBuf> = default_path(|name| std::env::var_os(name)).ok();
    if history.as_ref().is_some_and(|history| is_of_history(path, history)) {
        return Err(
            Problem::usage(format!("{option} {}: is the history of runs; name another file", path.display())).into()
        );
    }
    let found = std::fs::metadata(path).ok().filter(Metadata::is_file);
    let is_it = |other: &Path| {
        let other = std::fs::metadata(other).ok();
        found.as_ref().zip(other).is_some_and(|(found, other)| (found.dev(), found.ino()) == (other.dev(), other.ino()))
    };
    let what = if history.is_some_and(|history| is_it(&history)) {
        "is the history of runs"
    } else if inputs::has(path) || arguments().iter().any(|argument| is_it(argument)) {
        "is read or measured by this command"
    } else {
        return Ok(());
    };
    Err(Problem::usage(format!("{option} {}: {what}; name another file", path.display())).into())
}

/// Whether a path is where the history is or will be, or a file that SQLite keeps next to it.
fn is_of_history(path: &Path, history: &Path) -> bool {
    let place = |path: &Path| {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((dir.canonicalize().ok()?, path.file_name()?.to_os_string()))
    };
    let Some(given) = place(path) else { return false };
    let Some((dir, name)) = place(history) else { return false };
    // Its journals and spare, locks of runs, and copies of earlier versions.
    let end = given.1.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
    let is_beside = |end: &[u8]| {
        let is_version = end.strip_prefix(b".v").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit));
        matches!(end, b"" | b"-wal" | b"-shm" | b"-journal" | b"-spare")
            || end.starts_with(b"-") && end.ends_with(b".lock")
            || is_version
    };
    given.0 == dir && end.is_some_and(is_beside)
}

/// Returns the arguments of this process that may be paths, except those that name what may be written. They are known
/// before anything is read; [`inputs`] knows the files that arguments do not show, once these are opened.
fn arguments() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            // After it come no options.
            Some("--") => found.extend(words.by_ref().map(PathBuf::from)),
            Some("--output" | "--destroy" | "--record") => _ = words.next(),
            Some(text) if ["--output=", "--destroy=", "--record="].iter().any(|option| text.starts_with(option)) => {}
            // `-o FILE`, `-oFILE`, and after letters without a value: `-vo FILE`.
            Some(text) if text.starts_with('-') && !text.starts_with("--") && text.contains('o') => {
                if text.ends_with('o') && text.matches('o').count() == 1 {
                    words.next();
                }
            }
            Some(text) => {
                // `--group before=a.json,b.json`.
                let parts = text.split_once('=').into_iter().flat_map(|(_, value)| value.split(',').chain([value]));
                found.extend(parts.chain([text]).map(PathBuf::from));
            }
            None => found.push(word.into()),
        }
    }
    found
}

/// Creates a file to be written in place, or empties it; fifos, terminals and the like are opened as they are.
///
/// # Errors
/// When it cannot be opened, or is a disk. `option` is the option that names it.
pub(crate) fn create_in_place(option: &str, path: &Path) -> Result<File> {
    let there = destination(option, path)?;
    refuse_in_use(option, path)?;
    let cannot = |error| Problem::usage(cannot_write(option, path, &error));
    if is_special(&there) {
        return Ok(open_special(&there).map_err(cannot)?);
    }
    let file = there.open().map_err(cannot)?;
    file.set_len(0).map_err(cannot)?;
    Ok(file)
}

/// Refuses to replace a file that has something: it may be the recording of a night, or was named by mistake.
///
/// # Errors
/// If it is such a file.
pub(crate) fn refuse_recorded(path: &Path) -> Result<()> {
    if path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0) {
        let message = format!(
            "--record {}: exists; name another file, or remove it",
            qd1_model::printable(&path.to_string_lossy())
        );
        return Err(Problem::usage(message).into());
    }
    Ok(())
}

/// Checks, before measuring, that [`create_in_place`] will succeed, without emptying or creating the file.
///
/// # Errors
/// As for [`create_in_place`].
pub(crate) fn check_in_place(option: &str, path: &Path) -> Result<()> {
    let there = destination(option, path)?;
    refuse_in_use(option, path)?;
    let cannot = |error| Problem::usage(cannot_write(option, path, &error));
    let checked = match there.kind().map_err(cannot)? {
        // Opening a fifo waits for its reader.
        Some(kind) if kind != FileType::RegularFile => Ok(()),
        Some(_) => there.open_found().map(drop),
        None => tempfile::tempfile_in(there.dir_path()).map(drop),
    };
    Ok(checked.map_err(cannot)?)
}

/// Follows links, so that a link remains a link, but not links of another user. Refuses a directory, a socket, which
/// cannot be opened, and a block device, mounted or not, whose data a result would overwrite.
fn destination(option: &str, path: &Path) -> Result<Destination> {
    let shown = path.display();
    let directory = || Problem::usage(format!("{option} {shown}: is a directory; name a file"));
    let found = Destination::of(path).and_then(|there| Ok((there.kind()?, there)));
    let (kind, there) = found.map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => directory(),
        _ => Problem::usage(cannot_write(option, path, &error)),
    })?;
    match kind {
        Some(FileType::Directory) => Err(directory().into()),
        Some(FileType::BlockDevice) => Err(disk(option, path).into()),
        Some(FileType::Socket) if !there.is_descriptor() => {
            Err(Problem::usage(format!("{option} {shown}: is a socket; name a file or a fifo")).into())
        }
        _ => Ok(there),
    }
}

fn disk(option: &str, path: &Path) -> Problem {
    let message =
        format!("{option} {}: is a block device, and its data would be overwritten; name a file", path.display());
    Problem::new(ProblemKind::Unsafe, message)
}

fn cannot_write(option: &str, path: &Path, error: &std::io::Error) -> String {
    format!("{option} {}: cannot write there: {error}; choose another place", path.display())
}

/// Returns true for a special file: a fifo, a terminal, /dev/null, /dev/stdout. It is written in place: renaming a file
/// over it would destroy it.
fn is_special(there: &Destination) -> bool {
    there.is_descriptor() || there.kind().is_ok_and(|kind| kind.is_some_and(|kind| kind != FileType::RegularFile))
}

/// Opens a special file. A fifo waits for its reader; once a signal has come, not for long.
fn open_special(there: &Destination) -> std::io::Result<File> {
    const PAUSE: Duration = Duration::from_millis(20);
    let is_fifo = there.kind()? == Some(FileType::Fifo);
    let mut pauses_left = 100;
    loop {
        let opened = there.open_found();
        if !is_fifo || opened.as_ref().err().and_then(Errno::from_io_error) != Some(Errno::NXIO) {
            return opened;
        }
        if signals::received().is_some() {
            pauses_left -= 1;
        }
        // The reader of an open pipe does not come back.
        if pauses_left == 0 || there.is_descriptor() {
            return Err(std::io::Error::other("nobody reads it"));
        }
        std::thread::sleep(PAUSE);
    }
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
    // Only the kind of the error: its text names our temporary file.
    let file = builder.tempfile_in(there.dir_path()).map_err(|error| cannot(error.kind().into()))?;
    if let Some(old) = old {
        // Before the permissions, which this may reset. Only root can give a file away; else it stays the writer's.
        let _ = std::os::unix::fs::fchown(file.as_file(), Some(old.st_uid), Some(old.st_gid));
        file.as_file().set_permissions(Permissions::from_mode(old.st_mode & 0o777)).map_err(cannot)?;
    }
    Ok(file)
}

/// Writes `text` to stdout, or to the file of `-o`. If that file can no longer be written, the text goes to stdout, so
/// that it is not lost.
///
/// # Errors
/// When it cannot be written to its destination. A closed pipe (`| head`) is not an error.
pub(crate) fn write(args: &DestinationArgs, text: &str) -> Result<()> {
    write_bytes(args, printable_output(text).as_bytes())
}

/// Writes bytes that may not be text, like [`write()`].
///
/// # Errors
/// As for [`write()`].
pub(crate) fn write_bytes(args: &DestinationArgs, bytes: &[u8]) -> Result<()> {
    let Some(path) = &args.output else { return print(bytes) };
    write_to(path, bytes).inspect_err(|_| {
        if print(bytes).is_ok() {
            message::print("qd1: could not write the file of -o; the report is on stdout instead");
        }
    })
}

fn print(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("cannot write to stdout"),
    }
}

/// Renames a finished file over the one at `path`. Special files are written in place, and so are files that renaming
/// cannot replace: a mount point, or another user's file in a sticky directory.
fn write_to(path: &Path, bytes: &[u8]) -> Result<()> {
    // The error's own text names our temporary file.
    let cannot = |error: std::io::Error| {
        let error = error.raw_os_error().map_or(error, std::io::Error::from_raw_os_error);
        anyhow::Error::new(error).context(format!("cannot write {}", path.display()))
    };
    refuse_in_use("-o", path)?;
    let there = destination("-o", path)?;
    if is_special(&there) {
        return open_special(&there).and_then(|mut file| file.write_all(bytes)).map_err(cannot);
    }
    let mut file = create_temporary(path, &there)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(cannot)?;
    let Err(error) = file.persist(there.path()) else { return Ok(()) };
    drop(error.file);
    let mut file = there.open().map_err(|_| cannot(error.error))?;
    file.set_len(0).and_then(|()| file.write_all(bytes)).map_err(cannot)
}

/// Renders a report in the requested form and writes it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn report(args: &OutputArgs, report: &qd1_model::Report, detail: Detail) -> Result<()> {
    write(&args.to, &render(report, args.format(), &style(&args.to, detail)))
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
