//! `cargo xtask truth --predict`: what `qd1 predict` says about nine disks, and what the databases then did on them.
//!
//! Four are simulated, with commits from 0.2 to 40 ms; two are a loop device in memory that the kernel throttles; three
//! are filesystems on a loop device on this machine's disk. The constants of the models were tuned on these disks, so
//! with a COUNT others are measured instead: simulated ones drawn at random. The runs are kept in the history: `--kept`
//! compares newer models with them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use qd1_lab::{Mounted, Simulated, Throttle, as_root, cmd, interrupted, open_up, quiet_dir, temp_dir};
use serde_json::Value;

use super::AHEAD;
use super::programs;

/// Size of each disk.
pub(crate) const DISK_BYTES: u64 = 4 << 30;
/// pgbench's scale: half as many rows as the most clients, so that locks matter as well.
const SCALE: &str = "50";
/// The first seed of the randomly drawn disks, none of which was used to tune a model.
const UNSEEN: u64 = 3000;
/// The targets: the median error and the worst.
const TARGETS: (f64, f64) = (0.15, 0.35);

/// A disk.
struct Disk {
    name: &'static str,
    kind: Kind,
}

enum Kind {
    /// A simulated one: median flush time, us.
    Simulated(u32),
    /// ext4 on a loop device, throttled by one of the kernel's settings.
    Throttled(&'static str, u64),
    /// A filesystem on a loop device.
    Filesystem(&'static str),
}

const DISKS: [Disk; 9] = [
    Disk { name: "simdisk 0.2 ms", kind: Kind::Simulated(200) },
    Disk { name: "simdisk 1 ms", kind: Kind::Simulated(1000) },
    Disk { name: "simdisk 5 ms", kind: Kind::Simulated(5000) },
    Disk { name: "simdisk 40 ms", kind: Kind::Simulated(40_000) },
    Disk { name: "throttled 500 IOPS", kind: Kind::Throttled("write_iops", 500) },
    Disk { name: "throttled 20 MB/s", kind: Kind::Throttled("write_bps", 20_000_000) },
    Disk { name: "ext4", kind: Kind::Filesystem("ext4") },
    Disk { name: "xfs", kind: Kind::Filesystem("xfs") },
    Disk { name: "btrfs", kind: Kind::Filesystem("btrfs") },
];

/// Measures the nine disks, or a number of randomly drawn ones, and prints the table.
pub(crate) fn run(only: Option<&str>, drawn: Option<u64>, verify: &str) -> Result<()> {
    as_root("a loop device and a mount")?;
    let dir = super::binaries(&["qd1", "qd1-simdisk"])?;
    if only == Some("work") {
        return work(&dir.join("qd1"));
    }
    let mut table = Table::new();
    for seed in UNSEEN..UNSEEN + drawn.unwrap_or(0) {
        interrupted()?;
        let name = format!("disk {seed}");
        let report = simulated(&dir, &programs::scenario(seed), verify).with_context(|| name.clone())?;
        table.add(&name, &report)?;
    }
    if drawn.is_some() {
        return table.end();
    }
    for disk in DISKS.iter().filter(|disk| only.is_none_or(|only| disk.name.contains(only))) {
        interrupted()?;
        let report = measure(&dir, disk, verify).with_context(|| disk.name)?;
        table.add(disk.name, &report)?;
    }
    table.end()
}

/// Prints the table of kept runs, each `DISK=RUN`, with the current models.
pub(crate) fn again(kept: &[String]) -> Result<()> {
    let qd1 = super::binaries(&["qd1"])?.join("qd1");
    let mut table = Table::new();
    for one in kept {
        let (disk, run) = one.split_once('=').with_context(|| format!("{one} is not of the form DISK=RUN"))?;
        table
            .add(disk, &cmd::json(Command::new(&qd1).args(["predict", "--from", run, "--scale", SCALE, "--json"]))?)?;
    }
    table.end()
}

/// The table as it is printed, and its summary at the end.
struct Table {
    errors: Vec<f64>,
    at_first: Vec<f64>,
    held: usize,
}

impl Table {
    fn new() -> Self {
        println!(
            "  {:<20}{:<34}{:>10}{:>10}{:>9}  {:<20}at first",
            "disk", "", "predicted", "measured", "error", "95 % interval"
        );
        Self { errors: Vec::new(), at_first: Vec::new(), held: 0 }
    }

    fn add(&mut self, disk: &str, report: &Value) -> Result<()> {
        println!("  {disk:<20}run {}", report["record"]["id"].as_str().unwrap_or_default());
        for row in report["prediction"]["rows"].as_array().context("the result contains no predictions")? {
            let Some(error) = show(disk, row) else { continue };
            self.errors.push(error.abs());
            self.at_first.extend(row["verified"]["error_at_first"].as_f64().map(f64::abs));
            self.held += usize::from(row["verified"]["holds"] == true);
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        let (median, worst) = median_and_worst(&mut self.errors).context("nothing was verified")?;
        println!(
            "  {} figures: median error {:.1} %, worst {:.1} %; {} intervals hold",
            self.errors.len(),
            median * 100.0,
            worst * 100.0,
            self.held
        );
        if let Some((median, worst)) = median_and_worst(&mut self.at_first) {
            println!(
                "  from the first commits alone, minutes before: median error {:.1} %, worst {:.1} %",
                median * 100.0,
                worst * 100.0
            );
        }
        ensure!(median <= TARGETS.0 && worst <= TARGETS.1, "the targets of 15 % and 35 % were missed");
        Ok(())
    }
}

fn median_and_worst(errors: &mut [f64]) -> Option<(f64, f64)> {
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().zip(errors.last().copied())
}

/// What the programs need in memory, where commits cost nothing: the constants of the models, with their names there.
fn work(qd1: &Path) -> Result<()> {
    let place = quiet_dir()?;
    open_up(place.path())?;
    let run = |args: &[&str]| -> Result<Value> {
        let mut command = Command::new(qd1);
        command.arg("app").arg(args[0]).arg(place.path()).args(&args[1..]).args(["--json", "--no-save", "--quiet"]);
        cmd::json(&mut command)
    };
    let rate = |report: &Value, step: &str| -> Result<f64> {
        let steps = report["summary"]["steps"].as_array().context("the result contains no steps")?;
        let step = steps
            .iter()
            .find(|found| found["name"] == step)
            .with_context(|| format!("no step {step} in the result"))?;
        step["streams"][0]["iops"]["value"].as_f64().context("the rate is not known")
    };
    let server = |name: &str, settings: &[&str]| {
        run(&[&[name, "--clients", "1,10,100", "--scale", SCALE, "--runtime", "10s"], settings].concat())
    };
    let postgres = server("postgres", &["--prewarm", "-c", "shared_buffers=1064MB", "-c", "fsync=off"])?;
    let environment = &postgres["record"]["environment"];
    let cpus = environment["cpus"].as_f64().context("the number of processors is not known")?;
    println!("SORT_NS {:.0}", environment["sort_ns"].as_f64().unwrap_or(f64::NAN));
    let constants = |server: &str, report: &Value| -> Result<()> {
        let mut tps = [0.0; 3];
        for (tps, name) in tps.iter_mut().zip(["1 client", "10 clients", "100 clients"]) {
            *tps = rate(report, name)?;
            let load = report["app"]["loads"].as_array().into_iter().flatten().find(|load| load["step"] == name);
            let facts = load.map(|load| load["facts"].to_string()).unwrap_or_default();
            println!("{server}, {name}: {tps:.0} transactions/s; {facts}");
        }
        let work_ns = cpus * 1e9 / tps[1].max(tps[2]);
        println!("{server}.work_ns {work_ns:.0}, {server}.idle_ns {:.0}", 1e9 / tps[0] - work_ns);
        Ok(())
    };
    constants("POSTGRES", &postgres)?;
    // Commits that are written but not waited for.
    let lazy = ["-c", "innodb_buffer_pool_size=512M", "-c", "innodb_flush_log_at_trx_commit=0"];
    let mysql = server("mysql", &lazy)?;
    constants("MYSQL", &mysql)?;
    let etcd = run(&["etcd", "--rate", "50,30000", "--runtime", "5s"])?;
    let steps = etcd["summary"]["steps"].as_array().context("the result contains no steps")?;
    let alone_ns =
        steps[0]["streams"][0]["lat_p50_ns"]["value"].as_f64().context("the latency of a put is not known")?;
    let put_ns = cpus * 1e9 / rate(&etcd, "30000 puts/s")?;
    println!("ETCD_NS {put_ns:.0}, ETCD_IDLE_NS {:.0}", alone_ns - put_ns);
    let sqlite = run(&["sqlite", "--runtime", "5s", "--cache", "64MiB"])?;
    for (name, mode) in [("SQLITE_NS (with checkpoints)", "wal-full"), ("SQLITE_ROLLBACK_NS", "delete-full")] {
        println!("{name} {:.0}", 1e9 / rate(&sqlite, mode)?);
    }
    Ok(())
}

/// Prints a row and returns its error.
fn show(disk: &str, row: &Value) -> Option<f64> {
    let verified = &row["verified"];
    let error = verified["error"].as_f64()?;
    let figure = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
    let what = format!("{} {}", row["what"].as_str().unwrap_or_default(), row["clients"]);
    let sign = match verified["exactness"].as_str() {
        Some("at_least") => ">",
        Some("below") => "<",
        _ => "",
    };
    let interval = format!(
        "{} to {}{}",
        figure(&row["value"]["low"]),
        figure(&row["value"]["high"]),
        if verified["holds"] == true { "" } else { "  MISSED" }
    );
    let at_first = verified["error_at_first"].as_f64().map(|error| format!("{:+.1} %", error * 100.0));
    println!(
        "  {disk:<20}{what:<34}{:>10}{:>10}{:>+7.1} %  {interval:<20}{}",
        figure(&row["value"]["value"]),
        format!("{sign}{}", figure(&verified["value"]["value"])),
        error * 100.0,
        at_first.unwrap_or_default()
    );
    Some(error)
}

fn measure(binaries: &Path, disk: &Disk, verify: &str) -> Result<Value> {
    let qd1 = binaries.join("qd1");
    match disk.kind {
        Kind::Simulated(flush_us) => simulated(binaries, &commits_of(flush_us), verify),
        Kind::Throttled(kernel, value) => {
            let disk = Mounted::filled("ext4", quiet_dir()?, DISK_BYTES)?;
            let group = Throttle::new("predict", &disk.disk, &[(kernel, value)])?;
            predict(group.command(&AHEAD, &qd1), disk.path(), verify)
        }
        Kind::Filesystem(name) => {
            let disk = Mounted::filled(name, temp_dir()?, DISK_BYTES)?;
            predict(Command::new(qd1), disk.path(), verify)
        }
    }
}

fn simulated(binaries: &Path, scenario: &str, verify: &str) -> Result<Value> {
    let simulated = Simulated::mount(binaries, scenario)?;
    predict(Command::new(binaries.join("qd1")), &simulated.dir, verify)
}

/// A disk whose flushes take this long.
pub(super) fn commits_of(flush_us: u32) -> String {
    let law = |median_us: u32| format!("{{ modes = [{{ median_us = {median_us}, sigma = 0.3 }}] }}");
    format!(
        "about = \"commits of {flush_us} us\"\nsize_mib = {}\n[device]\nseed = 11\nchannels = 8\nread = {}\n\
         write = {}\nflush = {}\n[expect]\ncheck = \"\"\nfindings = [\"not_a_disk\"]\n",
        DISK_BYTES >> 20,
        law(80),
        law(30),
        law(flush_us)
    )
}

fn predict(mut command: Command, dir: &Path, verify: &str) -> Result<Value> {
    command.arg("predict").arg(dir).arg(format!("--verify={verify}")).args(["--scale", SCALE, "--json", "--quiet"]);
    cmd::json(&mut command)
}
