//! SIGINT and SIGTERM: the first stops the run in order, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether to stop, and which signal said so.
#[derive(Clone, Default)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
}

impl Signals {
    /// Takes over the signals.
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
        Ok(signals)
    }

    /// Set once a signal came.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// The exit code for the signal that came: 130 for SIGINT, 143 for SIGTERM.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        match self.which.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(128 + signal as u8),
        }
    }
}
