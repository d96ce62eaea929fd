//! A record as the history keeps it: JSON, compressed with zlib.
//!
//! A damaged or malicious blob must not take all memory when it is read: what it may become is bounded by its own size,
//! before it is parsed.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result, anyhow, bail};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use qd1_model::record::long_check::Round;
use qd1_model::room::Room;
use qd1_model::{Problem, Record, SCHEMA_VERSION, Subject};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// Bytes of JSON that any blob may become, with this many more for each byte of it: records shrink to a tenth or a
/// twentieth.
const JSON_MIN: u64 = 16 << 20;
const JSON_PER_BYTE: u64 = 50;
/// Histograms that any blob may hold, with one more for each of these bytes: reading one takes a quarter of a MiB for a
/// while.
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
    serde_json::from_slice(&inflate(blob)?).context("is damaged: it contains an invalid round")
}

pub(crate) fn pack_json(json: &[u8]) -> Result<Vec<u8>> {
    let packed = deflate(json, Compression::default())?;
    // JSON that only repeats itself would be refused when it is read.
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
    refuse_newer(schema_version, written_by)?;
    checked(serde_json::from_slice(&json).context("is damaged: it is not a record")?)
}

/// Returns the record in the output of `--json`, or in a record alone; `None` if it is neither. It takes its part of
/// `room`, which records that are kept together share.
///
/// # Errors
/// When it is damaged, would take far more memory than its file says, or its layout is newer than this qd1.
pub fn from_json(json: &[u8], room: &mut Room) -> Result<Option<Record>> {
    #[derive(Deserialize)]
    struct Layout {
        schema_version: u32,
        #[serde(default)]
        version: String,
        record: Option<Inner>,
        steps: Option<IgnoredAny>,
        plan: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Inner {
        #[serde(default)]
        version: String,
    }
    #[derive(Deserialize)]
    struct Report {
        record: Record,
    }
    let Ok(layout) = serde_json::from_slice::<Layout>(json) else { return Ok(None) };
    let is_record = layout.record.is_none() && layout.steps.is_some() && layout.plan.is_some();
    if layout.record.is_none() && !is_record {
        return Ok(None);
    }
    refuse_newer(layout.schema_version, layout.record.as_ref().map_or(&layout.version, |inner| &inner.version))?;
    if room.take(&mut Deserializer::from_slice(json)).is_err() && room.is_exceeded() {
        let message = "takes more memory than a run of qd1 in a file of this size; give a file that qd1 wrote";
        return Err(Problem::usage(message).into());
    }
    let found = histograms(json);
    if found > most_histograms(json.len()) {
        bail!("is damaged: it has {found} histograms");
    }
    let record = if is_record {
        serde_json::from_slice(json)
    } else {
        serde_json::from_slice::<Report>(json).map(|report| report.record)
    };
    checked(record.context("is damaged: it is not a record")?).map(Some)
}

fn refuse_newer(schema_version: u32, written_by: &str) -> Result<()> {
    if schema_version > SCHEMA_VERSION {
        return Err(anyhow!(
            "was written by qd1 {written_by} in layout {schema_version}, but this one reads up to {SCHEMA_VERSION}; \
             update qd1"
        ));
    }
    Ok(())
}

/// Checks the numbers of a record, and adds the kind of run if it is missing.
fn checked(mut record: Record) -> Result<Record> {
    check(&record)?;
    if record.plan.subject == Subject::Unrecorded {
        record.plan.subject = Subject::infer_from_command(&record.command, &record.plan.suite);
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

/// Returns the JSON of a blob.
///
/// # Errors
/// When it is damaged, or would become too large.
pub(crate) fn inflate(blob: &[u8]) -> Result<Vec<u8>> {
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
    json.split(|byte| *byte == b'"').filter(|part| *part == b"hdr_v2").count()
}
