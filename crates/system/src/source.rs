//! Files that the user names to be read: results, histories, suites, thresholds, prices, scripts.
//!
//! They may come from anybody. A device has no end, a fifo waits for a writer that never comes, and a file may be as
//! large as the disk it is on. So all of them are opened and read here, and nothing is read before its type and size
//! are known. A pipe of this process, such as that of a shell's `<(command)`, is read too, since somebody writes to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use qd1_model::{Bytes, Problem, printable};
use rustix::fs::OFlags;

use crate::inputs;

/// Where this process's descriptors have names.
const DESCRIPTORS: [&str; 3] = ["/dev/fd", "/proc/self/fd", "/dev/stdin"];
/// Initial capacity for what comes through a pipe, whose size is unknown.
const PIPE_ROOM: u64 = 64 << 10;

/// A kind of file, and how large one may be.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called in messages, with its article.
    pub name: &'static str,
    /// Maximum size of one, bytes.
    pub most: u64,
}

/// Opens a file to be read.
///
/// # Errors
/// When it cannot be opened, is neither a regular file nor a pipe of this process, or is too large for its kind.
pub fn open(path: &Path, kind: Kind) -> Result<File, Problem> {
    let cannot = |error: io::Error| cannot(path, &error);
    // Before it is opened: opening a device may already have an effect.
    let is_pipe = is_readable(path, &path.metadata().map_err(cannot)?)?;
    // If a fifo is there by now, opening it must not block; for a pipe, reading must.
    let flags = if is_pipe { OFlags::NOCTTY } else { OFlags::NOCTTY | OFlags::NONBLOCK };
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).map_err(cannot)?;
    let found = file.metadata().map_err(cannot)?;
    is_readable(path, &found)?;
    inputs::note(path);
    if found.len() > kind.most { Err(too_large(path, kind)) } else { Ok(file) }
}

/// Reads the whole of a file.
///
/// # Errors
/// As [`open`], and when reading fails.
pub fn read(path: &Path, kind: Kind) -> Result<Vec<u8>, Problem> {
    let file = open(path, kind)?;
    let size = file.metadata().map_or(0, |found| found.len());
    let mut bytes = Vec::with_capacity(size.max(PIPE_ROOM).min(kind.most) as usize + 1);
    // One extra byte distinguishes a file that is too large from one that just fits; it may have grown.
    file.take(kind.most + 1).read_to_end(&mut bytes).map_err(|error| cannot(path, &error))?;
    if bytes.len() as u64 > kind.most { Err(too_large(path, kind)) } else { Ok(bytes) }
}

/// Reads the whole of a file of text.
///
/// # Errors
/// As [`read`], and when it is not UTF-8.
pub fn read_text(path: &Path, kind: Kind) -> Result<String, Problem> {
    String::from_utf8(read(path, kind)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::usage(format!("{}: is not UTF-8 text from byte {at} on; name {}", shown(path), kind.name))
    })
}

/// Whether it is a pipe of this process, which can be read like a regular file; anything else is refused.
fn is_readable(path: &Path, found: &std::fs::Metadata) -> Result<bool, Problem> {
    let kind = found.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(false),
        _ if kind.is_fifo() && DESCRIPTORS.iter().any(|known| path.starts_with(known)) => return Ok(true),
        _ if kind.is_fifo() => "a fifo",
        _ if kind.is_dir() => "a directory",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(Problem::usage(format!("{}: is {what}; name a file", shown(path))))
}

fn too_large(path: &Path, kind: Kind) -> Problem {
    let most = Bytes(kind.most);
    Problem::usage(format!("{}: is larger than {most}, too large for {}; name another file", shown(path), kind.name))
}

fn cannot(path: &Path, error: &io::Error) -> Problem {
    Problem::usage(format!("{}: cannot be read: {error}", shown(path)))
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    const TEN: Kind = Kind { name: "a note", most: 10 };

    #[track_caller]
    fn refused(path: &Path, what: &str) {
        let error = read(path, TEN).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn what_has_no_end_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        refused(&fifo, "is a fifo; name a file");
        refused(Path::new("/dev/zero"), "is a device; name a file");
        refused(dir.path(), "is a directory; name a file");
        refused(&dir.path().join("none"), "cannot be read: No such file");
    }

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for (text, fits) in [("", true), ("0123456789", true), ("0123456789a", false)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(&file, TEN).ok().as_deref(), fits.then_some(text.as_bytes()), "{text}");
        }
        refused(&file, "is larger than 10 B, too large for a note; name another file");
        std::fs::write(&file, b"ab\xff").unwrap();
        let error = read_text(&file, TEN).unwrap_err().to_string();
        assert!(error.contains("is not UTF-8 text from byte 2 on; name a note"), "{error}");
    }

    /// What a shell makes of `<(command)`.
    #[test]
    fn a_pipe_of_this_process_is_read_as_far_as_allowed() {
        let through = |bytes: &[u8]| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            std::io::Write::write_all(&mut writer, bytes).unwrap();
            drop(writer);
            read(Path::new(&format!("/dev/fd/{}", reader.as_raw_fd())), TEN)
        };
        assert_eq!(through(b"0123456789").unwrap(), b"0123456789");
        assert!(through(&[b'x'; 4000]).unwrap_err().to_string().contains("larger than 10 B"));
    }
}
