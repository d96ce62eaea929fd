//! Options for reading back what was written.

use std::sync::Arc;

use super::{Fault, FioOption, ValueKind, choice, idle, idle_bool, idle_number, switch};
use crate::types::Verify;
use crate::value;

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new("verify", "Write blocks that can be checked, and check them", choice!(verify: Verify)).default("0"),
    FioOption::new("do_verify", "Check after the job's writes are done", ValueKind::Bool(|job| &mut job.do_verify))
        .default("1"),
    FioOption::new(
        "verify_pattern",
        "What verified blocks are filled with",
        ValueKind::Own {
            accepts: "0x and hexadecimal digits, a decimal number, \"text\", %o for the offset, or several of these",
            bare: false,
            set: |job, text, _| {
                job.verify_pattern = Arc::new(value::pattern(text, true)?);
                Ok(())
            },
        },
    ),
    FioOption::new(
        "verify_fatal",
        "End the job at the first wrong block",
        ValueKind::Bool(|job| &mut job.verify_fatal),
    )
    .default("0"),
    FioOption::new(
        "verify_async",
        "Number of checking threads; 0 for the job's own thread",
        ValueKind::Count { min: 0, max: 1024, field: |job| &mut job.verify_async },
    )
    .default("0")
    .plain(&["0"])
    .differs("blocks are checked by the job's own thread; the result is the same"),
    idle("verify_async_cpus", "Processors of the threads that check", "processors, such as 0-3,5", |_, text, _| {
        let is_list =
            !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit() || b",-:".contains(&letter));
        if is_list { Ok(()) } else { Err(Fault::Problem("it is not a list of processors".to_owned())) }
    })
    .quietly("it has no effect: blocks are checked by the job's own thread"),
    idle("verifysort", "Check in the order of the offsets", "0 or 1", idle_bool)
        .quietly("it has no effect (nor does it in fio)"),
    idle("verifysort_nr", "How many blocks to sort at a time", "a number", idle_number)
        .quietly("it has no effect (nor does it in fio)"),
    FioOption::new(
        "verify_backlog",
        "Check after this many writes, not at the end",
        ValueKind::Size { min: 0, max: u64::MAX, field: |job| &mut job.verify_backlog },
    ),
    FioOption::new(
        "verify_only",
        "Check what an earlier run wrote, without writing anything",
        ValueKind::Flag(|job| &mut job.verify_only),
    ),
    counted("verify_backlog_batch", "Number of blocks to check in one go", |job| &mut job.verify_backlog_batch),
    FioOption::new(
        "verify_interval",
        "Distance between the headers in a block; default: one header at its start",
        ValueKind::Size { min: 80, max: u32::MAX as u64, field: |job| &mut job.verify_interval },
    ),
    FioOption::new(
        "verify_offset",
        "Offset of the header in its interval",
        ValueKind::Size { min: 40, max: u32::MAX as u64, field: |job| &mut job.verify_offset },
    ),
    idle("verify_dump", "Write wrong blocks to files", "0 or 1", idle_bool)
        .default("0")
        .plain(&["0"])
        .differs("no files are written: the report says which blocks are wrong and how"),
    idle("experimental_verify", "Check without a list of what was written", "0 or 1", idle_bool)
        .quietly("it has no effect: the same blocks are checked"),
    idle("verify_state_save", "Save the state of verification when the run is cut short", "0 or 1", idle_bool)
        .default("1")
        .plain(&["0"])
        .differs("no state is saved; use verify_only to check what an earlier run wrote"),
    FioOption::new(
        "trim_percentage",
        "Share of written blocks to trim, percent",
        ValueKind::Count { min: 0, max: 100, field: |job| &mut job.trim_percentage },
    )
    .default("0"),
    switch("trim_verify_zero", "Trimmed blocks must read as zero", |job| &mut job.trim_verify_zero, "1"),
    FioOption::new(
        "trim_backlog",
        "Trim after this many writes",
        ValueKind::Size { min: 0, max: u64::MAX, field: |job| &mut job.trim_backlog },
    ),
    counted("trim_backlog_batch", "Number of blocks to trim in one go", |job| &mut job.trim_backlog_batch),
];

const fn counted(name: &'static str, help: &'static str, field: super::Field<u32>) -> FioOption {
    FioOption::new(name, help, ValueKind::Count { min: 0, max: u32::MAX, field })
}
