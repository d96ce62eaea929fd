//! The screen of `qd1 watch`: drawn at each interval and at each key.

mod heatmap;
mod keys;
mod names;
mod state;
mod view;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use qd1_clock as clock;
use ratatui::backend::Backend as _;
use rustix::process::Signal;
use signal_hook::consts::SIGCONT;

use super::args::Pace;
use super::reading::Watcher;
use crate::signals::Signals;
use keys::Action;
use state::State;

/// Longest wait for a key before signals are looked at.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// From the first reading to the first screen, ns.
const FIRST_NS: u64 = 300_000_000;

/// Fills the screen until `q` or a signal ends it.
///
/// # Errors
/// When the disk is gone, or the terminal fails.
pub(super) fn run(pace: Pace, watcher: &mut Watcher, signals: &Signals) -> Result<ExitCode> {
    stay_in_memory();
    watcher.read()?;
    let mut terminal = init()?;
    let shown = show(pace, watcher, signals, &mut terminal);
    // A terminal that is gone needs no restoring.
    let _ = ratatui::try_restore();
    if signals.exit_code().is_none() {
        shown?;
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}

fn show(pace: Pace, watcher: &mut Watcher, signals: &Signals, terminal: &mut ratatui::DefaultTerminal) -> Result<()> {
    let mut state = State::new(pace.interval_ns, watcher.refused().map(str::to_owned));
    let mut next_ns = clock::now_ns() + FIRST_NS;
    let is_continued = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGCONT, is_continued.clone()).context("cannot set signal handlers")?;
    let mut unfinished = Vec::new();
    let mut drawn_size = terminal.size().context("cannot use the terminal")?;
    while !state.is_over() && !signals.stop().load(Ordering::Relaxed) {
        let now_ns = clock::now_ns();
        let mut has_changed = false;
        if now_ns >= next_ns {
            // What is read while the screen is paused would be lost.
            if !state.is_paused() {
                state.take(watcher.read()?);
                has_changed = true;
            }
            next_ns = now_ns + state.interval_ns();
        }
        let wait = Duration::from_nanos(next_ns.saturating_sub(clock::now_ns())).min(KEY_WAIT);
        for action in keys::typed(wait, &mut unfinished) {
            if action == Action::Suspend {
                let _ = ratatui::try_restore();
                // The kernel drops it where no shell could continue us.
                let _ = rustix::process::kill_current_process_group(Signal::TSTP);
                is_continued.store(true, Ordering::Relaxed);
            }
            state.act(action);
            next_ns = next_ns.min(clock::now_ns() + state.interval_ns());
            has_changed = true;
        }
        // In the meantime a shell had the terminal.
        if is_continued.swap(false, Ordering::Relaxed) {
            // It takes a terminal for its own until it is restored.
            let _ = ratatui::try_restore();
            *terminal = init()?;
            // Not that of the terminal, which asks where the cursor is, and reads the answer as we read keys.
            terminal.backend_mut().clear().context("cannot write to the terminal")?;
            has_changed = true;
        }
        let size = terminal.size().context("cannot use the terminal")?;
        has_changed |= size != std::mem::replace(&mut drawn_size, size);
        if has_changed {
            terminal.draw(|frame| view::draw(frame, &state)).context("cannot write to the terminal")?;
        }
    }
    Ok(())
}

fn init() -> Result<ratatui::DefaultTerminal> {
    ratatui::try_init()
        .inspect_err(|_| _ = ratatui::try_restore())
        .context("cannot use the terminal; --batch prints reports instead")
}

/// Keeps what was loaded once in memory, so that a hung disk does not stop the screen. For others than root, what is
/// locked counts, and an allocation beyond the limit would fail.
fn stay_in_memory() {
    use rustix::mm::{MlockAllFlags, mlockall};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
}
