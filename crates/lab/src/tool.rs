//! Running the system's tools, and why something is not available here.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Why something cannot be created here, such as a missing tool. Tests give it as the reason for skipping.
#[derive(Debug)]
pub struct Unavailable(String);

impl Unavailable {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unavailable {}

impl From<anyhow::Error> for Unavailable {
    fn from(error: anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl From<Unavailable> for String {
    fn from(unavailable: Unavailable) -> Self {
        unavailable.0
    }
}

/// Runs a tool and returns its output.
///
/// # Errors
/// When it is missing or fails.
pub fn tool(name: &str, args: &[&str]) -> Result<String, Unavailable> {
    let output = Command::new(name).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Unavailable(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(Unavailable(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// A path of ours as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("our directories have names in UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_missing_or_fails_is_named() {
        assert_eq!(tool("echo", &["a"]).unwrap(), "a");
        let why = |name: &str, args: &[&str]| String::from(tool(name, args).unwrap_err());
        assert!(why("qd1-has-no-such-tool", &[]).starts_with("qd1-has-no-such-tool: "));
        assert_eq!(why("sh", &["-c", "echo no >&2; exit 1"]), "sh failed: no");
    }
}
