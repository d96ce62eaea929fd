//! Files of `history export`: a line of JSON for each run, plain or compressed.

use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use qd1_model::{Problem, Record};
use qd1_store::from_json;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A file unpacked at most: one that would be larger is no history.
pub(crate) const BYTES_MAX: u64 = 4 << 30;

/// A run as a line has it.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<&'a str>,
    pub(crate) record: &'a Record,
}

/// A run of a file, and what was said of it.
#[derive(Clone)]
pub(crate) struct Exported {
    pub(crate) record: Record,
    pub(crate) tags: Vec<String>,
    pub(crate) note: Option<String>,
}

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    note: Option<String>,
    #[serde(borrow)]
    record: &'a RawValue,
}

/// How a compressed file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How an export is compressed, by the end of its file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// Returns that of a file; `None` for one that is not compressed.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Compresses a text.
    ///
    /// # Errors
    /// Never, but for what the library says.
    pub(crate) fn packed(self, text: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
                gzip.write_all(text)?;
                gzip.finish()
            }
            Self::Zstd => Ok(compress_to_vec(text, CompressionLevel::Fastest)),
        }
    }
}

/// Unpacks the bytes of a file if they are compressed; `most` bytes at most are returned, and one more if there are more.
///
/// # Errors
/// When they are damaged.
pub(crate) fn unpacked(bytes: Vec<u8>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if bytes.starts_with(&GZIP) {
        MultiGzDecoder::new(bytes.as_slice()).take(most + 1).read_to_end(&mut text)?;
        return Ok(text);
    }
    if !bytes.starts_with(&ZSTD) {
        return Ok(bytes);
    }
    // Several frames are one after another, as after `cat`.
    let mut rest = bytes.as_slice();
    while !rest.is_empty() && text.len() as u64 <= most {
        let frame = StreamingDecoder::new(&mut rest).map_err(std::io::Error::other)?;
        let left = most + 1 - text.len() as u64;
        frame.take(left).read_to_end(&mut text)?;
    }
    Ok(text)
}

/// Whether the text is an export: its first line is a run.
pub(crate) fn is_export(text: &[u8]) -> bool {
    lines(text).next().is_some_and(|(_, line)| serde_json::from_slice::<Read<'_>>(line).is_ok())
}

/// Returns the runs of an export, each read when it is asked for: many lines that are alike take little room, and their runs
/// much. One that is none is an error with the number of its line.
pub(crate) fn runs(text: &[u8]) -> impl Iterator<Item = Result<Exported>> {
    lines(text).map(|(at, line)| exported(line).with_context(|| format!("line {}", at + 1)))
}

fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    text.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty())
}

fn exported(line: &[u8]) -> Result<Exported> {
    let none = || Problem::usage("is no run of qd1; give a file of `qd1 history export`, or of --json");
    let Read { tags, note, record } = serde_json::from_slice(line).map_err(|_| none())?;
    let record = from_json(record.get().as_bytes())?.ok_or_else(none)?;
    Ok(Exported { record, tags, note })
}
