//! `qd1 schema`: the JSON Schema of what `--json` prints.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::args::{Choice, DestinationArgs, choice};
use crate::output;

/// A document of `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Report,
    Comparison,
}

const DOCUMENTS: [Choice<Document>; 2] = [
    ("report", "What commands that measure print", Document::Report),
    ("compare", "What compare prints", Document::Comparison),
];

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The document
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
    };
    output::write(&DestinationArgs::stdout(), &schema)?;
    Ok(ExitCode::SUCCESS)
}
