//! Renders a Report, as text for people, Markdown, CSV, JSON, HTML; and what a plan would do. Pure: no store, no clock, no
//! terminal.
//!
//! Reports compute nothing: the analysis has calculated each figure, and here it is only formatted, always with its
//! 95 % interval and sample count. A format is a file of `formats`, a part of a report one of `sections`.
#![forbid(unsafe_code)]

mod compare;
mod doctor;
mod formats;
mod headline;
mod history;
mod html;
mod machine;
mod packed;
mod page;
pub mod plan;
mod plot;
mod reasons;
mod redact;
mod rewrite;
mod safe;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod section;
mod sections;
mod table;
mod trace_summary;
mod trend;
mod words;

pub use compare::{CompareFormat, comparison};
pub use doctor::{doctor_human, doctor_json};
pub use formats::{Format, comparison_schema, doctor_schema, render, schema};
pub use headline::line as headline;
pub use history::{history_human, history_json};
pub use html::{Prices, html, ranking_html};
pub use page::{Detail, Style, fitted};
pub use plot::{Charts, PictureFormat, Pictured, Size};
pub use redact::{redact, redact_measured, redact_thresholds};
pub use sections::suite::suites;
pub use trace_summary::{trace_summary_human, trace_summary_json};
pub use trend::{trend_human, trend_json};
pub use words::thousands;
