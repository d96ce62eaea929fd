//! Options for jobs in general: their names, number, time, order and end.

use std::sync::Arc;

use super::{Fault, FioOption, ValueKind, choice, idle, idle_number};
use crate::types::{ContinueOnError, CpuPolicy, CpuRange, ExitWhat, TimeRange};
use crate::value::{self, TimeUnit};

const fn seconds(name: &'static str, help: &'static str, field: super::Field<std::time::Duration>) -> FioOption {
    FioOption::new(name, help, ValueKind::Time { unit: TimeUnit::Seconds, field })
}

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new(
        "name",
        "Name of the job; on the command line it starts a new job",
        ValueKind::Text(|job| &mut job.name),
    ),
    FioOption::new("description", "A text for the report", ValueKind::Text(|job| &mut job.description)),
    FioOption::new(
        "numjobs",
        "Clones of the job",
        ValueKind::Count { min: 1, max: u32::MAX, field: |job| &mut job.numjobs },
    )
    .default("1"),
    FioOption::new(
        "loops",
        "How many times the job runs",
        ValueKind::Size { min: 1, max: u64::MAX, field: |job| &mut job.loops },
    )
    .default("1"),
    seconds("runtime", "Maximum run time", |job| &mut job.runtime).aliases(&["timeout"]).default("0"),
    FioOption::new("time_based", "Start over until the runtime is up", ValueKind::Flag(|job| &mut job.time_based)),
    seconds("ramp_time", "Time at the start that is not measured", |job| &mut job.ramp_time),
    FioOption::new(
        "startdelay",
        "Wait before the job starts; a range means a random time within it",
        ValueKind::Own {
            accepts: "a time such as 10s or plain seconds, or a range such as 5-10",
            bare: false,
            set: |job, text, _| {
                let time = |text: &str| value::duration(text, TimeUnit::Seconds);
                job.startdelay = match text.split_once([',', ':', '-']) {
                    Some((low, high)) if !text.starts_with(['-', '(']) => {
                        let (low, high) = (time(low)?, time(high)?);
                        TimeRange { min: low.min(high), max: low.max(high) }
                    }
                    _ => time(text).map(|time| TimeRange { min: time, max: time })?,
                };
                Ok(())
            },
        },
    )
    .default("0"),
    FioOption::new("stonewall", "Wait for all jobs before this one", ValueKind::Flag(|job| &mut job.stonewall))
        .aliases(&["wait_for_previous"]),
    FioOption::new("wait_for", "Wait for the job with this name", ValueKind::Text(|job| &mut job.wait_for)),
    FioOption::new("new_group", "Start a new group of jobs for the report", ValueKind::Flag(|job| &mut job.new_group)),
    FioOption::new("thread", "Clones are threads, not processes", ValueKind::Flag(|job| &mut job.thread))
        .quietly("clones are always threads, with or without it"),
    FioOption::new(
        "threads",
        "For profile=tiobench; fio accepts it in any job",
        ValueKind::Own { accepts: "a number", bare: false, set: idle_number },
    )
    .quietly("it has no effect (nor does it in fio): `thread` makes clones threads"),
    FioOption::new(
        "exitall",
        "End other jobs when this one ends; see exit_what",
        ValueKind::Flag(|job| &mut job.exitall),
    ),
    FioOption::new("exit_what", "What exitall and exitall_on_error end", choice!(exit_what: ExitWhat)).default("group"),
    FioOption::new(
        "exitall_on_error",
        "End all jobs when this one fails",
        ValueKind::Flag(|job| &mut job.exitall_on_error),
    ),
    FioOption::new("continue_on_error", "Errors that do not end the job", choice!(continue_on_error: ContinueOnError))
        .default("none"),
    FioOption::new(
        "ignore_error",
        "Errors that do not end the job, instead of EIO and EILSEQ",
        ValueKind::Own {
            accepts: "names such as ENOSPC or numbers, separated by `:` (lists for reads,writes,verification)",
            bare: false,
            set: |job, text, _| {
                job.ignore_error = Arc::new(value::error_lists(text)?);
                Ok(())
            },
        },
    ),
    FioOption::new(
        "error_dump",
        "Report each error that does not end the job",
        ValueKind::Bool(|job| &mut job.error_dump),
    )
    .default("0"),
    FioOption::new(
        "cpus_allowed",
        "Processors that the job may use",
        ValueKind::Own {
            accepts: "processor numbers and ranges such as 0-3,8",
            bare: false,
            set: |job, text, _| {
                job.cpus_allowed = Arc::new(value::cpu_list(text)?);
                Ok(())
            },
        },
    ),
    FioOption::new("cpus_allowed_policy", "How clones share the processors", choice!(cpus_allowed_policy: CpuPolicy))
        .default("shared"),
    FioOption::new(
        "cpumask",
        "Processors that the job may use, one for each bit",
        ValueKind::Own {
            accepts: "a number with a bit for each processor, such as 0x3",
            bare: false,
            set: |job, text, base| {
                let mask = value::unsigned(text, base)?;
                if mask == 0 {
                    return Err(Fault::Problem("it does not name any processor".to_owned()));
                }
                let set = (0..64_u16).filter(|bit| mask >> bit & 1 == 1);
                job.cpus_allowed = Arc::new(set.map(|cpu| CpuRange { first: cpu, last: cpu }).collect());
                Ok(())
            },
        },
    ),
    FioOption::new(
        "nice",
        "CPU priority, -20 to 19: lower numbers go first",
        ValueKind::Own {
            accepts: "a number from -20 to 19",
            bare: false,
            set: |job, text, base| match value::integer(text, base)? {
                nice @ -20..=19 => {
                    job.nice = nice as i32;
                    Ok(())
                }
                _ => Err(Fault::Problem("it is not between -20 and 19".to_owned())),
            },
        },
    )
    .default("0"),
    priority("prio", "I/O priority, 0 to 7: 0 is the highest", "a number from 0 to 7", |job, text, _| {
        job.prio = Some(super::count(text, 0, 7)?);
        Ok(())
    }),
    priority(
        "prioclass",
        "I/O priority class: 1 real time, 2 best effort, 3 idle, 0 unchanged",
        "a number from 0 to 3",
        |job, text, _| {
            job.prioclass = Some(super::count(text, 0, 3)?);
            Ok(())
        },
    ),
    idle("gtod_cpu", "Processor for a thread that reads the clock for all jobs", "a processor's number", idle_number)
        .quietly("it has no effect: each job reads the clock itself, which takes about 20 ns"),
];

const fn priority(name: &'static str, help: &'static str, accepts: &'static str, set: super::Set) -> FioOption {
    FioOption::new(name, help, ValueKind::Own { accepts, bare: false, set })
}
