//! The shapes of steps: what a trace is compared with.

use qd1_model::Bytes;
use qd1_model::spec::Job;
use qd1_model::trace_summary::{Resemblance, Shape};

use crate::{builtin, names};

/// Returns the shapes of the built-in suites' steps that read or write a file, to compare a trace with.
pub fn shapes() -> Vec<Resemblance> {
    let of =
        |name: &'static str| builtin(name).into_iter().flat_map(move |suite| suite.job).map(move |job| (name, job));
    names().flat_map(of).filter_map(|(suite, job)| shape(suite, &job)).collect()
}

fn shape(suite: &str, job: &Job) -> Option<Resemblance> {
    let rw = job.rw?;
    let read_share = match (rw.reads(), rw.writes()) {
        (true, true) => f64::from(job.rwmixread.unwrap_or(50)) / 100.0,
        (reads, _) => f64::from(u8::from(reads)),
    };
    let sizes = job.bssplit.iter().flatten();
    let usual = sizes.max_by_key(|(_, share)| *share).map(|(size, _)| *size);
    let syncs = job.sync.is_some_and(|sync| sync.commits());
    let shape = Shape {
        read_share,
        random_share: f64::from(u8::from(rw.is_random())),
        bs: usual.or(job.bs).unwrap_or(Bytes::kib(4)),
        depth: f64::from(job.iodepth.unwrap_or(1) * job.numjobs.unwrap_or(1)),
        writes_per_sync: syncs.then(|| f64::from(job.writes_per_sync.unwrap_or(1))),
    };
    let title = job.title.clone().unwrap_or_default();
    Some(Resemblance { suite: suite.to_owned(), step: job.name.clone(), title, shape, distance: 0.0 })
}
