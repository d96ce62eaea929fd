//! A file of runs as it is kept, plain or compressed, and its text: whole, or a line at a time.
//!
//! A small file may unpack to any size. A file that is read whole is bounded; an export, whose runs are read one by
//! one, may be much longer, as long as it is not far larger than its file.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::Path;

use anyhow::Result;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use qd1_model::{Bytes, Problem, printable};
use qd1_system::source::{self, Kind};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Most bytes that are unpacked to be read whole, and most bytes of a line.
const WHOLE_MAX: u64 = 64 << 20;
/// Further bytes that all lines of a compressed file may have for each byte of it. Records are already packed, and
/// shrink to a third.
const LINES_PER_BYTE: u64 = 8;
/// Bytes of a line that are read before room for a long one is made.
const LINE_SHORT: u64 = 1 << 20;
/// Most lines of an export, including blank ones.
const LINES_MAX: usize = 1_000_000;
/// How far back a compressed file may refer to itself; zstd keeps that much in memory. `zstd -19` goes 8 MiB back.
const WINDOW_MAX: u64 = 32 << 20;

/// How a compressed file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `.gz`.
    Gzip,
    /// `.zst`.
    Zstd,
}

impl Packing {
    /// Returns how a file is compressed by the end of its name; `None` if it is not.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }

    fn found(bytes: &[u8]) -> Option<Self> {
        match bytes {
            _ if bytes.starts_with(&GZIP) => Some(Self::Gzip),
            _ if bytes.starts_with(&ZSTD) => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Compresses a text.
    ///
    /// # Errors
    /// Never, unless the library reports an error.
    pub fn packed(self, text: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
                gzip.write_all(text)?;
                gzip.finish()
            }
            Self::Zstd => Ok(compress_to_vec(text, CompressionLevel::Fastest)),
        }
    }

    fn unpacking(self, bytes: &[u8]) -> Box<dyn Read + Send + '_> {
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Self::Zstd => Box::new(Frames { rest: bytes, frame: None }),
        }
    }
}

/// The frames of zstd one after another, as after `cat`.
struct Frames<'a> {
    rest: &'a [u8],
    frame: Option<StreamingDecoder<&'a [u8], FrameDecoder>>,
}

impl Read for Frames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
                self.rest = frame.get_ref();
            }
            if self.rest.is_empty() {
                return Ok(0);
            }
            let frame = StreamingDecoder::new_with_max_window_size(self.rest, WINDOW_MAX);
            self.frame = Some(frame.map_err(io::Error::other)?);
        }
    }
}

/// A file as it is kept.
pub struct Stored {
    name: String,
    bytes: Vec<u8>,
    packing: Option<Packing>,
    /// Most bytes that are unpacked to be read whole, and most bytes of a line.
    most: u64,
}

/// A line and its number, from 1 on.
pub type Line<'a> = (usize, Cow<'a, [u8]>);

impl Stored {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is too large.
    pub fn read(path: &Path, kind: Kind) -> Result<Self, Problem> {
        Ok(Self::of(&printable(&path.to_string_lossy()), source::read(path, kind)?))
    }

    /// Returns the file that has these bytes; `name` is what messages call it.
    pub fn of(name: &str, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), packing: Packing::found(&bytes), bytes, most: WHOLE_MAX }
    }

    /// Returns what messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text as a whole.
    ///
    /// # Errors
    /// When it is damaged, or far larger than its file.
    pub fn whole(self) -> Result<Vec<u8>, Problem> {
        let Some(packing) = self.packing else { return Ok(self.bytes) };
        // If it had to grow, there would be two copies of it for a moment.
        let mut text = Vec::with_capacity(self.most as usize + 1);
        let mut unpacking = packing.unpacking(&self.bytes).take(self.most + 1);
        unpacking.read_to_end(&mut text).map_err(|error| self.cannot(&error))?;
        if text.len() as u64 > self.most { Err(self.too_large(self.most)) } else { Ok(text) }
    }

    /// Returns the lines of the text that are not blank. An error ends them: the file cannot be unpacked, or has too
    /// many lines.
    pub fn lines(&self) -> Box<dyn Iterator<Item = Result<Line<'_>, Problem>> + Send + '_> {
        let lines: Box<dyn Iterator<Item = Result<Cow<'_, [u8]>, Problem>> + Send> = match self.packing {
            None => Box::new(self.bytes.split(|byte| *byte == b'\n').map(|line| Ok(Cow::Borrowed(line)))),
            Some(packing) => Box::new(self.unpacked_lines(packing)),
        };
        let is_blank = |line: &Cow<'_, [u8]>| line.trim_ascii().is_empty();
        let numbered = (1..).zip(lines).map(|(at, line)| match line {
            Ok(_) if at > LINES_MAX => {
                Err(Problem::usage(format!("{}: has more than {LINES_MAX} lines, too many for a history", self.name)))
            }
            line => Ok((at, line?)),
        });
        let mut has_failed = false;
        let whole = numbered.take_while(move |line| !std::mem::replace(&mut has_failed, line.is_err()));
        Box::new(whole.filter(move |line| !line.as_ref().is_ok_and(|(_, line)| is_blank(line))))
    }

    fn unpacked_lines(&self, packing: Packing) -> impl Iterator<Item = Result<Cow<'_, [u8]>, Problem>> {
        let most = self.most.saturating_add(LINES_PER_BYTE.saturating_mul(self.bytes.len() as u64));
        let mut text = BufReader::new(packing.unpacking(&self.bytes));
        let (mut left, mut is_over) = (most, false);
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let length = left.min(self.most);
            let read = line_of(&mut text, length + 1);
            let line = match read {
                Ok(line) => line,
                Err(error) => {
                    is_over = true;
                    return Some(Err(self.cannot(&error)));
                }
            };
            let count = line.len() as u64;
            if count > length {
                is_over = true;
                return Some(Err(self.too_large(if length == self.most { length } else { most })));
            }
            left -= count;
            (count > 0).then_some(Ok(Cow::Owned(line)))
        })
    }

    /// Returns how many bytes it has as it is kept.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    fn cannot(&self, error: &io::Error) -> Problem {
        Problem::usage(format!("{}: cannot be unpacked: {error}", self.name))
    }

    fn too_large(&self, most: u64) -> Problem {
        let most = Bytes(most);
        Problem::usage(format!(
            "{}: is more than {most} when it is unpacked; unpack it first, and give the result",
            self.name
        ))
    }
}

/// Reads a line of at most `most` bytes. Room for a long one is made in one go: if it had to grow, there would be two
/// copies of it for a moment.
fn line_of(text: &mut impl BufRead, most: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let short = most.min(LINE_SHORT);
    let read = text.take(short).read_until(b'\n', &mut line)? as u64;
    if read == short && read < most && line.last() != Some(&b'\n') {
        line.reserve_exact((most - read) as usize);
        text.take(most - read).read_until(b'\n', &mut line)?;
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bytes: Vec<u8>) -> Stored {
        Stored { most: 1 << 20, ..Stored::of("file", bytes) }
    }

    fn lines(stored: &Stored) -> Result<Vec<(usize, Vec<u8>)>, Problem> {
        stored.lines().map(|line| line.map(|(at, line)| (at, line.trim_ascii().to_vec()))).collect()
    }

    #[test]
    fn lines_are_the_same_however_they_are_packed() {
        let text = b"one\n\n  \ntwo\nlast";
        let expected = [(1, b"one".to_vec()), (4, b"two".to_vec()), (5, b"last".to_vec())];
        assert_eq!(lines(&stored(text.to_vec())).unwrap(), expected);
        for packing in [Packing::Gzip, Packing::Zstd] {
            // As after `cat`.
            let parts = [&text[..2], &text[2..]].map(|part| packing.packed(part).unwrap()).concat();
            assert_eq!(lines(&stored(parts.clone())).unwrap(), expected);
            assert_eq!(stored(parts.clone()).whole().unwrap(), text);
            let half = stored(parts[..parts.len() - 6].to_vec());
            assert!(lines(&half).unwrap_err().to_string().contains("cannot be unpacked"));
            assert!(half.whole().is_err());
        }
    }

    #[test]
    fn a_file_that_unpacks_to_far_more_than_its_size_is_refused() {
        for packing in [Packing::Gzip, Packing::Zstd] {
            let bomb = |unit: &[u8]| packing.packed(&unit.repeat((2 << 20) / unit.len())).unwrap();
            let (long, many) = (stored(bomb(b"x")), stored(bomb(&[&[b' '; 4095][..], b"\n"].concat())));
            assert!(lines(&long).unwrap_err().to_string().contains("more than 1 MiB when it is unpacked; unpack it"));
            assert!(lines(&many).unwrap_err().to_string().contains("when it is unpacked; unpack it"));
            assert!(long.whole().unwrap_err().to_string().contains("more than 1 MiB"));
        }
    }
}
