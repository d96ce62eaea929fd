//! The helper that cleans up after a run that was killed.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use qd1_clock as clock;

use crate::helper::wait_for_parent;
use crate::journal;
use crate::scratch::{clear, is_scratch};

/// How long the helper tries to clean up, ten times a second.
const TRIES_NS: u64 = 30_000_000_000;

/// Runs the helper: waits for its parent to end, then cleans up what is left.
pub fn janitor(path: &Path) -> Result<ExitCode> {
    let scratch = is_scratch(path);
    anyhow::ensure!(scratch || journal::is_ours(path), "not a scratch directory or a journal of qd1");
    wait_for_parent();
    // A server that ends with the parent may still write there for a moment.
    let until_ns = clock::now_ns() + TRIES_NS;
    while clock::now_ns() < until_ns {
        let done = if scratch { clear(path).map(drop) } else { journal::undo_left(path) };
        if done.is_ok() && !path.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_refuses_any_other_directory() {
        assert!(janitor(Path::new("/tmp")).is_err());
    }
}
