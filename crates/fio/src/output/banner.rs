//! What fio prints before it starts: its jobs, its version, how many processes and threads.

use qd1_model::printable;

use super::units::{Unit, short};
use crate::job::FioJob;
use crate::types::KbBase;

/// A job with the number of its group.
pub fn job_line(job: &FioJob, groupid: u32) -> String {
    let size = |bytes| short(bytes, 4, job.kb_base == KbBase::Binary, Unit::Bytes);
    let sizes = [0, 1, 2].map(|direction| {
        let range = job.block_range(direction);
        format!("{}-{}", size(range.min), size(range.max))
    });
    format!(
        "{}: (g={groupid}): rw={}, bs=(R) {}, (W) {}, (T) {}, ioengine={}, iodepth={}",
        printable(&job.name),
        job.rw.kind.name(),
        sizes[0],
        sizes[1],
        sizes[2],
        job.ioengine.name(),
        job.iodepth
    )
}

/// All of it: a line for each job with the number of its group, `...` below those with clones, the version, and what
/// is started. fio prints it only where the normal report is among the formats.
pub fn banner(version: &str, jobs: &[(&FioJob, u32)]) -> String {
    let mut out = String::new();
    let (mut threads, mut processes) = (0, 0);
    for (job, groupid) in jobs {
        out.push_str(&job_line(job, *groupid));
        out.push_str(if job.numjobs > 1 { "\n...\n" } else { "\n" });
        *if job.thread { &mut threads } else { &mut processes } += job.numjobs;
    }
    let counted = |count: u32, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    let started: Vec<String> = [counted(threads, "thread", "threads"), counted(processes, "process", "processes")]
        .into_iter()
        .flatten()
        .collect();
    out.push_str(&format!("{version}\nStarting {}\n", started.join(" and ")));
    out
}
