//! Options for when writes become durable, and for the content of the buffers.

use std::sync::Arc;

use super::{Fault, FioOption, ValueKind, choice, switch};
use crate::types::{SyncFileRange, SyncMode};
use crate::value;

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new(
        "fsync",
        "fsync() after this many writes; 0 for never",
        ValueKind::Count { min: 0, max: u32::MAX, field: |job| &mut job.fsync },
    )
    .default("0"),
    FioOption::new(
        "fdatasync",
        "fdatasync() after this many writes; 0 for never",
        ValueKind::Count { min: 0, max: u32::MAX, field: |job| &mut job.fdatasync },
    )
    .default("0"),
    FioOption::new("sync", "Open the files so that each write is durable", choice!(sync: SyncMode)).default("none"),
    FioOption::new(
        "sync_file_range",
        "sync_file_range() with these flags after this many writes",
        ValueKind::Own {
            accepts: "wait_before, write and wait_after separated by commas, and `:WRITES`",
            bare: false,
            set: |job, text, _| {
                job.sync_file_range = sync_file_range(text)?;
                Ok(())
            },
        },
    ),
    FioOption::new("end_fsync", "fsync() when the job's writes are done", ValueKind::Bool(|job| &mut job.end_fsync))
        .default("0"),
    FioOption::new("fsync_on_close", "fsync() when a file is closed", ValueKind::Bool(|job| &mut job.fsync_on_close))
        .default("0"),
    FioOption::new("zero_buffers", "Write zeroes", ValueKind::Flag(|job| &mut job.zero_buffers)),
    switch("scramble_buffers", "Change a few bytes of each block", |job| &mut job.scramble_buffers, "1")
        .quietly("each block is unique anyway, unless a pattern, zeros or identical blocks are requested"),
    FioOption::new(
        "refill_buffers",
        "Refill the buffers for each write",
        ValueKind::Flag(|job| &mut job.refill_buffers),
    ),
    FioOption::new(
        "buffer_pattern",
        "Fill the buffers with a pattern",
        ValueKind::Own {
            accepts: "0x and hexadecimal digits, a decimal number, \"text\", or several of these in a row",
            bare: false,
            set: |job, text, _| {
                job.buffer_pattern = Arc::new(value::pattern(text, false)?);
                Ok(())
            },
        },
    ),
    FioOption::new(
        "buffer_compress_percentage",
        "How much the data can be compressed, percent",
        ValueKind::Count { min: 0, max: 100, field: |job| &mut job.buffer_compress_percentage },
    ),
    FioOption::new(
        "buffer_compress_chunk",
        "Length of the pieces that compress by buffer_compress_percentage",
        ValueKind::Count { min: 0, max: u32::MAX, field: |job| &mut job.buffer_compress_chunk },
    )
    .default("512"),
    FioOption::new(
        "dedupe_percentage",
        "Share of blocks identical to another, percent",
        ValueKind::Count { min: 0, max: 100, field: |job| &mut job.dedupe_percentage },
    ),
];

fn sync_file_range(text: &str) -> Result<SyncFileRange, Fault> {
    let (flags, every) = text.split_once(':').unwrap_or((text, ""));
    let mut range = SyncFileRange { every: 1, ..SyncFileRange::default() };
    for flag in flags.split(',') {
        match flag.trim() {
            "wait_before" => range.wait_before = true,
            "write" => range.write = true,
            "wait_after" => range.wait_after = true,
            _ => return Err(Fault::Problem("the only flags are wait_before, write and wait_after".into())),
        }
    }
    if !every.trim().is_empty() {
        range.every = super::count(every, 1, u32::MAX)?;
    }
    Ok(range)
}
