//! The kernel's counters before, during and after a step: the disk's requests, the machine's processor time and
//! pressure.

use crate::Machine;
use qd1_clock as clock;
use qd1_model::environment::{Device, DeviceCounters, MachineCounters, Pressure, Writeback};
use qd1_model::op::RequestCounts;
use qd1_model::plan::Stop;
use qd1_model::record::DeviceDelta;
use qd1_model::record::machine::{MachineInterval, PressurePpm};
use qd1_model::units::Bytes;

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

/// Reads the counters repeatedly while a step is measured.
pub struct Sampler<'a> {
    counters: &'a Counters<'a>,
    before: Moment,
    /// When the next reading is due, by the clock of requests.
    next_ns: u64,
    every_ns: u64,
    /// Later readings, in time order, each with the data waiting to be written at that moment.
    readings: Vec<(Moment, Option<Writeback>)>,
}

/// Their change over a step.
pub struct Change {
    /// The device's request counts next to the requests we made; `None` when there is no block device.
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

    /// Reads all counters now, and from now on whenever [`Sampler::look`] finds it due: once a second in visits of 20 s
    /// and more, more often in short ones.
    pub fn sample(&self, stop: &Stop) -> Sampler<'_> {
        let before = self.now();
        let every_ns = (stop.max_ns / 20).clamp(SAMPLE_NS_MIN, SAMPLE_NS_MAX).max(stop.max_ns / SAMPLES_MAX);
        Sampler { counters: self, next_ns: before.at_ns + every_ns, every_ns, before, readings: Vec::new() }
    }

    /// Returns the change from `before` until now, with the requests made.
    pub fn since(&self, before: &Moment, requests: &RequestCounts) -> Change {
        self.now().since(before, requests)
    }
}

/// Time between two readings of a step, ns.
const SAMPLE_NS_MIN: u64 = 250_000_000;
const SAMPLE_NS_MAX: u64 = 1_000_000_000;
/// How long before the measurement a part may begin: includes the start of the workers, but not the ramp.
const IN_RAMP_NS_MAX: u64 = 50_000_000;
/// Maximum number of readings in a step that ends in time.
const SAMPLES_MAX: u64 = 2000;

impl Sampler<'_> {
    /// Reads the counters if a reading is due.
    pub fn look(&mut self) {
        let now_ns = clock::now_ns();
        if now_ns >= self.next_ns {
            self.readings.push((self.counters.now(), self.counters.machine.writeback()));
            self.next_ns = now_ns + self.every_ns;
        }
    }

    /// Returns the change over the step, with the requests made, and over its parts since measurement began at
    /// `started_ns` by the clock of requests.
    pub fn end(mut self, requests: &RequestCounts, started_ns: u64) -> (Change, Vec<MachineInterval>) {
        self.readings.push((self.counters.now(), self.counters.machine.writeback()));
        let mut parts = Vec::new();
        let mut before = &self.before;
        let shortest_ns = self.every_ns / 4;
        for (now, writeback) in &self.readings {
            let is_measured = before.at_ns + IN_RAMP_NS_MAX >= started_ns;
            if is_measured && now.at_ns - before.at_ns >= shortest_ns {
                parts.push(part(now, before, *writeback, started_ns));
            }
            before = now;
        }
        let (last, _) = self.readings.last().expect("one was just read");
        (last.since(&self.before, requests), parts)
    }
}

fn part(now: &Moment, before: &Moment, writeback: Option<Writeback>, started_ns: u64) -> MachineInterval {
    let change = now.since(before, &RequestCounts::default());
    MachineInterval {
        start_ns: before.at_ns.saturating_sub(started_ns),
        length_ns: now.at_ns - before.at_ns,
        busy_ppm: ppm(change.busy),
        steal_ppm: ppm(change.steal),
        pressure_ppm: change.pressure.map(|pressure| PressurePpm {
            io: ppm(pressure.io),
            memory: ppm(pressure.memory),
            cpu: ppm(pressure.cpu),
        }),
        writeback,
        device: change.device.map(|device| device.counted),
    }
}

fn ppm(share: f64) -> u32 {
    (share * 1e6).round() as u32
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
#[must_use]
pub fn counted_device(devices: &[Device]) -> Option<&Device> {
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

    fn moment(at_ms: u64, device: u64, io_us: u64) -> Moment {
        Moment {
            at_ns: at_ms * 1_000_000,
            device: Some(DeviceCounters { reads: device, ..DeviceCounters::default() }),
            machine: MachineCounters {
                cpu_total_ticks: at_ms,
                cpu_idle_ticks: at_ms / 2,
                cpu_steal_ticks: at_ms / 10,
                pressure_us: Some([io_us, 0, 0]),
            },
        }
    }

    #[test]
    fn the_parts_of_a_step_are_the_changes_between_readings_without_its_ramp() {
        let machine = Machine::new();
        let counters = Counters::new(&machine, &[]);
        let waiting = Writeback { dirty_bytes: 4096, writeback_bytes: 0 };
        let readings = vec![
            (moment(1500, 200, 0), None),
            (moment(2000, 700, 250_000), Some(waiting)),
            (moment(3000, 900, 250_000), None),
        ];
        let (before, next_ns, every_ns) = (moment(1000, 100, 0), u64::MAX, 1_000_000_000);
        let sampler = Sampler { counters: &counters, before, next_ns, every_ns, readings };
        // 20 ms of the second part are the workers' start.
        let (_, parts) = sampler.end(&RequestCounts::default(), 1_520_000_000);
        assert_eq!((parts[0].start_ns, parts[0].length_ns), (0, 500_000_000));
        assert_eq!((parts[0].busy_ppm, parts[0].steal_ppm), (400_000, 100_000));
        assert_eq!(parts[0].pressure_ppm.unwrap().io, 500_000);
        assert_eq!((parts[0].device.unwrap().reads, parts[0].writeback), (500, Some(waiting)));
        assert_eq!((parts[1].start_ns, parts[1].device.unwrap().reads), (480_000_000, 200));
    }

    #[test]
    fn the_one_disk_below_partitions_and_volumes_is_counted() {
        assert_eq!(counted(&[("dm-0", "dm"), ("vda1", "partition"), ("vda", "disk")]).unwrap(), "vda");
        assert_eq!(counted(&[("md0", "md"), ("sda", "disk"), ("sdb", "disk")]).unwrap(), "md0");
        assert_eq!(counted(&[("loop0", "loop"), ("vda", "disk")]).unwrap(), "loop0");
        assert_eq!(counted(&[]), None);
    }
}
