//! Carries out fio's jobs on the engines of `qd1-engine`: makes their files, starts and orders their threads, draws
//! their requests, paces and verifies them, and counts what fio's reports show.
//!
//! ```text
//! FioJob (qd1-fio) -> files -> threads { load -> pace -> Engine -> stat, verify, log } -> JobStat (qd1-model)
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod data;
pub mod load;
pub mod verify;
