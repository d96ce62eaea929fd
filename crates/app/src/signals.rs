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
        for signal in [SIGINT, SIGTERM, SIGHUP] {
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
