//! fio's dialect: job files and command lines as fio reads them, from bytes to resolved jobs.
//!
//! ```text
//! arguments --args--> job files --lexer--> sections --expand--> values --options table--> FioJob --check--> Jobs
//! ```
//!
//! Nothing here opens a file, reads a clock or looks at the machine: all that comes from outside comes through
//! [`World`], so that the whole crate can be fuzzed. Everything that an engineer can write has one of three ends: it
//! takes effect, it is refused with its place and the reason, or it takes effect in a way that a [`Note`] names. Only
//! what can change no figure goes without a note; the table says how it differs. Nothing is dropped silently.
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

/// What the machine is, for `$ncpus`, `$mb_memory` and `$pagesize`.
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
    /// It is asked for whole, and refused afterwards where it is longer than [`Limits::FILE_BYTES`]; a caller that
    /// reads from a pipe or a device should stop at one byte more than that.
    ///
    /// # Errors
    /// Whatever the system says; it becomes part of an [`Error`] with the place of the `include` or the argument.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The value of an environment variable, for `${NAME}`.
    fn env(&self, name: &str) -> Option<String>;

    /// The machine.
    fn system(&self) -> System;
}

/// What input may ask for at most, so that no job file can exhaust the machine before anything has started.
#[derive(Clone, Copy, Debug)]
pub struct Limits;

impl Limits {
    /// Bytes of one job file.
    pub const FILE_BYTES: usize = 1 << 20;
    /// Bytes of a job file and all that it includes, each inclusion counted again.
    pub const INCLUDED_BYTES: usize = 4 << 20;
    /// Bytes of a line, and of a value after its variables were put in. fio's own line is 8 KiB too.
    pub const VALUE_BYTES: usize = 8192;
    /// Sections of one command line, all job files together.
    pub const SECTIONS: usize = 2048;
    /// Lines that hold an option, in all files together, each inclusion counted again.
    pub const ENTRIES: usize = 65_536;
    /// Files that one job names.
    pub const FILENAMES: usize = 1024;
    /// How deep files may include each other.
    pub const INCLUDE_DEPTH: usize = 16;
    /// Bytes of an arithmetic expression.
    pub const EXPRESSION_BYTES: usize = 256;
    /// Workers, the clones of `numjobs` counted, unless `--max-jobs` says otherwise. fio's number.
    pub const MAX_JOBS: u32 = 4096;
    /// Errors that are collected before the rest is given up.
    pub const ERRORS: usize = 100;
    /// Block sizes of one `bssplit` list. fio's number.
    pub const SPLITS: usize = 64;
    /// Zones of one `random_distribution` list. fio's number.
    pub const ZONES: usize = 256;
    /// Bytes of a header of verification at most: of those with the longest checksum.
    pub const VERIFY_HEADER_BYTES: u64 = 128;
    /// Percentiles of one list. fio's number.
    pub const PERCENTILES: usize = 20;
    /// Bytes of a pattern. fio's number.
    pub const PATTERN_BYTES: usize = 512;
}
