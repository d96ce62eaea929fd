//! From a Spec to a Record: inspects the place, plans, prepares it, runs each step, and reads the machine around it.
//! The progress of a run is reported to a [`watch::Watch`].
#![forbid(unsafe_code)]

mod background;
mod context;
pub mod destroy;
mod environment;
pub mod id;
pub mod in_turn;
pub mod long_check;
pub mod place;
pub mod plan;
mod prepare;
mod run;
mod step;
mod test_file;
pub mod watch;
pub mod witness;

pub use context::{MoreVisits, RunContext, RunFiles};
pub use environment::{environment, sort_ns};
pub use run::{execute, execute_adaptive};
pub use test_file::TestFile;
