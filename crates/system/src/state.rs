//! Where files are kept between runs.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

const ELSEWHERE: &str = "set QD1_STORE to a file that you can write, or use --no-save";

/// Returns the path of the history: `$QD1_STORE`, otherwise `$XDG_STATE_HOME/qd1/history.db`, otherwise
/// `~/.local/state/qd1/history.db`. `env` looks up a variable; an empty one counts as absent, and so does a relative
/// XDG path, as the XDG standard requires.
pub fn default_path(env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let var = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = var("QD1_STORE") {
        return Ok(path);
    }
    let state = state_dir(env).with_context(|| format!("there is no place for the history; {ELSEWHERE}"))?;
    Ok(state.join("history.db"))
}

/// Returns the directory for files kept between runs: `$XDG_STATE_HOME/qd1`, else `~/.local/state/qd1`.
pub fn state_dir(env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let var = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = var("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| var("HOME").map(|home| home.join(".local/state")));
    Ok(state.context("HOME is not set")?.join("qd1"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_place_follows_the_environment() {
        let path = |vars: &[(&str, &str)]| {
            default_path(|name| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        let home = ("HOME", "/home/a");
        assert_eq!(path(&[("QD1_STORE", "x.db"), home]).unwrap(), Path::new("x.db"));
        assert_eq!(path(&[("XDG_STATE_HOME", "/s"), home]).unwrap(), Path::new("/s/qd1/history.db"));
        let default = Path::new("/home/a/.local/state/qd1/history.db");
        assert_eq!(path(&[("QD1_STORE", ""), ("XDG_STATE_HOME", "rel"), home]).unwrap(), default);
        assert!(format!("{:#}", path(&[]).unwrap_err()).contains("QD1_STORE"));
    }
}
