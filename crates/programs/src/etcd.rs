//! `qd1 app etcd`: a real etcd with its data on the disk, under the loads of `etcdctl check perf`.
//!
//! etcdctl decides whether it passes; etcd's metrics show how long the syncs of its log and the commits of its database
//! took, in etcd's own buckets; its messages show which requests it found slow. Each load has its own etcd, with empty
//! data.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use qd1_clock as clock;
use qd1_model::Bytes;
use qd1_model::op::Ended;
use qd1_model::plan::program::{AppWork, Program};
use qd1_model::plan::{StepPlan, Work};
use qd1_model::record::program::{AppStep, AppUnit, Buckets, Counter, ETCD_WAL_FSYNC, Setting};
use rustix::process::Signal;

use crate::find;
use crate::options::{EtcdLoad, EtcdOptions};
use crate::program::{Driver, Loaded, Site, enough};
use crate::puts::{Puts, VALUE};
use crate::text::number_after;
use qd1_runner::watch::Watch;
use qd1_system::child::{self, Cancelled, Running, last_lines, read_whole};
use qd1_system::scratch::Scratch;

/// How long `etcdctl check perf` writes.
const CHECK_NS: u64 = 60_000_000_000;
const POLL: Duration = Duration::from_millis(50);
/// Longest wait for etcd to answer, in steps of [`POLL`].
const READY_STEPS: u32 = 2_400;
const END: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);

/// The histograms that depend on the disk.
const HISTOGRAMS: [&str; 2] = [ETCD_WAL_FSYNC, "etcd_disk_backend_commit_duration_seconds"];

/// etcd with its options.
pub struct Etcd {
    options: EtcdOptions,
    server: PathBuf,
    client: PathBuf,
}

impl Etcd {
    /// Creates the driver.
    pub fn new(options: EtcdOptions) -> Self {
        Self { options, server: PathBuf::new(), client: PathBuf::new() }
    }
}

impl Driver for Etcd {
    fn program(&self) -> Program {
        Program::Etcd
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.options.path)
    }

    fn steps(&self) -> Vec<StepPlan> {
        if !self.options.rate.is_empty() {
            let rates = &self.options.rate;
            let turn = |at: usize| rates[..at].iter().filter(|rate| **rate == rates[at]).count() + 1;
            return (0..rates.len()).map(|at| puts_step(rates[at], turn(at), self.options.runtime_ns)).collect();
        }
        let mut loads = self.options.load.clone();
        loads.dedup();
        let step = |load: &EtcdLoad| {
            let (clients, rate) = (load.clients(), load.writes_per_second());
            let title = format!("etcdctl check perf: {clients} clients, target {rate} writes/s");
            crate::program::step(Program::Etcd, load.name().to_owned(), title, clients, 0, CHECK_NS)
        };
        loads.iter().map(step).collect()
    }

    fn space(&self) -> Bytes {
        // Two log segments of 64 MB; each write of 1 KiB goes to the log and the database, which keeps copies of pages.
        let writes = |per_second: u32, ns: u64| u64::from(per_second) * ns.div_ceil(1_000_000_000);
        let loads = self.options.load.iter().map(|load| writes(load.writes_per_second(), CHECK_NS));
        let most = match self.options.rate.iter().max() {
            Some(rate) => writes(*rate, self.options.runtime_ns),
            None => loads.max().unwrap_or(0),
        };
        Bytes((256 << 20) + most * 4096)
    }

    fn check(&mut self) -> Result<()> {
        self.options.rate.iter().try_for_each(|rate| enough(*rate, self.options.runtime_ns))?;
        let dirs = find::dirs(self.options.bindir.as_deref());
        self.server = find::needed("etcd", &dirs, "etcd-server")?;
        self.client = find::needed("etcdctl", &dirs, "etcd-client")?;
        Ok(())
    }

    fn prepare(&mut self, site: &Site<'_>, _watch: &mut dyn Watch) -> Result<(String, Vec<Setting>)> {
        let output = child::Program::new(&self.server, &[&"--version"]).output(site.cancel)?;
        let version = output.lines().find_map(|line| line.strip_prefix("etcd Version: ")).unwrap_or("unknown").trim();
        let setting = Setting { name: "listen".to_owned(), value: "127.0.0.1 only, on its own ports".to_owned() };
        Ok((version.to_owned(), vec![setting]))
    }

    fn load(&mut self, step: &StepPlan, site: &Site<'_>, watch: &mut dyn Watch) -> Result<Loaded> {
        let Work::App(work) = &step.work else { bail!("not a load of etcd") };
        let mut node = Node::start(&self.server, site)?;
        if let Some(rate) = work.rate {
            return node.puts(rate, step, site, watch);
        }
        let load = EtcdLoad::ALL
            .into_iter()
            .find(|load| load.name() == step.name)
            .context("not a load of etcdctl check perf")?;
        let before = node.metrics()?;
        let endpoint = format!("http://127.0.0.1:{}", node.port);
        let args: [&dyn AsRef<std::ffi::OsStr>; 6] =
            [&"--endpoints", &endpoint, &"check", &"perf", &"--load", &load.name()];
        let mut program = child::Program::new(&self.client, &args);
        program.env.push(("ETCDCTL_API", "3".into()));
        let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let begin_ns = clock::now_ns();
        let mut etcdctl = program.start(stdout.try_clone()?.into(), stderr.try_clone()?.into(), false)?;
        let finished = node.follow(&mut etcdctl, step, begin_ns, site, watch)?;
        let runtime_ns = clock::now_ns() - begin_ns;
        drop(etcdctl);
        let (stdout, stderr) = (read_whole(&mut stdout)?, read_whole(&mut stderr)?);
        let verdict = verdict(&stdout);
        let fault = match (finished, verdict.is_empty()) {
            (true, true) => node.explain(&format!("etcdctl: {}", last_lines(&format!("{stdout}\n{stderr}")))),
            (false, _) if !site.is_cancelled() => node.explain("etcd ended"),
            _ => String::new(),
        };
        if !fault.is_empty() {
            bail!("{fault}");
        }
        let mut app = app_step(&before, &node.metrics()?, &node.log_text());
        let ended = if site.is_cancelled() { Ended::Interrupted } else { Ended::Done };
        app.reported = verdict;
        if !app.reported.is_empty() {
            let requested = f64::from(load.writes_per_second());
            app.reported.insert(0, Counter::new("asked_writes_per_second", AppUnit::PerSecond, requested));
        }
        Ok(Loaded { runtime_ns, ended, app, ..Loaded::default() })
    }
}

/// Returns the step for a rate that appears in the list for the `turn`-th time.
fn puts_step(rate: u32, turn: usize, runtime_ns: u64) -> StepPlan {
    let title = format!("{rate} puts/s at random times, {VALUE} bytes each");
    let name = if turn == 1 { format!("{rate} puts/s") } else { format!("{rate} puts/s #{turn}") };
    let mut step = crate::program::step(Program::Etcd, name, title, 1, 0, runtime_ns);
    step.work = Work::App(AppWork { program: Program::Etcd, clients: 1, rate: Some(rate) });
    step
}

/// One etcd with empty data.
struct Node {
    server: Running,
    port: u16,
    messages: PathBuf,
    _disk: Scratch,
    _temp: Scratch,
}

impl Node {
    fn start(file: &Path, site: &Site<'_>) -> Result<Self> {
        // A port that was free a moment ago may be in use now, so another one is tried.
        let mut last = String::new();
        for _ in 0..5 {
            let mut node = Self::spawn(file, site)?;
            match node.wait_until_ready(site)? {
                true => return Ok(node),
                false => last = node.log_text(),
            }
            if !last.contains("address already in use") {
                break;
            }
        }
        bail!("etcd did not start: {}", last_lines(&last))
    }

    fn spawn(file: &Path, site: &Site<'_>) -> Result<Self> {
        let (disk, temp) = (site.scratch()?, site.temp_scratch()?);
        // Both are held at the same time, so that they differ.
        let held = [free_port()?, free_port()?];
        let [port, peer] = [&held[0], &held[1]].map(|held| held.local_addr().map_or(0, |addr| addr.port()));
        drop(held);
        let (client_url, peer_url) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let (data, cluster) = (disk.path().join("data"), format!("qd1={peer_url}"));
        let args: [&dyn AsRef<std::ffi::OsStr>; 16] = [
            &"--name",
            &"qd1",
            &"--data-dir",
            &data,
            &"--listen-client-urls",
            &client_url,
            &"--advertise-client-urls",
            &client_url,
            &"--listen-peer-urls",
            &peer_url,
            &"--initial-advertise-peer-urls",
            &peer_url,
            &"--initial-cluster",
            &cluster,
            &"--logger",
            &"zap",
        ];
        let messages = temp.path().join("server.log");
        let log = File::create(&messages).with_context(|| format!("cannot write {}", messages.display()))?;
        let server = child::Program::new(file, &args).start(log.try_clone()?.into(), log.into(), false)?;
        Ok(Self { server, port, messages, _disk: disk, _temp: temp })
    }

    /// Waits until it is healthy; returns false if it ended.
    fn wait_until_ready(&mut self, site: &Site<'_>) -> Result<bool> {
        for _ in 0..READY_STEPS {
            if self.server.ended()?.is_some() {
                return Ok(false);
            }
            if site.is_cancelled() {
                return Err(Cancelled.into());
            }
            if self.get("/health").is_ok_and(|answer| answer.contains("\"true\"") || answer.contains(":true")) {
                return Ok(true);
            }
            std::thread::sleep(POLL);
        }
        bail!("etcd did not become healthy in time: {}", last_lines(&self.log_text()))
    }

    /// Waits until etcdctl is done; returns false if the server ended or the user stopped it first.
    fn follow(
        &mut self,
        etcdctl: &mut Running,
        step: &StepPlan,
        begin_ns: u64,
        site: &Site<'_>,
        watch: &mut dyn Watch,
    ) -> Result<bool> {
        loop {
            if etcdctl.ended()?.is_some() {
                return Ok(self.server.ended()?.is_none());
            }
            if site.is_cancelled() || self.server.ended()?.is_some() {
                etcdctl.stop(Signal::TERM, Duration::from_secs(1));
                return Ok(false);
            }
            watch.tick(clock::now_ns() - begin_ns, &step.stop);
            std::thread::sleep(POLL);
        }
    }

    /// Runs and times puts at a rate.
    fn puts(&mut self, rate: u32, step: &StepPlan, site: &Site<'_>, watch: &mut dyn Watch) -> Result<Loaded> {
        let before = self.metrics()?;
        let load = Puts { port: self.port, rate, seed: site.seed };
        let outcome = load.run(&step.stop, site.cancel, watch);
        let loaded = outcome.map_err(|error| match error.is::<Cancelled>() {
            true => error,
            false => anyhow!(self.explain(&format!("{error:#}"))),
        })?;
        let app = AppStep { due: loaded.app.due, ..app_step(&before, &self.metrics()?, &self.log_text()) };
        Ok(Loaded { app, ..loaded })
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.messages).unwrap_or_default()
    }

    /// Adds the server's last message to an error, if the server has ended.
    fn explain(&mut self, what: &str) -> String {
        match self.server.ended() {
            Ok(Some(status)) => format!("{what}; etcd ended ({status}): {}", last_message(&self.log_text())),
            _ => what.to_owned(),
        }
    }

    fn metrics(&self) -> Result<String> {
        self.get("/metrics").context("etcd does not report its metrics")
    }

    /// Returns a page of the server, by HTTP/1.0, so that it is complete when the connection ends.
    fn get(&self, page: &str) -> Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        write!(stream, "GET {page} HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("etcd's answer is not HTTP")?;
        if !head.lines().next().is_some_and(|line| line.contains(" 200")) {
            bail!("{}", head.lines().next().unwrap_or_default());
        }
        Ok(body.to_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.server.stop(Signal::TERM, END);
    }
}

fn free_port() -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port on 127.0.0.1")
}

/// Returns the last message of a log of JSON lines.
fn last_message(log: &str) -> String {
    let message = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        Some(format!("{} {}", text("msg"), text("error")).trim().to_owned())
    };
    log.lines().rev().find_map(message).unwrap_or_else(|| last_lines(log))
}

/// Reads the output of `etcdctl check perf`: its figures, and whether each passes.
fn verdict(output: &str) -> Vec<Counter> {
    let mut figures = Vec::new();
    let rows = [
        ("writes_per_second", "throughput", ["Throughput is ", "Throughput too low: "], AppUnit::PerSecond, 1.0),
        ("slowest", "slowest", ["Slowest request took ", "Slowest request took too long: "], AppUnit::Ns, 1e9),
        ("stddev", "stddev", ["Stddev is ", "Stddev too high: "], AppUnit::Ns, 1e9),
    ];
    for (name, rule, marks, unit, factor) in rows {
        for line in output.lines() {
            let value = marks.iter().find_map(|mark| number_after(line, mark));
            let passed = line.contains("PASS");
            if let Some(value) = value.filter(|_| passed || line.contains("FAIL")) {
                figures.push(Counter::new(name, unit, value * factor));
                figures.push(Counter::new(format!("{rule}_passed"), AppUnit::Count, f64::from(u8::from(passed))));
                break;
            }
        }
    }
    figures
}

/// Returns the change in etcd's counters between two readings of its metrics, and counts of the complaints in its
/// messages.
fn app_step(before: &str, after: &str, log: &str) -> AppStep {
    let buckets = HISTOGRAMS.iter().filter_map(|name| buckets_since(name, before, after)).collect();
    let lines = |words: &[&str]| log.lines().filter(|line| words.iter().any(|word| line.contains(word))).count() as f64;
    let change = |name: &str| Some(value(after, name)? - value(before, name).unwrap_or(0.0));
    let mut counters = vec![
        Counter::new("slow_requests", AppUnit::Count, lines(&["took too long", "waiting for ReadIndex response took"])),
        Counter::new("slow_syncs", AppUnit::Count, lines(&["slow fdatasync"])),
    ];
    if let Some(changes) = change("etcd_server_leader_changes_seen_total") {
        counters.push(Counter::new("leader_changes", AppUnit::Count, changes));
    }
    if let Some(applied) = change("etcd_mvcc_put_total").or_else(|| change("etcd_debugging_mvcc_put_total")) {
        counters.push(Counter::new("operations", AppUnit::Count, applied));
    }
    AppStep { counters, buckets, ..AppStep::default() }
}

/// Returns the value of a metric without labels.
fn value(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Returns a histogram's change, with counts that are no longer cumulative.
fn buckets_since(name: &str, before: &str, after: &str) -> Option<Buckets> {
    let (then, now) = (cumulative(name, before), cumulative(name, after));
    if now.len() < 2 || now.len() != then.len() {
        return None;
    }
    let since: Vec<u64> = now.iter().zip(&then).map(|((_, now), (_, then))| now.saturating_sub(*then)).collect();
    let counts =
        (0..since.len()).map(|at| since[at] - if at == 0 { 0 } else { since[at - 1].min(since[at]) }).collect();
    let bounds_ns = now.iter().filter_map(|(bound, _)| bound.map(|seconds| (seconds * 1e9).round() as u64)).collect();
    let sum = |metrics: &str| value(metrics, &format!("{name}_sum")).unwrap_or(0.0);
    let sum_ns = ((sum(after) - sum(before)).max(0.0) * 1e9) as u64;
    Some(Buckets { name: name.to_owned(), bounds_ns, counts, sum_ns })
}

/// Reads lines like `name_bucket{le="0.001"} 12`: bounds in seconds, rising, the last one `None` (+Inf).
fn cumulative(name: &str, metrics: &str) -> Vec<(Option<f64>, u64)> {
    let mark = format!("{name}_bucket{{le=\"");
    let bucket = |line: &str| {
        let (bound, count) = line.strip_prefix(&mark)?.split_once("\"} ")?;
        Some((bound.parse::<f64>().ok().filter(|bound| bound.is_finite()), count.trim().parse::<f64>().ok()? as u64))
    };
    metrics.lines().filter_map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# TYPE x histogram\nx_bucket{le=\"0.001\"} 5\nx_bucket{le=\"0.002\"} 9\n\
                          x_bucket{le=\"+Inf\"} 10\nx_sum 0.01\nx_count 10\n";
    const AFTER: &str =
        "x_bucket{le=\"0.001\"} 15\nx_bucket{le=\"0.002\"} 119\nx_bucket{le=\"+Inf\"} 123\nx_sum 0.31\n";

    #[test]
    fn buckets_are_the_change_between_two_readings() {
        let buckets = buckets_since("x", BEFORE, AFTER).unwrap();
        assert_eq!((buckets.bounds_ns, buckets.counts), (vec![1_000_000, 2_000_000], vec![10, 100, 3]));
        assert_eq!(buckets.sum_ns / 1_000_000, 300);
        assert_eq!(buckets_since("y", BEFORE, AFTER), None);
    }

    #[test]
    fn figures_of_etcdctl_are_read_with_its_verdicts() {
        let output = " 60 / 60 Boooom! 100.00% 1m0s\nPASS: Throughput is 150 writes/s\n\
                    FAIL: Slowest request took too long: 0.612345s\nPASS: Stddev is 0.024545s\nFAIL\n";
        let figures = verdict(output);
        let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
        assert_eq!((value("writes_per_second"), value("throughput_passed")), (Some(150.0), Some(1.0)));
        assert_eq!((value("slowest").map(f64::round), value("slowest_passed")), (Some(612_345_000.0), Some(0.0)));
        assert_eq!(value("stddev_passed"), Some(1.0));
        let low = verdict("FAIL: Throughput too low: 121 writes/s\n");
        assert_eq!((low[0].value, low[1].value), (121.0, 0.0));
        assert!(verdict("Error: context deadline exceeded").is_empty());
    }

    #[test]
    fn slow_requests_and_leader_changes_are_counted() {
        let log = "{\"msg\":\"apply request took too long\"}\n{\"msg\":\"slow fdatasync\"}\n{\"msg\":\"all well\"}\n";
        let metrics = |n: u32| format!("etcd_server_leader_changes_seen_total {n}\n");
        let app = app_step(&metrics(1), &metrics(3), log);
        let counts = ["slow_requests", "slow_syncs", "leader_changes"].map(|name| app.counter(name).unwrap());
        assert_eq!(counts, [1.0, 1.0, 2.0]);
    }

    #[test]
    fn the_last_message_of_a_json_log_is_found() {
        let log =
            "{\"level\":\"info\",\"msg\":\"one\"}\n{\"msg\":\"failed to sync\",\"error\":\"no space left\"}\npanic\n";
        assert_eq!(last_message(log), "failed to sync no space left");
    }
}
