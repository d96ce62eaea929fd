//! A record as the history keeps it: JSON, compressed with zlib.
//!
//! A blob that is damaged, or was made to harm, must not take all memory when it is read: what it may become is bounded
//! by its own size, before anything is made of it.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result, anyhow, bail};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use qd1_model::record::over::Round;
use qd1_model::{Record, SCHEMA_VERSION, Subject};
use serde::Deserialize;

/// JSON that any blob may become, and so many bytes more for each of its own: records shrink to a tenth or a twentieth.
const JSON_MIN: u64 = 16 << 20;
const JSON_PER_BYTE: u64 = 50;
/// Histograms that any blob may hold, and one more for so many bytes: in memory each takes a quarter of a MiB.
const HISTOGRAMS_MIN: usize = 1024;
const BYTES_PER_HISTOGRAM: usize = 64;

/// Returns the blob of `record`.
pub(crate) fn pack(record: &Record) -> Result<Vec<u8>> {
    pack_json(&serde_json::to_vec(record)?)
}

/// Returns the blob of one round of a check over hours.
pub(crate) fn pack_round(round: &Round) -> Result<Vec<u8>> {
    pack_json(&serde_json::to_vec(round)?)
}

/// Returns the round of a blob.
///
/// # Errors
/// When it is damaged.
pub(crate) fn unpack_round(blob: &[u8]) -> Result<Round> {
    serde_json::from_slice(&inflate(blob)?).context("is damaged: it has a round that is none")
}

fn pack_json(json: &[u8]) -> Result<Vec<u8>> {
    let packed = deflate(json, Compression::default())?;
    // What nothing but repeats itself would not be read again.
    if is_bounded(json, packed.len()) { Ok(packed) } else { deflate(json, Compression::none()) }
}

fn deflate(json: &[u8], level: Compression) -> Result<Vec<u8>> {
    let mut zlib = ZlibEncoder::new(Vec::new(), level);
    zlib.write_all(json)?;
    Ok(zlib.finish()?)
}

/// Returns the record of a blob that qd1 `written_by` made.
///
/// # Errors
/// When it is damaged, or its layout is newer than this qd1.
pub fn unpack(blob: &[u8], written_by: &str) -> Result<Record> {
    #[derive(Deserialize)]
    struct Layout {
        schema_version: u32,
    }
    let json = inflate(blob)?;
    // Checked first, because a newer layout may not parse as ours.
    let Layout { schema_version } = serde_json::from_slice(&json).context("is damaged: it is not a record")?;
    if schema_version > SCHEMA_VERSION {
        return Err(anyhow!(
            "was written by qd1 {written_by} in layout {schema_version}, this qd1 reads up to {SCHEMA_VERSION}; update qd1"
        ));
    }
    let mut record: Record = serde_json::from_slice(&json).context("is damaged: it is not a record")?;
    check(&record)?;
    if record.plan.subject == Subject::Unrecorded {
        record.plan.subject = Subject::of_kept(&record.command, &record.plan.suite);
    }
    Ok(record)
}

/// Checks the numbers of a record that was read.
///
/// # Errors
/// When it is damaged.
pub(crate) fn check(record: &Record) -> Result<()> {
    record.check().map_err(|what| anyhow!("is damaged: {what}"))
}

fn inflate(blob: &[u8]) -> Result<Vec<u8>> {
    let most = most_json(blob.len());
    let mut json = Vec::new();
    ZlibDecoder::new(blob).take(most + 1).read_to_end(&mut json).context("is damaged: it cannot be unpacked")?;
    if json.len() as u64 > most {
        bail!("is damaged: it would take more than {} MiB", most >> 20);
    }
    let histograms = histograms(&json);
    if histograms > most_histograms(blob.len()) {
        bail!("is damaged: it has {histograms} histograms");
    }
    Ok(json)
}

fn is_bounded(json: &[u8], blob: usize) -> bool {
    json.len() as u64 <= most_json(blob) && histograms(json) <= most_histograms(blob)
}

const fn most_json(blob: usize) -> u64 {
    JSON_MIN.saturating_add(JSON_PER_BYTE.saturating_mul(blob as u64))
}

const fn most_histograms(blob: usize) -> usize {
    HISTOGRAMS_MIN + blob / BYTES_PER_HISTOGRAM
}

/// How often a histogram's key is in `json`.
fn histograms(json: &[u8]) -> usize {
    const KEY: &[u8] = b"\"hdr_v2\"";
    json.windows(KEY.len()).filter(|part| *part == KEY).count()
}
