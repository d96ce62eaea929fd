//! The screen of `qd1 watch`: redrawn at each interval and after each key.

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
use super::source::{Origin, Source};
use crate::commands::watch::recording::Player;
use crate::signals::Signals;
use keys::Action;
use state::State;

/// Longest wait for a key before checking for signals.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// Time from the first reading to the first screen, ns.
const FIRST_NS: u64 = 300_000_000;

/// Shows the screen until `q` is pressed or a signal arrives.
///
/// # Errors
/// If the disk is gone, or the terminal fails.
pub(super) fn run(pace: Pace, source: &mut Source, signals: &Signals) -> Result<ExitCode> {
    stay_in_memory();
    source.since_start()?;
    let mut terminal = init()?;
    let shown = show(pace, source, signals, &mut terminal);
    // A terminal that is gone needs no restoring.
    let _ = ratatui::try_restore();
    if signals.exit_code().is_none() {
        shown?;
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}

fn show(pace: Pace, source: &mut Source, signals: &Signals, terminal: &mut ratatui::DefaultTerminal) -> Result<()> {
    let mut state = State::new(pace.interval_ns);
    let is_played = matches!(source.origin, Origin::Played(_));
    let mut next_ns = clock::now_ns() + if is_played { 0 } else { FIRST_NS };
    let is_continued = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGCONT, is_continued.clone()).context("cannot set signal handlers")?;
    let mut unfinished = Vec::new();
    let mut drawn_size = terminal.size().context("cannot use the terminal")?;
    while !state.is_over() && !signals.stop().load(Ordering::Relaxed) {
        let now_ns = clock::now_ns();
        let mut has_changed = false;
        if now_ns >= next_ns {
            // A reading taken while the screen is paused would be lost, unless it is recorded.
            if !state.is_paused() || source.is_recorded() {
                match source.next()? {
                    Some(reading) if !state.is_paused() => state.take(reading),
                    Some(_) => {}
                    // The end of a recording stays on the screen.
                    None => state.act(Action::Pause),
                }
                has_changed = true;
            }
            state.set_place(source.place());
            next_ns = now_ns + state.interval_ns();
        }
        let wait = Duration::from_nanos(next_ns.saturating_sub(clock::now_ns())).min(KEY_WAIT);
        for action in keys::typed(wait, &mut unfinished) {
            if action == Action::Suspend {
                let _ = ratatui::try_restore();
                // The kernel ignores the signal if there is no shell that could resume us.
                let _ = rustix::process::kill_current_process_group(Signal::TSTP);
                is_continued.store(true, Ordering::Relaxed);
            }
            if let (Action::Seek(places), Origin::Played(player)) = (action, &mut source.origin) {
                seek(player, &mut state, places);
            }
            state.act(action);
            next_ns = next_ns.min(clock::now_ns() + state.interval_ns());
            has_changed = true;
        }
        // A shell may have used the terminal in the meantime.
        if is_continued.swap(false, Ordering::Relaxed) {
            // The library does not initialise the terminal again until it has been restored.
            let _ = ratatui::try_restore();
            *terminal = init()?;
            // Clear through the backend: `Terminal::clear` asks the terminal where the cursor is, and would read the
            // answer from the same input as our keys.
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

/// Shows the report this many places after the current one, with the map of those before it.
fn seek(player: &mut Player, state: &mut State, places: isize) {
    let last = player.len().saturating_sub(1);
    let to = (player.position().saturating_sub(1)).saturating_add_signed(places).min(last);
    player.seek(to.saturating_sub(heatmap::KEPT - 1));
    state.forget();
    while player.position() <= to {
        let Some(reading) = player.next() else { break };
        state.take(reading);
    }
    state.set_place(Some((player.position(), player.len())));
}

fn init() -> Result<ratatui::DefaultTerminal> {
    ratatui::try_init()
        .inspect_err(|_| _ = ratatui::try_restore())
        .context("cannot use the terminal; use --batch to print reports instead")
}

/// Keeps pages in memory once they are loaded, so that a hung disk does not stop the screen. Only for root: for other
/// users, locked memory is limited, and an allocation beyond the limit would fail.
fn stay_in_memory() {
    use rustix::mm::{MlockAllFlags, mlockall};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
}
