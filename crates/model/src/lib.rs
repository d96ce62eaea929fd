//! Plain data shared by every other crate: what was requested, what will run, what was measured, what it means.
//!
//! No threads, no I/O, no `unsafe`; everything here can be built by hand in a test.
#![forbid(unsafe_code)]

pub mod app;
pub mod chart;
pub mod comparison;
pub mod doctor;
pub mod environment;
pub mod figure;
pub mod files;
pub mod filesystems;
pub mod finding;
pub mod finding_id;
pub mod hist;
pub mod history;
pub mod identity;
pub mod job;
pub mod limits;
pub mod long_check;
pub mod measured;
pub mod meta;
pub mod metric;
pub mod op;
pub mod order;
pub mod part;
pub mod plan;
pub mod plat;
pub mod prediction;
pub mod printable;
pub mod problem;
pub mod ranking;
pub mod record;
pub mod reference;
pub mod report;
pub mod requests;
pub mod room;
pub mod setting;
pub mod shell;
pub mod spec;
pub mod subject;
pub mod suggest;
pub mod sweep;
pub mod sync;
pub mod trace_summary;
pub mod trend;
pub mod units;
pub mod verdict;
pub mod watched;

pub use environment::Environment;
pub use figure::{Estimate, LoadSummary, StepSummary, StreamSummary, Summary};
pub use finding::{Finding, Severity};
pub use finding_id::{Detector, FindingId};
pub use hist::{CoarseHist, Hist};
pub use op::OpClass;
pub use plan::Plan;
pub use printable::{printable, printable_lines, printable_output};
pub use problem::{Problem, ProblemKind};
pub use record::Record;
pub use report::Report;
pub use shell::shell_quoted;
pub use spec::Spec;
pub use subject::Subject;
pub use units::Bytes;
pub use verdict::{Grade, Thresholds, Verdict};

/// Version of the JSON that `--json`, `-o` and the store write. Incremented when a change could break readers.
pub const SCHEMA_VERSION: u32 = 3;
