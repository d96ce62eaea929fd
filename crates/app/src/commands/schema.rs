//! `qd1 schema`: the JSON Schema of what `--json` prints.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::args::{Choice, DestinationArgs, choice};
use crate::output;

/// A document that `--json` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Report,
    Comparison,
    Doctor,
}

const DOCUMENTS: [Choice<Document>; 3] = [
    ("report", "The output of commands that measure", Document::Report),
    ("compare", "The output of compare", Document::Comparison),
    ("doctor", "The output of doctor", Document::Doctor),
];

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Which document
    #[arg(value_parser = choice(&DOCUMENTS), default_value = "report")]
    pub(crate) document: Document,
}

/// Prints a schema.
///
/// # Errors
/// When stdout cannot be written.
pub(crate) fn run(args: &SchemaArgs) -> Result<ExitCode> {
    let schema = match args.document {
        Document::Report => qd1_report::schema(),
        Document::Comparison => qd1_report::comparison_schema(),
        Document::Doctor => qd1_report::doctor_schema(),
    };
    output::write(&DestinationArgs::stdout(), &schema)?;
    Ok(ExitCode::SUCCESS)
}
