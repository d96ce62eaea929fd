//! The kernel's counters around a step: the disk's requests, the machine's processor time and pressure.

use qd1_engine::clock;
use qd1_engine::run::RequestCounts;
use qd1_model::environment::{Device, DeviceCounters, MachineCounters, Pressure};
use qd1_model::record::DeviceDelta;
use qd1_model::units::Bytes;
use qd1_probe::Machine;

/// Reads counters of one device and of the machine.
pub struct Counters<'a> {
    machine: &'a Machine,
    device: Option<String>,
}

/// All counters at one moment.
pub struct Moment {
    at_ns: u64,
    device: Option<DeviceCounters>,
    machine: MachineCounters,
}

/// Their change over a step.
pub struct Change {
    /// Requests of the device beside those made of it; `None` when there is no block device.
    pub device: Option<DeviceDelta>,
    /// Share of processor time stolen by the hypervisor, 0..1.
    pub steal: f64,
    /// Share of processor time in use, 0..1.
    pub busy: f64,
    /// Share of time some task waited (PSI), 0..1; `None` without PSI.
    pub pressure: Option<Pressure>,
}

impl<'a> Counters<'a> {
    /// Selects the counters of the disk at the bottom of `devices`, and of the machine.
    pub fn new(machine: &'a Machine, devices: &[Device]) -> Self {
        Self { machine, device: counted_device(devices).map(|device| device.name.clone()) }
    }

    /// Reads all counters now.
    pub fn now(&self) -> Moment {
        Moment {
            at_ns: clock::now_ns(),
            device: self.device.as_ref().and_then(|name| self.machine.device_counters(name)),
            machine: self.machine.machine_counters(),
        }
    }

    /// Returns the change from `before` until now, with the requests made.
    pub fn since(&self, before: &Moment, requests: &RequestCounts) -> Change {
        self.now().since(before, requests)
    }
}

impl Moment {
    /// Returns the change since `before`, with the requests made.
    pub fn since(&self, before: &Moment, requests: &RequestCounts) -> Change {
        debug_assert!(before.at_ns <= self.at_ns, "the earlier moment comes first");
        let device = self.device.zip(before.device).map(|(now, before)| DeviceDelta {
            counted: now.since(&before),
            asked_reads: requests.reads,
            asked_read_bytes: Bytes(requests.read_bytes),
            asked_writes: requests.writes,
            asked_write_bytes: Bytes(requests.write_bytes),
            asked_syncs: requests.syncs,
        });
        Change {
            device,
            steal: self.machine.steal_since(&before.machine),
            busy: self.machine.busy_since(&before.machine),
            pressure: self.machine.pressure_since(&before.machine, self.at_ns - before.at_ns),
        }
    }
}

/// Returns the device whose counters are compared with our requests: the disk itself if there is exactly one (the
/// kernel counts flushes only there, not on partitions, dm or md), otherwise the topmost device, which receives our
/// requests.
fn counted_device(devices: &[Device]) -> Option<&Device> {
    let whole = |device: &&Device| matches!(device.kind.as_str(), "disk" | "loop" | "zram" | "ram");
    // The requests below a loop device differ from those above it.
    let first_loop = devices.iter().position(|device| device.kind == "loop");
    let above = &devices[..first_loop.map_or(devices.len(), |at| at + 1)];
    let mut disks = above.iter().filter(whole);
    match (disks.next(), disks.next()) {
        (Some(only), None) => Some(only),
        _ => devices.first(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(kinds: &[(&str, &str)]) -> Vec<Device> {
        kinds
            .iter()
            .map(|(name, kind)| Device { name: (*name).to_owned(), kind: (*kind).to_owned(), ..Device::default() })
            .collect()
    }

    fn counted(kinds: &[(&str, &str)]) -> Option<String> {
        counted_device(&chain(kinds)).map(|device| device.name.clone())
    }

    #[test]
    fn the_one_disk_below_partitions_and_volumes_is_counted() {
        assert_eq!(counted(&[("dm-0", "dm"), ("vda1", "partition"), ("vda", "disk")]).unwrap(), "vda");
        assert_eq!(counted(&[("md0", "md"), ("sda", "disk"), ("sdb", "disk")]).unwrap(), "md0");
        assert_eq!(counted(&[("loop0", "loop"), ("vda", "disk")]).unwrap(), "loop0");
        assert_eq!(counted(&[]), None);
    }
}
