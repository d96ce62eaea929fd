//! Every change of the machine, and its undoing: the writing twin of `probe`.
//!
//! What is changed is journalled first, what is made goes with the run, and what is started dies with it.
#![forbid(unsafe_code)]

pub mod child;
pub mod helper;
pub mod janitor;
pub mod journal;
pub mod loops;
pub mod mounts;
pub mod scratch;
pub mod state;
pub mod tool;
pub mod user;
