//! Options for reading back what was written.

use std::sync::Arc;

use super::{FioOption, Kind, choice};
use crate::types::Verify;
use crate::value;

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new("verify", "Write blocks that can be checked, and check them", choice!(verify: Verify)).default("0"),
    FioOption::new("do_verify", "Check after the job's writes are done", Kind::Bool(|job| &mut job.do_verify))
        .default("1"),
    FioOption::new(
        "verify_pattern",
        "What blocks are filled with where they are verified",
        Kind::Own {
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
        "The first block that is wrong ends the job",
        Kind::Bool(|job| &mut job.verify_fatal),
    )
    .default("0"),
    FioOption::new(
        "verify_async",
        "Threads that check; 0 for the job's own",
        Kind::Count { min: 0, max: 1024, field: |job| &mut job.verify_async },
    )
    .default("0"),
    FioOption::new(
        "verify_backlog",
        "Check after this many writes, not at the end",
        Kind::Size { min: 0, max: u64::MAX, field: |job| &mut job.verify_backlog },
    ),
    FioOption::new(
        "verify_only",
        "Check what an earlier run wrote, and write nothing",
        Kind::Flag(|job| &mut job.verify_only),
    ),
];
