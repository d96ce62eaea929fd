//! Makes every change to the machine and undoes it: the writing counterpart of `probe`.
//!
//! Changes are journalled before they are made; created files are removed and started programs ended with the run.
#![forbid(unsafe_code)]

mod change;
pub mod child;
pub mod destination;
pub mod helper;
pub mod inputs;
pub mod janitor;
pub mod journal;
pub mod lock;
pub mod loops;
pub mod mounts;
pub mod schema;
pub mod scratch;
pub mod segments;
pub mod source;
pub mod state;
pub mod tool;
pub mod trust;
pub mod user;
