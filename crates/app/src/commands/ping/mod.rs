//! `qd1 ping`: one request after another at a slow pace, a line for each, and a summary at the end; what ping does for
//! networks, and ioping for disks. It is for watching, so nothing is saved.

mod args;
mod disk;
mod show;

pub(crate) use args::{EXIT_CODES, PingArgs};

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use qd1_engine::merge::Merger;
use qd1_engine::meter::{Meter, Outbox, Parts, Timing};
use qd1_model::environment::FilesystemClass;
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, Stream};
use qd1_probe::{Machine, storage_read_bytes};

use crate::command_line::CommandLine;
use crate::session;
use crate::signals::{Signals, nap_until};
use args::PingSettings;
use disk::{Disk, Outcome};
use qd1_model::ProblemKind;
use qd1_runner::id;
use qd1_runner::place::Place;
use show::{Pong, Show};

/// Length of the intervals from which the confidence intervals are computed, ns.
const INTERVAL_NS: u64 = 100_000_000;
/// Consecutive failures after which it gives up.
const FAILURES_MAX: u64 = 100;

/// The results of a ping.
pub(crate) struct PingOutcome {
    /// Requests made, those of the warm-up included.
    pub(crate) requests: u64,
    /// Those that failed.
    pub(crate) failed: u64,
    /// Those that only warmed up.
    pub(crate) warmup: u64,
    /// From the first request to the end of the last one, ns.
    pub(crate) elapsed_ns: u64,
    /// The requests that count, by kind of operation.
    pub(crate) streams: Vec<Stream>,
    pub(crate) intervals: Vec<Interval>,
    /// Share of the bytes read that the page cache answered although they had been dropped from it, 0..1; absent where
    /// they were not dropped, or the kernel does not count what is read from storage.
    pub(crate) from_page_cache: Option<f64>,
}

/// Sends requests until a limit is reached or a signal stops it.
///
/// # Errors
/// When the place cannot be used with these settings. Failed requests are shown and counted instead.
pub(crate) fn run(args: &PingArgs, typed: &CommandLine) -> Result<ExitCode> {
    let settings = PingSettings::of(args)?;
    let machine = Machine::new();
    let id = id::random_id()?;
    let place = Place { leave_free: args.leave_free, ..session::inspect(typed, &machine, &args.path, &id)? };
    let seed = args.seed.unwrap_or_else(|| id::seed_of(&id));
    disk::check_settings(&settings, &place, &machine, args.destroy.as_deref())?;
    let signals = Signals::install()?;
    let Some(mut disk) = Disk::open(&settings, &place, &id, seed, signals.stop())? else {
        return Ok(ExitCode::from(signals.exit_code().unwrap_or(0)));
    };
    let mut show = Show::new(args, &settings, &place, seed, disk.area());
    show.start()?;
    let counts = disk.drops_cache() && place.filesystem.class == FilesystemClass::Disk;
    let outcome = send(&settings, &mut disk, &mut show, counts, signals.stop())?;
    show.end(&outcome)?;
    let code = if outcome.failed > 0 { ProblemKind::Failed.exit_code() } else { 0 };
    Ok(ExitCode::from(signals.exit_code().unwrap_or(code)))
}

/// Sends the requests.
fn send(
    settings: &PingSettings,
    disk: &mut Disk,
    show: &mut Show,
    counts_storage: bool,
    stop: &AtomicBool,
) -> Result<PingOutcome> {
    let before = storage_read_bytes().filter(|_| counts_storage);
    let mut asked_bytes = 0;
    let outbox: Outbox = Arc::new(Mutex::new(Vec::new()));
    let start_ns = disk.now_ns();
    let synced = if settings.sync.has_call() { Parts::Sync } else { Parts::None };
    let write_class = if settings.sync.commits() { OpClass::Commit } else { OpClass::Write };
    let mut meter =
        Meter::new([(OpClass::Read, Parts::None), (write_class, synced)], start_ns, INTERVAL_NS, outbox.clone());
    let mut merger = Merger::default();
    let (mut requests, mut failed, mut in_a_row, mut last_ns, mut due_ns) = (0u64, 0u64, 0u64, start_ns, start_ns);
    let over = |number: u64, now_ns: u64| {
        settings.count.is_some_and(|count| number >= count)
            || settings.deadline_ns.is_some_and(|deadline_ns| now_ns >= start_ns + deadline_ns)
    };
    loop {
        nap_until(due_ns.min(start_ns.saturating_add(settings.deadline_ns.unwrap_or(u64::MAX))), stop);
        let now_ns = disk.now_ns();
        if stop.load(Ordering::Relaxed) || over(requests, now_ns) || in_a_row >= FAILURES_MAX {
            break;
        }
        requests += 1;
        let request = disk.request(requests)?;
        due_ns = request.begin_ns + settings.interval_ns;
        last_ns = request.begin_ns + request.lat_ns;
        let warmup = requests <= settings.warmup;
        if !request.writes && matches!(request.outcome, Outcome::Done { .. }) {
            asked_bytes += u64::from(settings.size);
        }
        match &request.outcome {
            Outcome::Done { sync_ns } if !warmup => {
                let timing = Timing { lat_ns: request.lat_ns, part_ns: sync_ns.unwrap_or(0), completed_ns: last_ns };
                meter.record(usize::from(request.writes), settings.size, &timing);
                in_a_row = 0;
            }
            Outcome::Done { .. } => in_a_row = 0,
            Outcome::Failed(_) => (failed, in_a_row) = (failed + 1, in_a_row + 1),
        }
        if !show.pong(&Pong { number: requests, at_ns: request.begin_ns - start_ns, warmup, request: &request })? {
            break;
        }
        // Emptied after each request, so that the outbox does not grow for days.
        merger.take(std::slice::from_ref(&outbox));
    }
    let elapsed_ns = (last_ns - start_ns).max(1);
    let streams = meter.finish();
    merger.take(std::slice::from_ref(&outbox));
    let warmup = requests.min(settings.warmup);
    let counted: u64 = streams.iter().map(|stream| stream.lat.count()).sum();
    debug_assert!(counted + failed <= requests, "{counted} counted and {failed} failed of {requests} requests");
    let storage_bytes = before.zip(storage_read_bytes()).map(|(before, after)| after.saturating_sub(before));
    let from_page_cache = storage_bytes
        .filter(|_| asked_bytes > 0)
        .map(|storage_bytes| 1.0 - (storage_bytes as f64 / asked_bytes as f64).min(1.0));
    let intervals = merger.finish(INTERVAL_NS, elapsed_ns);
    Ok(PingOutcome { requests, failed, warmup, elapsed_ns, streams, intervals, from_page_cache })
}
