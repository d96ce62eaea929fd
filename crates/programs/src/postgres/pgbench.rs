//! pgbench: fills the tables, and runs the loads.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use qd1_clock as clock;
use qd1_model::op::Ended;
use qd1_model::plan::Stop;
use qd1_model::record::program::{AppStep, AppUnit, Counter};
use rustix::process::Signal;

use super::access::Access;
use super::log::Log;
use super::stats::Stats;
use crate::program::{Loaded, Site};
use crate::text::number_after;
use qd1_runner::watch::{Pacer, Watch};
use qd1_system::child::{Cancelled, Running, last_lines, read_whole};
use qd1_system::source::{self, Kind};

/// Time between two reads of the log.
const POLL: Duration = Duration::from_millis(20);
/// A user's own script.
pub(super) const SCRIPT: Kind = Kind { name: "a script", most: 1 << 20 };

/// One load.
pub(crate) struct PgbenchRun<'a> {
    pub(crate) clients: u32,
    pub(crate) rate: Option<u32>,
    pub(crate) threads: u32,
    pub(crate) builtin: &'a str,
    pub(crate) scripts: &'a [PathBuf],
    pub(crate) stop: Stop,
}

/// Creates and fills pgbench's tables.
///
/// # Errors
/// When pgbench fails; the message has its output.
pub(crate) fn fill(access: &Access, scale: u32, site: &Site<'_>) -> Result<()> {
    let args = [OsString::from("-i"), "-q".into(), "-s".into(), scale.to_string().into(), access.conninfo.clone()];
    access.client(&access.tools.pgbench, args.to_vec()).output(site.cancel)?;
    Ok(())
}

/// Reads the tables and their indexes into the server's memory.
///
/// # Errors
/// When the extension is not installed, or this user may not create it.
pub(crate) fn prewarm(access: &Access, site: &Site<'_>) -> Result<()> {
    let explained = "--prewarm needs the extension pg_prewarm (Debian: postgresql-contrib) and permission to create it";
    access.query("create extension if not exists pg_prewarm", site.cancel).context(explained)?;
    let all = "select pg_prewarm(oid::regclass) from pg_class where relname like 'pgbench%' and relkind in ('r', 'i')";
    access.query(all, site.cancel).map(drop)
}

/// Runs a load and counts its transactions.
///
/// # Errors
/// When no transaction completed; the message has pgbench's output.
pub(crate) fn run(access: &Access, run: &PgbenchRun<'_>, site: &Site<'_>, watch: &mut dyn Watch) -> Result<Loaded> {
    // So that no load has to write out what the previous one left. Users who do not own the server may not do this.
    let _ = access.query("checkpoint", site.cancel);
    let temp = site.temp_scratch_for("l")?;
    let (scripts, prefix) = (copied(run.scripts, temp.path())?, temp.path().join("p"));
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let before = Stats::read(access, site.cancel)?;
    let args = args(access, run, &scripts, &prefix, site.seed);
    let client = access.client(&access.tools.pgbench, args);
    let mut pgbench = client.start(stdout.try_clone()?.into(), stderr.try_clone()?.into(), true)?;
    let (warmup_ns, window_ns) = (run.stop.ramp_ns, run.stop.max_ns);
    let mut log = Log::new(&prefix, pgbench.pid(), run.threads, access.user.as_ref(), (warmup_ns, window_ns))?;
    pgbench.release()?;
    let status = follow(&mut pgbench, &mut log, run, site, watch)?;
    let (mut tally, errors, all) = log.finish();
    let (stdout, stderr) = (read_whole(&mut stdout)?, read_whole(&mut stderr)?);
    let interrupted = site.is_cancelled();
    let good = status.is_some_and(|status| status.success());
    let fault = if good || interrupted { String::new() } else { format!("pgbench failed: {}", last_lines(&stderr)) };
    if tally.settle() == 0 {
        if interrupted {
            return Err(Cancelled.into());
        }
        let why = if good { "no transaction completed in the measured time".to_owned() } else { fault };
        bail!("{why}");
    }
    // A load that ran to its end covers the whole window, even if no transaction completed at the very end.
    let runtime_ns = tally.seen_ns().max(if good { window_ns } else { 1 });
    let app = if good { app_step(access, &before, all, &stdout, site, watch) } else { AppStep::default() };
    let (stream, intervals) = tally.finish(runtime_ns);
    let ended = match (interrupted, good) {
        (true, _) => Ended::Interrupted,
        (false, true) => Ended::Time,
        (false, false) => Ended::Failed,
    };
    Ok(Loaded { streams: stream.into_iter().collect(), intervals, runtime_ns, ended, fault, errors, app })
}

/// Copies the scripts to a place where pgbench's user can read them.
fn copied(scripts: &[PathBuf], dir: &Path) -> Result<Vec<PathBuf>> {
    let copy = |(number, script): (usize, &PathBuf)| {
        let to = dir.join(format!("script-{number}.sql"));
        let text = source::read(script, SCRIPT)?;
        std::fs::write(&to, text)?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&to, readable)?;
        Ok(to)
    };
    scripts.iter().enumerate().map(copy).collect()
}

fn args(access: &Access, run: &PgbenchRun<'_>, scripts: &[PathBuf], prefix: &Path, seed: u64) -> Vec<OsString> {
    // pgbench takes whole seconds, and they include connecting its clients, before our time begins: so one second more.
    // Transactions that end after our time are not counted.
    let seconds = (run.stop.ramp_ns + run.stop.max_ns).div_ceil(1_000_000_000) + 1;
    let mut args = ["-n", "-l"].map(OsString::from).to_vec();
    let mut option = |name: &str, value: OsString| args.extend([OsString::from(name), value]);
    option("-c", run.clients.to_string().into());
    if let Some(rate) = run.rate {
        option("-R", rate.to_string().into());
    }
    option("-j", run.threads.to_string().into());
    option("-T", seconds.to_string().into());
    option("--log-prefix", prefix.as_os_str().to_owned());
    option("--random-seed", seed.to_string().into());
    if scripts.is_empty() {
        option("-b", run.builtin.into());
    }
    scripts.iter().for_each(|script| option("-f", script.as_os_str().to_owned()));
    args.push(access.conninfo.clone());
    args
}

/// Reads the log until pgbench ends or the user stops it; returns its status, `None` if it was stopped.
fn follow(
    pgbench: &mut Running,
    log: &mut Log,
    run: &PgbenchRun<'_>,
    site: &Site<'_>,
    watch: &mut dyn Watch,
) -> Result<Option<std::process::ExitStatus>> {
    let start_ns = clock::now_ns();
    let mut pacer = Pacer::default();
    loop {
        let status = pgbench.ended()?;
        // After its end, so that nothing of the log is missed.
        log.take()?;
        if status.is_some() {
            return Ok(status);
        }
        if site.is_cancelled() {
            pgbench.stop(Signal::INT, Duration::from_secs(1));
            log.take()?;
            return Ok(None);
        }
        let now_ns = clock::now_ns();
        pacer.take(now_ns - start_ns, || watch.figures(&log.tally().so_far()));
        let stop = Stop { max_ns: run.stop.ramp_ns + run.stop.max_ns, ..run.stop };
        watch.tick(now_ns - start_ns, &stop);
        std::thread::sleep(POLL);
    }
}

/// Returns the server's counters and pgbench's own figures. The transactions were counted: without the counters, the
/// rest is kept.
fn app_step(
    access: &Access,
    before: &Stats,
    all: u64,
    output: &str,
    site: &Site<'_>,
    watch: &mut dyn Watch,
) -> AppStep {
    // Sessions report their counters to the server when they end, a moment after pgbench.
    std::thread::sleep(Duration::from_millis(if before.is_delayed() { 1200 } else { 300 }));
    let mut counters = vec![Counter::new("operations", AppUnit::Count, all as f64)];
    match Stats::read(access, site.cancel) {
        Ok(after) => counters.extend(after.since(before)),
        Err(error) if error.is::<Cancelled>() => return AppStep::default(),
        Err(error) => watch.note(&format!("the server's counters are missing: {error:#}")),
    }
    AppStep { counters, reported: reported(output), ..AppStep::default() }
}

/// Returns pgbench's own figures, which cover the whole load, including the warm-up.
fn reported(output: &str) -> Vec<Counter> {
    // In versions that print two lines, the later one excludes the time for connecting.
    let tps = output.lines().rev().find_map(|line| number_after(line, "tps = "));
    let ms = |mark: &str| number_after(output, mark).map(|ms| ms * 1e6);
    let figures = [
        ("tps", AppUnit::PerSecond, tps),
        ("latency average", AppUnit::Ns, ms("latency average = ")),
        ("initial connection time", AppUnit::Ns, ms("initial connection time = ")),
    ];
    figures.into_iter().filter_map(|(name, unit, value)| Some(Counter::new(name, unit, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_old_and_new_versions_of_pgbench_are_read() {
        let new = "transaction type: <builtin: TPC-B (sort of)>\nnumber of transactions actually processed: 1513\n\
                   latency average = 13.212 ms\ninitial connection time = 8.901 ms\n\
                   tps = 756.897423 (without initial connection time)\n";
        let values: Vec<f64> = reported(new).into_iter().map(|figure| figure.value).collect();
        assert_eq!(values, [756.897423, 13.212e6, 8.901e6]);
        let old = "latency average = 2.1 ms\ntps = 470.1 (including connections establishing)\n\
                   tps = 475.2 (excluding connections establishing)\n";
        assert_eq!(reported(old)[0].value, 475.2);
    }
}
