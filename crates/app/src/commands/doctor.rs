//! `qd1 doctor`: finds settings that cost latency, durability or the truth of figures. Only reads.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use qd1_analysis::doctor::diagnose;
use qd1_model::doctor::Diagnosis;
use qd1_model::setting::{Place, Unseen};
use qd1_model::{Problem, ProblemKind, Severity};
use qd1_probe::Machine;
use qd1_report::{Detail, doctor_human, doctor_json};

use crate::args::DestinationArgs;
use crate::output;

pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 doctor                             all filesystems on disks
  qd1 doctor /var/lib/postgresql         only the disk below it
  qd1 doctor --fail-on critical --json   for a pipeline

Exit codes: 0 done; 1 failed, or no settings could be read; 2 usage error;
3 something as severe as --fail-on or worse was found.";

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Directory, file or block device whose disk to look at [default: all mounted filesystems on disks]
    pub(crate) path: Option<PathBuf>,
    /// Exit with code 3 if anything this severe or worse is found
    #[arg(long, value_name = "SEVERITY", value_enum)]
    pub(crate) fail_on: Option<FailOn>,
    /// Print JSON (see `qd1 schema doctor`)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: DestinationArgs,
}

/// The severities that `--fail-on` takes, from strict to lenient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// The data is at risk, or figures cannot be relied on.
    Critical,
    /// It costs latency or durability, or worse.
    Warning,
    /// Anything.
    Info,
}

/// Looks at the settings and prints what is set up badly.
///
/// # Errors
/// If the path does not exist, or the output cannot be written.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(path) = &args.path {
        std::fs::metadata(path)
            .map_err(|error| Problem::usage(format!("{}: {error}; name a directory, file or disk", path.display())))?;
    }
    if let Some(path) = &args.to.output {
        output::check_destination(path)?;
    }
    let mut inventory = Machine::new().settings(args.path.as_deref());
    if let Some(path) = &args.path
        && !inventory.places.iter().any(Place::has_storage)
    {
        let why = "no disk is below it, so only settings of the machine and of programs were looked at".to_owned();
        inventory.unseen.insert(0, Unseen { what: path.display().to_string(), why });
    }
    let diagnosis = diagnose(inventory);
    let text = if args.json {
        doctor_json(&diagnosis)
    } else {
        let detail = Detail::Screen { is_kept: false, lines: None };
        doctor_human(&diagnosis, &output::style(&args.to, detail))
    };
    output::write(&args.to, &text)?;
    Ok(ExitCode::from(outcome_code(&diagnosis, args.fail_on)))
}

fn outcome_code(diagnosis: &Diagnosis, fail_on: Option<FailOn>) -> u8 {
    if diagnosis.advice.is_empty() && !diagnosis.saw_the_kernel() {
        return 1;
    }
    let least = match fail_on {
        None => return 0,
        Some(FailOn::Critical) => Severity::Critical,
        Some(FailOn::Warning) => Severity::Warning,
        Some(FailOn::Info) => Severity::Info,
    };
    let fails = diagnosis.advice.iter().any(|advice| advice.severity >= least);
    if fails { ProblemKind::Threshold.exit_code() } else { 0 }
}

#[cfg(test)]
mod tests {
    use qd1_model::setting::{Setting, SettingKind};

    use super::*;

    #[test]
    fn a_machine_that_shows_nothing_is_a_failure() {
        let mut diagnosis = diagnose(qd1_model::setting::Inventory::default());
        assert_eq!((outcome_code(&diagnosis, None), outcome_code(&diagnosis, Some(FailOn::Info))), (1, 1));
        let setting = Setting::new(SettingKind::System, "", "btf", "present");
        diagnosis.settings.push(Setting { place: "/sys/kernel/btf/vmlinux".to_owned(), ..setting });
        assert_eq!(outcome_code(&diagnosis, Some(FailOn::Info)), 0);
    }
}
