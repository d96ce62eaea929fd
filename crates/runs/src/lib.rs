//! Finding, reading and exporting runs: of the history, of files of qd1, and of other tools.
//!
//! [`find`] says which runs a word names. [`exports`] reads and writes files with a run in each line, [`stored`] packed
//! and plain files within bounds. [`history`] is where runs are kept, [`names`] what they are called next to each other, and
//! [`experience`] what kept runs say about the next prediction.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod experience;
pub mod exports;
pub mod find;
pub mod history;
pub mod names;
pub mod parallel;
pub mod stored;
