//! Running other programs, with errors that name the command and show its output.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The workspace's root. Cargo reports where the package it runs is; the compiled-in path is for a direct call.
pub fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = PathBuf::from(package);
    let root = package.ancestors().find(|dir| dir.join("Cargo.lock").is_file());
    root.map_or_else(|| package.clone(), Path::to_path_buf)
}

/// A command that starts in the workspace's root and has no input.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs this program, from the pinned toolchain.
pub fn cargo() -> Command {
    command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs with our own stdout and stderr; fails if the command fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// How many lines of a failing command's output are shown: there may be a hundred thousand.
const SHOWN: usize = 100;

/// Runs silently and returns stdout; if the command fails, the error contains its output.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = succeeded(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs silently and returns the JSON document on stdout.
pub fn json(command: &mut Command) -> Result<Value> {
    let text = capture(command)?;
    serde_json::from_str(&text).with_context(|| format!("{} printed no JSON", shown(command)))
}

/// A number at a path of a JSON document.
pub fn number(value: &Value, at: &str) -> Result<f64> {
    value.pointer(at).and_then(Value::as_f64).with_context(|| format!("the JSON document has no number at {at}"))
}

/// Whether a program needs no dynamic loader. A static-pie binary has a dynamic section too, so that is the right
/// question.
pub fn is_static(program: &Path) -> Result<bool> {
    let headers = capture(command("readelf").args(["--program-headers", "--wide"]).arg(program))?;
    Ok(!headers.contains(" INTERP "))
}

/// Like [`capture`], but includes stderr.
pub fn capture_all(command: &mut Command) -> Result<String> {
    let output = succeeded(command)?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn succeeded(command: &mut Command) -> Result<Output> {
    let output = output(command)?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{} failed: {}\n{}", shown(command), output.status, tail(&String::from_utf8_lossy(&said), SHOWN));
    }
    Ok(output)
}

/// The last lines of a text.
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Runs silently and returns everything, whatever the exit status.
pub fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("cannot start {}", shown(command)))
}

/// The command as one would type it, for messages.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Where a program is. The sbin directories count too: a user's PATH often lacks them.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(sbin).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Whether we are root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_what_it_said() {
        let error = capture(command("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.starts_with("sh -c"), "{error}");
        assert!(error.contains("exit status: 3") && error.ends_with("why"), "{error}");
    }

    #[test]
    fn a_program_with_a_loader_is_not_static_and_a_script_is_no_program() {
        assert!(!is_static(&env::current_exe().unwrap()).unwrap());
        assert!(is_static(&root().join(".ci/run")).is_err());
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("rust-toolchain.toml").is_file());
    }
}
