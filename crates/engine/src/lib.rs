//! The only crate that issues benchmark I/O: the engines, the load they carry, the files they act on, and the workers
//! that time them.
//!
//! An engine is opened by [`open()`], driven by a worker of [`run::run_io`], and stamps every request itself, so
//! that the simulated device can keep its own time.

pub mod backing;
mod blocking;
pub mod buf;
mod engine;
mod error;
pub mod files;
mod gate;
mod handles;
mod io_uring;
mod libaio;
pub mod load;
pub mod merge;
pub mod meter;
mod methods;
mod mmap;
mod null;
mod open;
mod priority;
pub mod reference;
mod request;
pub mod run;
pub mod select;
pub mod sim;
mod sync;
pub mod threads;
pub mod waits;
mod window;
mod worker;

pub use engine::{Engine, Setup, Tuning};
pub use error::{EngineError, errno_name};
pub use methods::try_method;
pub use open::open;
pub use priority::set_io_priority;
pub use request::{
    Done, Op, OpKind, SYNC_FILE_RANGE_WAIT_AFTER, SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE, Slot,
};
