//! SIGINT, SIGTERM and SIGHUP: the first signal stops the run in an orderly way, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// Whether to stop, and which signal requested it.
#[derive(Clone, Default)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
}

impl Signals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// When the handlers cannot be set.
    pub(crate) fn install() -> Result<Self> {
        let signals = Self::default();
        let ignored = ignored();
        // What is ignored from the start stays so: SIGHUP under nohup, SIGINT in the background of a script.
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0) {
            // In this order: with the flag already set, the default action (death) comes first.
            signal_hook::flag::register_conditional_default(signal, signals.stop.clone())
                .and_then(|_| signal_hook::flag::register(signal, signals.stop.clone()))
                .and_then(|_| signal_hook::flag::register_usize(signal, signals.which.clone(), signal as usize))
                .context("cannot set signal handlers")?;
        }
        // Beyond a limit of the file size (ulimit -f), the write is to fail and not the process.
        signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot set signal handlers")?;
        Ok(signals)
    }

    /// The flag that the first signal sets.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// The exit code for the signal received: 130 for SIGINT, 143 for SIGTERM; `None` without one.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        match self.which.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(128 + signal as u8),
        }
    }
}

/// Returns a bit for each signal that this process ignores, the lowest one for signal 1.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
