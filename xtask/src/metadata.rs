//! What `cargo metadata` says about the workspace.

use std::path::PathBuf;

use anyhow::{Context, Result};
use qd1_lab::cmd;
use serde_json::Value;

/// The workspace's own packages with their direct dependencies, and the target directory.
pub(crate) fn workspace() -> Result<Value> {
    cmd::json(cmd::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))
}

/// Where cargo builds, according to the environment and the configuration.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = workspace()?;
    let dir = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(dir))
}
