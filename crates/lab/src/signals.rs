//! Signals that end a process, and whether it is root: checked first by everything that creates devices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, ensure};

use crate::cmd;

fn flag() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// From now on SIGINT and SIGTERM set a flag. Children in the same terminal get the signal themselves and exit.
///
/// # Errors
/// When the system refuses the handlers.
pub fn catch_signals() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag())).context("cannot catch signals")?;
    }
    Ok(())
}

/// Fails once a signal has come.
///
/// # Errors
/// After SIGINT or SIGTERM.
pub fn interrupted() -> Result<()> {
    ensure!(!flag().load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// Fails if we are not root, and says what to do.
///
/// # Errors
/// If we are not root.
pub fn need_root(what: &str) -> Result<()> {
    ensure!(cmd::is_root(), "{what} needs root; run it with sudo");
    Ok(())
}

/// Fails if we are not root; from now on signals set the flag.
///
/// # Errors
/// If we are not root.
pub fn as_root(what: &str) -> Result<()> {
    need_root(what)?;
    catch_signals()
}
