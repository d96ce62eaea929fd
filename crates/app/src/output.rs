//! Where results go: stdout or a file (whole or not at all), with or without colour, at the terminal's width.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::args::{OutputArgs, When};
use qd1_model::Problem;
use qd1_report::{Style, redact, render};

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
/// When the directory is missing or cannot be written.
pub(crate) fn check_destination(path: &Path) -> Result<()> {
    if is_special(path) {
        return Ok(());
    }
    create_temporary(&resolve_links(path)).map(drop)
}

/// Returns true for a special file: a fifo, a terminal, /dev/null. It is written in place: renaming a file over it
/// would destroy it.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Resolves symbolic links, so that a link remains a link.
fn resolve_links(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn create_temporary(path: &Path) -> Result<tempfile::NamedTempFile> {
    let dir = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(Problem::usage(format!("-o {}: is a directory; name a file", path.display())).into());
    }
    tempfile::Builder::new().prefix(".qd1-").tempfile_in(dir).map_err(|error| {
        Problem::usage(format!("-o {}: cannot write there: {error}; choose another place", path.display())).into()
    })
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
        let written =
            std::fs::OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
        return written.with_context(|| format!("cannot write {}", path.display()));
    }
    let path = &resolve_links(path);
    let mut file = create_temporary(path)?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    file.as_file().sync_all().with_context(|| format!("cannot write {}", path.display()))?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable).with_context(|| format!("cannot write {}", path.display()))?;
    file.persist(path).with_context(|| format!("cannot write {}", path.display()))?;
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
