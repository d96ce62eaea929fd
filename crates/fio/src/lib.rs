//! fio's dialect: job files and command lines as fio reads them, from bytes to resolved jobs.
//!
//! ```text
//! arguments --args--> job files --lexer--> sections --expand--> values --options table--> FioJob --check--> Jobs
//! ```
//!
//! Nothing here opens a file, reads a clock or looks at the machine: all outside input comes through [`World`], so that
//! the whole crate can be fuzzed. Everything a user writes either takes effect, is refused with its place and the
//! reason, or takes effect in a way that a [`Note`] explains. A difference goes without a note only if it cannot change
//! any figure; the table describes it. Nothing is dropped silently.
//!
//! [`options`] is the one table of fio's options, with what each does here; the jobs, the help and docs/fio.md all
//! come from it.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod args;
mod check;
mod defaults;
pub mod engines;
pub mod error;
pub mod expand;
pub mod flags;
pub mod help;
pub mod job;
pub mod lexer;
pub mod manual;
pub mod options;
pub mod output;
pub mod resolve;
pub mod settings;
pub mod types;
pub mod value;

pub use args::{Invocation, Request, parse_args};
pub use error::{Error, ErrorKind, Errors, Note, Place};
pub use flags::{Eta, Flags, Format};
pub use job::{FioJob, Given};
pub use manual::markdown_table;
pub use resolve::{Jobs, parse_job_file};

use std::io;
use std::path::Path;

/// Properties of the machine, for `$ncpus`, `$mb_memory` and `$pagesize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// Processors that are online.
    pub ncpus: u32,
    /// Memory, MiB.
    pub mb_memory: u64,
    /// Size of a page, bytes.
    pub pagesize: u32,
}

/// Everything that comes from outside.
pub trait World {
    /// The content of a job file; `-` is standard input.
    ///
    /// The whole content is read, and refused afterwards if it is longer than [`Limits::FILE_BYTES`]; an implementation
    /// that reads from a pipe or a device should stop one byte past that limit.
    ///
    /// # Errors
    /// The system's error; it becomes part of an [`Error`] with the place of the `include` or the argument.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The value of an environment variable, for `${NAME}`.
    fn env(&self, name: &str) -> Option<String>;

    /// The machine.
    fn system(&self) -> System;
}

/// Limits on the input, so that no job file can exhaust the machine before anything has started.
#[derive(Clone, Copy, Debug)]
pub struct Limits;

impl Limits {
    /// Bytes of one job file.
    pub const FILE_BYTES: usize = 1 << 20;
    /// Bytes of a job file and everything it includes, counting each inclusion.
    pub const INCLUDED_BYTES: usize = 4 << 20;
    /// Bytes of a line, and of a value after its variables are expanded. fio's own limit for a line is 8 KiB too.
    pub const VALUE_BYTES: usize = 8192;
    /// Sections on one command line, in all job files together.
    pub const SECTIONS: usize = 2048;
    /// Lines that hold an option, in all files together, counting each inclusion.
    pub const ENTRIES: usize = 65_536;
    /// Files that one job names.
    pub const FILENAMES: usize = 1024;
    /// How deeply includes may be nested.
    pub const INCLUDE_DEPTH: usize = 16;
    /// Bytes of an arithmetic expression.
    pub const EXPRESSION_BYTES: usize = 256;
    /// Workers, including the clones made by `numjobs`, unless `--max-jobs` says otherwise. fio's limit.
    pub const MAX_JOBS: u32 = 4096;
    /// Errors that are collected before parsing stops.
    pub const ERRORS: usize = 100;
    /// Block sizes of one `bssplit` list. fio's limit.
    pub const SPLITS: usize = 64;
    /// Zones of one `random_distribution` list. fio's limit.
    pub const ZONES: usize = 256;
    /// Maximum size of a verification header in bytes: that of the longest checksum.
    pub const VERIFY_HEADER_BYTES: u64 = 128;
    /// Percentiles of one list. fio's limit.
    pub const PERCENTILES: usize = 20;
    /// Bytes of a pattern. fio's limit.
    pub const PATTERN_BYTES: usize = 512;
}
