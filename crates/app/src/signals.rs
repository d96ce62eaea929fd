//! SIGINT, SIGTERM and SIGHUP: the first signal stops the run in an orderly way, a later one ends the process.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use qd1_clock as clock;
use qd1_engine::threads::room_for_one;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// A second signal within this time is the same request: `timeout` sends one to the process and one to its group.
const SAME_REQUEST: Duration = Duration::from_millis(500);
/// The signals of this process, once the handlers are installed.
static INSTALLED: OnceLock<Signals> = OnceLock::new();

/// Returns the exit code for the signal that this process has received so far, as [`Signals::exit_code`].
pub(crate) fn received() -> Option<u8> {
    INSTALLED.get().and_then(Signals::exit_code)
}

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
        let (first, notify) = UnixStream::pair().context("cannot set signal handlers")?;
        let ends = set_after_the_first(first).unwrap_or_else(|| signals.stop.clone());
        // Signals ignored from the start stay ignored: SIGHUP under nohup, SIGINT in the background of a script.
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0) {
            // In this order: with the flag already set, the default action (death) comes first.
            signal_hook::flag::register_conditional_default(signal, ends.clone())
                .and_then(|_| signal_hook::flag::register(signal, signals.stop.clone()))
                .and_then(|_| signal_hook::flag::register_usize(signal, signals.which.clone(), signal as usize))
                .and_then(|_| signal_hook::low_level::pipe::register(signal, notify.try_clone()?))
                .context("cannot set signal handlers")?;
        }
        // Beyond a file size limit (ulimit -f), the write should fail, not the process.
        signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot set signal handlers")?;
        let _ = INSTALLED.set(signals.clone());
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

/// Longest sleep before [`nap_until`] checks whether to stop, ns.
const STOP_CHECK_NS: u64 = 50_000_000;

/// Sleeps until `until_ns` of the clock, or until `stop` is set.
pub(crate) fn nap_until(until_ns: u64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let now_ns = clock::now_ns();
        if now_ns >= until_ns {
            return;
        }
        clock::nap_until(until_ns.min(now_ns + STOP_CHECK_NS));
    }
}

/// Returns a flag that a thread sets some time after the first signal; `None` if no more threads can be started.
fn set_after_the_first(mut signal: UnixStream) -> Option<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let wait = move || {
        if signal.read(&mut [0]).is_ok_and(|read| read > 0) {
            std::thread::sleep(SAME_REQUEST);
            set.store(true, Ordering::Relaxed);
        }
    };
    room_for_one().ok()?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).ok()?;
    Some(flag)
}

/// Returns a bit for each signal that this process ignores, the lowest one for signal 1.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
