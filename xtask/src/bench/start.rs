//! The size of the released binary, its start time, and its memory during a quick check.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use wait4::Wait4;

use super::args::Args;
use super::table::{Table, Target};
use crate::dist;

/// Maximum time of `--version`, in milliseconds.
const START_MAX_MS: f64 = 10.0;
/// Maximum memory of a quick check, in MB of a million bytes.
const MEMORY_MAX_MB: f64 = 64.0;

pub(super) fn run(_: &Args) -> Result<Table> {
    let dist = dist::build()?;
    let mut table = Table::new(&["figure", "value"]);
    let mut row = |name: &str, value: f64, unit: &str, target: Target| {
        table.row(vec![name.to_owned(), format!("{value:.2} {unit}")], value, Some(target));
    };
    let most = dist::megabytes(dist::SIZE_MAX_BYTES);
    row("size of dist/qd1", dist::megabytes(dist.size_bytes), "MB", Target::AtMost(most));
    let start = dist::start_time(&dist.binary)?;
    row("start (--version)", start.as_secs_f64() * 1e3, "ms", Target::AtMost(START_MAX_MS));
    let dir = qd1_lab::temp_dir()?;
    let mut check = Command::new(&dist.binary);
    check.args(["check", "--quick"]).arg(dir.path()).current_dir(dir.path());
    // A benchmark run does not belong in the user's history.
    check.env("XDG_DATA_HOME", dir.path()).env("XDG_STATE_HOME", dir.path());
    row("memory (check --quick)", dist::megabytes(peak_bytes(&mut check)?), "MB", Target::AtMost(MEMORY_MAX_MB));
    Ok(table)
}

/// The peak resident memory of a command, as the kernel reports it when the process is gone. The kernel counts from
/// before the exec, so no figure is below our own few megabytes.
fn peak_bytes(command: &mut Command) -> Result<u64> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let ended = command.spawn().context("cannot start the check")?.wait4().context("cannot wait for the check")?;
    // 3: a threshold failed, which says something about the disk and nothing against the run.
    ensure!(matches!(ended.status.code(), Some(0 | 3)), "check --quick failed: {}", ended.status);
    Ok(ended.rusage.maxrss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_is_in_bytes() {
        let bytes = peak_bytes(&mut Command::new("true")).unwrap();
        assert!((100_000..1_000_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_failing_check_is_no_measurement() {
        assert!(peak_bytes(&mut Command::new("false")).is_err());
    }
}
