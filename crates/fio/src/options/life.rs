//! Options for jobs as such: their names, number, time, order and end.

use std::sync::Arc;

use super::{FioOption, Kind, choice};
use crate::types::{ContinueOnError, CpuPolicy, TimeRange};
use crate::value::{self, TimeUnit};

const fn seconds(name: &'static str, help: &'static str, field: super::Field<std::time::Duration>) -> FioOption {
    FioOption::new(name, help, Kind::Time { unit: TimeUnit::Seconds, field })
}

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new("name", "Name of the job; on the command line it starts one", Kind::Text(|job| &mut job.name)),
    FioOption::new("description", "A text for the report", Kind::Text(|job| &mut job.description)),
    FioOption::new(
        "numjobs",
        "Clones of the job",
        Kind::Count { min: 1, max: u32::MAX, field: |job| &mut job.numjobs },
    )
    .default("1"),
    FioOption::new(
        "loops",
        "How often the job runs",
        Kind::Size { min: 1, max: u64::MAX, field: |job| &mut job.loops },
    )
    .default("1"),
    seconds("runtime", "Time at most", |job| &mut job.runtime).aliases(&["timeout"]).default("0"),
    FioOption::new("time_based", "Start over until the runtime is up", Kind::Flag(|job| &mut job.time_based)),
    seconds("ramp_time", "Time at the start that is not measured", |job| &mut job.ramp_time),
    FioOption::new(
        "startdelay",
        "Wait before the job starts; a range draws the time",
        Kind::Own {
            accepts: "a time as 10s or plain seconds, or a range as 5-10",
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
    FioOption::new("stonewall", "Wait for all jobs before this one", Kind::Flag(|job| &mut job.stonewall))
        .aliases(&["wait_for_previous"]),
    FioOption::new("wait_for", "Wait for the job of this name", Kind::Text(|job| &mut job.wait_for)),
    FioOption::new("new_group", "Start a new group of jobs for the report", Kind::Flag(|job| &mut job.new_group)),
    FioOption::new("thread", "Clones are threads and not processes", Kind::Flag(|job| &mut job.thread))
        .differs("clones are always threads, given or not"),
    FioOption::new(
        "threads",
        "Of profile=tiobench; fio takes it in any job",
        Kind::Own {
            accepts: "a number",
            bare: false,
            set: |_, text, base| value::unsigned(text, base).map(|_| ()).map_err(Into::into),
        },
    )
    .differs("it has no effect, in fio neither: `thread` is what makes clones threads"),
    FioOption::new("exitall", "End all jobs when this one ends", Kind::Flag(|job| &mut job.exitall)),
    FioOption::new("exitall_on_error", "End all jobs when this one fails", Kind::Flag(|job| &mut job.exitall_on_error)),
    FioOption::new("continue_on_error", "Errors that do not end the job", choice!(continue_on_error: ContinueOnError))
        .default("none"),
    FioOption::new("error_dump", "Tell each error that does not end the job", Kind::Bool(|job| &mut job.error_dump))
        .default("0"),
    FioOption::new(
        "cpus_allowed",
        "Processors that the job may use",
        Kind::Own {
            accepts: "processor numbers and ranges as 0-3,8",
            bare: false,
            set: |job, text, _| {
                job.cpus_allowed = Arc::new(value::cpu_list(text)?);
                Ok(())
            },
        },
    ),
    FioOption::new("cpus_allowed_policy", "How clones share the processors", choice!(cpus_allowed_policy: CpuPolicy))
        .default("shared"),
];
