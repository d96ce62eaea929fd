//! External programs that are run to their end, and retries while something is busy.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use qd1_clock as clock;
use qd1_model::Bytes;

/// Longest time to wait: anything busy for longer is in use by somebody else.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// Directories with administration programs, which may not be in other users' PATH.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns the path of `program`; `None` when it is not installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(SBIN.iter().map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Returns the size of the machine's memory.
pub fn memory() -> Bytes {
    let info = rustix::system::sysinfo();
    Bytes(info.totalram.saturating_mul(u64::from(info.mem_unit.max(1))))
}

/// Returns a command that survives Ctrl-C in the terminal: its work is finished or undone, not interrupted.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// Runs a program to its end and returns its output, stdout before stderr.
///
/// # Errors
/// When it cannot be started or fails; the message includes its output.
pub fn tool(program: &str, args: &[&str]) -> Result<String> {
    let output = command(program).args(args).output().with_context(|| format!("cannot run {program}"))?;
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).trim().to_owned());
    if output.status.success() {
        return Ok([stdout, stderr].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n"));
    }
    let why = if stderr.is_empty() { stdout } else { stderr };
    let why = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    bail!("{program} {} failed: {why}", args.join(" "))
}

/// Calls `attempt` until it returns true; returns false after [`PATIENCE_NS`].
///
/// # Errors
/// When `attempt` fails.
pub fn retry_while_busy(mut attempt: impl FnMut() -> Result<bool>) -> Result<bool> {
    let until_ns = clock::now_ns() + PATIENCE_NS;
    loop {
        if attempt()? {
            return Ok(true);
        }
        if clock::now_ns() > until_ns {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_quoted() {
        let error = tool("sh", &["-c", "echo one >&2; echo two >&2; exit 3"]).unwrap_err().to_string();
        assert!(error.ends_with("failed: one; two"), "{error}");
        assert_eq!(tool("sh", &["-c", "echo a; echo b >&2"]).unwrap(), "a\nb");
        assert!(tool("no-such-program", &[]).is_err() && find("no-such-program").is_none());
    }
}
