//! `qd1 meta`: file operations, and bonnie++'s whole job. This file makes the suite of its steps; the run is that of any
//! suite, and the analysis makes the table.

mod args;

use std::process::ExitCode;

use anyhow::Result;
use qd1_model::plan::{FileOp, FileOrder, FilesSync};
use qd1_model::spec::{FilesJob, Job, PerEffort, Span, Suite};
use qd1_model::{Bytes, Subject};

pub(crate) use args::MetaArgs;
use args::{Fsync, Kind};

use crate::cli::MeasureArgs;
use crate::measure::{self, Asked};
use crate::system;
use qd1_model::Problem;

/// The command's name, and that of its suite in the Record.
const COMMAND: &str = "meta";
/// The suite's name in the Record with `--suite bonnie`.
pub(crate) const BONNIE: &str = "bonnie";

/// Measures.
///
/// # Errors
/// When what is asked makes no sense, or the run fails.
pub(crate) fn run(args: MetaArgs) -> Result<ExitCode> {
    args.check()?;
    let job = match args.suite {
        Kind::Files => files(&args),
        Kind::Bonnie => bonnie(&args, system::memory())?,
    };
    let suite = Suite {
        name: if args.suite == Kind::Bonnie { BONNIE } else { COMMAND }.to_owned(),
        subject: if args.suite == Kind::Bonnie { Subject::Bonnie } else { Subject::Meta },
        title: "file operations".to_owned(),
        source: String::new(),
        // No step uses a shared file; the planner wants one large enough to mean something.
        size: same(Bytes::mib(16)),
        prepare: same(Span(0)),
        job,
        criteria: Vec::new(),
        sweep: None,
    };
    let MetaArgs { path, quick, full, runtime, device, common, .. } = args;
    let how = MeasureArgs {
        quick,
        full,
        size: None,
        runtime,
        only: Vec::new(),
        with_load: false,
        device,
        common,
        thresholds: None,
        fail_on: None,
    };
    measure::run(Asked::of(COMMAND, suite, &path, &how))
}

