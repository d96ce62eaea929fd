//! What charts show of a run: distributions of latency, and its course over time.

mod distribution;
mod timeline;

use qd1_model::chart::ChartData;
use qd1_model::{Record, Summary};

/// Returns the data of the charts of a run.
#[must_use]
pub fn charts(record: &Record, summary: &Summary) -> ChartData {
    ChartData { distributions: distribution::all(record), timelines: timeline::all(record, summary) }
}
