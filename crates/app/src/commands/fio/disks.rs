//! Counters of the disks below the jobs' files over a run: fio's "Disk stats".

use std::path::Path;

use qd1_clock as clock;
use qd1_fio::FioJob;
use qd1_fio::engines::EngineName;
use qd1_fio::output::{DiskCounts, DiskUtil};
use qd1_model::environment::{Device, DeviceCounters};
use qd1_probe::Machine;

/// The disks of a run, and their counters at its start.
pub(crate) struct Disks<'a> {
    machine: &'a Machine,
    disks: Vec<Disk>,
    start_ns: u64,
}

struct Disk {
    name: String,
    before: DeviceCounters,
    /// The disks that an md or dm device is made of, with their counters at the start.
    members: Vec<(String, DeviceCounters)>,
}

impl<'a> Disks<'a> {
    /// Finds the disks below all files of all jobs, and reads their counters.
    pub(crate) fn begin(machine: &'a Machine, jobs: &[FioJob]) -> Self {
        let mut disks: Vec<Disk> = Vec::new();
        for job in jobs.iter().filter(|job| job.disk_util && job.ioengine != EngineName::Null) {
            for name in job.file_names(0).take(64) {
                let chain = chain(machine, Path::new(&name));
                let Some(top) = chain.iter().find(|device| device.kind != "partition") else { continue };
                if disks.iter().any(|known| known.name == top.name) {
                    continue;
                }
                let Some(before) = machine.device_counters(&top.name) else { continue };
                let stacked = matches!(top.kind.as_str(), "dm" | "md");
                let below = chain.iter().filter(|device| stacked && device.kind == "disk");
                let members = below
                    .filter_map(|device| Some((device.name.clone(), machine.device_counters(&device.name)?)))
                    .collect();
                disks.push(Disk { name: top.name.clone(), before, members });
            }
        }
        Self { machine, disks, start_ns: clock::now_ns() }
    }

    /// Returns the change of the counters since the start.
    pub(crate) fn end(&self) -> Vec<DiskUtil> {
        let spent_ms = (clock::now_ns() - self.start_ns) / 1_000_000;
        let mut all = Vec::new();
        for disk in &self.disks {
            let change = |name: &str, before: &DeviceCounters| {
                self.machine.device_counters(name).map(|now| counts(&now.since(before), spent_ms))
            };
            let members: Vec<DiskUtil> = disk
                .members
                .iter()
                .filter_map(|(name, before)| {
                    Some(DiskUtil { name: name.clone(), counts: change(name, before)?, aggregate: None })
                })
                .collect();
            let Some(counts) = change(&disk.name, &disk.before) else { continue };
            let aggregate = mean(members.iter().map(|member| member.counts));
            all.push(DiskUtil { name: disk.name.clone(), counts, aggregate });
            all.extend(members);
        }
        all
    }
}

/// Returns the devices below a file, or below the directory where it will be.
fn chain(machine: &Machine, path: &Path) -> Vec<Device> {
    if path.starts_with("/dev") && path.exists() {
        return machine.devices_of_block(path);
    }
    let place = qd1_system::trust::existing_part(path);
    let place = std::fs::canonicalize(&place).unwrap_or(place);
    machine.filesystem(&place).map(|filesystem| machine.devices(&filesystem, &place)).unwrap_or_default()
}

fn counts(change: &DeviceCounters, spent_ms: u64) -> DiskCounts {
    DiskCounts {
        ios: [change.reads, change.writes],
        sectors: Some([change.read_bytes / 512, change.write_bytes / 512]),
        merges: [change.read_merges, change.write_merges],
        ticks: [change.read_ticks_ms, change.write_ticks_ms],
        in_queue: change.queue_ms,
        util_percent: (100.0 * change.busy_ms as f64 / spent_ms.max(1) as f64).min(100.0),
    }
}

/// Returns the mean over several disks; `None` without any.
fn mean(all: impl Iterator<Item = DiskCounts>) -> Option<DiskCounts> {
    let all: Vec<DiskCounts> = all.collect();
    let n = all.len() as u64;
    let pair = |pick: fn(&DiskCounts) -> [u64; 2]| {
        [0, 1].map(|side| all.iter().map(|counts| pick(counts)[side]).sum::<u64>() / n.max(1))
    };
    (n > 0).then(|| DiskCounts {
        ios: pair(|counts| counts.ios),
        sectors: Some(pair(|counts| counts.sectors.unwrap_or_default())),
        merges: pair(|counts| counts.merges),
        ticks: pair(|counts| counts.ticks),
        in_queue: all.iter().map(|counts| counts.in_queue).sum::<u64>() / n,
        util_percent: all.iter().map(|counts| counts.util_percent).sum::<f64>() / n as f64,
    })
}
