//! fio's results in any format: what jobs did and measured, and what belongs to one run.

mod job;
mod jobs;
pub(crate) mod json;
pub(crate) mod options;
pub(crate) mod report;
pub(crate) mod terse;
