//! Options for the engine and its queue.

use super::{Fault, FioOption, ValueKind, choice, idle, idle_number};
use crate::engines::{ENGINES, EngineName, why_not};
use crate::types::{StatType, SubmitMode};

const fn depth(name: &'static str, help: &'static str, field: super::Field<u32>) -> FioOption {
    FioOption::new(name, help, ValueKind::Count { min: 0, max: u32::MAX, field })
}

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new(
        "ioengine",
        "How requests are made",
        ValueKind::Choice {
            words: || ENGINES.iter().map(|(name, _, help)| (*name, *help)).collect(),
            set: |job, text, _| {
                job.ioengine = EngineName::parse(text).ok_or_else(|| match why_not(text) {
                    Ok(why) => Fault::Refused(why.to_owned()),
                    Err(Some(near)) => Fault::Problem(format!("unknown engine; did you mean `{near}`?")),
                    Err(None) => Fault::Problem("unknown engine".to_owned()),
                })?;
                Ok(())
            },
        },
    )
    .default("psync"),
    FioOption::new(
        "iodepth",
        "Requests in flight",
        ValueKind::Count { min: 1, max: 65_536, field: |job| &mut job.iodepth },
    )
    .default("1"),
    depth("iodepth_batch", "Maximum number of requests submitted at once; 0 for as many as there are", |job| {
        &mut job.iodepth_batch
    })
    .aliases(&["iodepth_batch_submit"])
    .default("1"),
    depth("iodepth_batch_complete_min", "Minimum number of completions to wait for; 0 polls without waiting", |job| {
        &mut job.iodepth_batch_complete_min
    })
    .aliases(&["iodepth_batch_complete"])
    .default("1"),
    depth("iodepth_batch_complete_max", "Maximum number of completions taken at once", |job| {
        &mut job.iodepth_batch_complete_max
    }),
    depth("iodepth_low", "Fill the queue again only when it has drained to this", |job| &mut job.iodepth_low),
    FioOption::new("direct", "Bypass the page cache with O_DIRECT", ValueKind::Bool(|job| &mut job.direct))
        .default("0"),
    FioOption::new(
        "buffered",
        "Go through the page cache: the opposite of direct",
        ValueKind::Own {
            accepts: "0 or 1",
            bare: false,
            set: |job, text, _| {
                job.direct = super::count(text, 0, 1)? == 0;
                Ok(())
            },
        },
    )
    .default("1"),
    FioOption::new("io_submit_mode", "Whether requests wait for each other", choice!(io_submit_mode: SubmitMode))
        .default("inline")
        .quietly("no extra threads issue requests; offload makes latency count from when a request was due"),
    idle("mem", "Where buffers are allocated", "malloc, shm, shmhuge, mmap, mmapshared, or mmaphuge", |_, text, _| {
        // fio accepts a file after any of these words but uses it for only two of them.
        match text.split_once(':').unwrap_or((text, "")) {
            ("mmap" | "mmapshared", file) if !file.is_empty() => {
                Err(Fault::Refused("buffers are never backed by files".to_owned()))
            }
            ("malloc" | "shm" | "shmhuge" | "mmap" | "mmapshared" | "mmaphuge", _) => Ok(()),
            _ => Err(Fault::Problem("unknown kind of memory".to_owned())),
        }
    })
    .aliases(&["iomem"])
    .default("malloc")
    .plain(&["malloc", "shm", "mmap", "mmapshared"])
    .differs("buffers are aligned pages, never huge pages"),
    idle("iomem_align", "Alignment of buffers", "a size", idle_number)
        .aliases(&["mem_align"])
        .quietly("it has no effect: buffers are aligned pages"),
    idle("hugepage-size", "Size of huge pages for buffers", "a size", idle_number)
        .default("2097152")
        .quietly("it has no effect: buffers are aligned pages, never huge pages"),
    FioOption::new("stat_type", "Which call is measured", choice!(stat_type: StatType))
        .default("stat")
        .of(&["filestat"]),
    FioOption::new(
        "userspace_reap",
        "Take completions from the ring without a system call",
        ValueKind::Flag(|job| &mut job.userspace_reap),
    )
    .of(&["libaio"])
    .differs("it has no effect: completions are taken by io_getevents()"),
    FioOption::new("hipri", "Poll for completions instead of taking interrupts", ValueKind::Flag(|job| &mut job.hipri))
        .of(&["io_uring", "pvsync2"]),
    FioOption::new(
        "fixedbufs",
        "Register the buffers with the kernel beforehand",
        ValueKind::Flag(|job| &mut job.fixedbufs),
    )
    .of(&["io_uring"]),
    FioOption::new(
        "registerfiles",
        "Register the files with the kernel beforehand",
        ValueKind::Flag(|job| &mut job.registerfiles),
    )
    .of(&["io_uring"]),
    FioOption::new(
        "sqthread_poll",
        "A kernel thread takes the requests from the ring",
        ValueKind::Flag(|job| &mut job.sqthread_poll),
    )
    .of(&["io_uring"]),
    FioOption::new(
        "nonvectored",
        "Use requests with a single plain buffer; -1 leaves it to the engine",
        ValueKind::Own {
            accepts: "0, 1 or -1",
            bare: false,
            set: |job, text, _| {
                job.nonvectored = match text {
                    "-1" => None,
                    text => Some(super::count(text, 0, 1)? == 1),
                };
                Ok(())
            },
        },
    )
    .of(&["io_uring"]),
];
