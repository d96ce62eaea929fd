//! Runs fio's jobs on the engines of `qd1-engine`: creates their files, starts and orders their threads, draws, paces
//! and verifies their requests, and counts what fio's reports show.
//!
//! ```text
//! FioJob (qd1-fio) -> files -> threads { load -> pace -> Engine -> stat, verify, log } -> JobStat (qd1-model)
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod data;
mod depth_search;
mod engines;
mod error;
mod fileops;
mod files;
mod flow;
mod job_counters;
mod live;
pub mod load;
pub mod log;
mod pace;
mod place;
mod plan;
mod record;
mod run;
mod stat;
mod steady;
mod thread;
mod unwritten_data;
pub mod verify;
mod watch;

pub use error::JobError;
pub use files::{FileKind, FilePlan};
pub use job_counters::JobCounters;
pub use plan::{ThreadPlan, threads};
pub use record::{RunStart, record};
pub use run::{Surroundings, ThreadResult, run};
pub use watch::{Now, Stage, ThreadNow, Watcher};
