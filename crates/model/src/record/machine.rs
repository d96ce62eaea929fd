//! What the machine and the device did during a step, part by part.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::packed::{Columns, Item, put, put_difference, take_difference};
use crate::environment::{DeviceCounters, Writeback};

/// One part of a step: a quarter of a second to a second, or the rest at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineInterval {
    /// Start, ns since the step's measurement began.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
    /// Share of the machine's processor time in use, in millionths.
    pub busy_ppm: u32,
    /// Share stolen by the hypervisor, in millionths.
    pub steal_ppm: u32,
    /// Share of time in which some task waited (PSI `some`), in millionths; absent without PSI.
    pub pressure_ppm: Option<PressurePpm>,
    /// Data in memory that waited to be written, at the end of the interval; absent if it cannot be read.
    pub writeback: Option<Writeback>,
    /// The kernel's counters for the device under the target, for all of its users; absent if there is no block device.
    pub device: Option<DeviceCounters>,
}

/// Share of time some task waited (PSI `some`), in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PressurePpm {
    /// For I/O.
    pub io: u32,
    /// For memory.
    pub memory: u32,
    /// For a processor.
    pub cpu: u32,
}

impl MachineInterval {
    /// Whether `next` begins where it ends. After a gap, another visit of the step begins.
    #[must_use]
    pub fn goes_on(&self, next: &Self) -> bool {
        self.end_ns() >= next.start_ns
    }

    /// Its end, ns since the step's measurement began.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }
}

const PRESSURE: u64 = 1;
const WRITEBACK: u64 = 2;
const DEVICE: u64 = 4;

/// Start, as the difference to the end of the one before; length; busy; stolen; what is known (1 for pressure, 2 for
/// writeback, 4 for the device); the three pressures; the two amounts, each as the difference to the one before; the
/// device's counters in their order.
impl Item for MachineInterval {
    /// Two weeks of half a second.
    const MOST: usize = 2_500_000;
    const COLUMNS: usize = 24;

    fn put(&self, before: Option<&Self>, out: &mut [Vec<u8>]) {
        put_difference(&mut out[0], before.map_or(0, Self::end_ns), self.start_ns);
        put(&mut out[1], self.length_ns);
        put(&mut out[2], self.busy_ppm.into());
        put(&mut out[3], self.steal_ppm.into());
        let known = |is_known: bool, bit: u64| if is_known { bit } else { 0 };
        let flags = known(self.pressure_ppm.is_some(), PRESSURE)
            | known(self.writeback.is_some(), WRITEBACK)
            | known(self.device.is_some(), DEVICE);
        put(&mut out[4], flags);
        if let Some(PressurePpm { io, memory, cpu }) = self.pressure_ppm {
            put(&mut out[5], io.into());
            put(&mut out[6], memory.into());
            put(&mut out[7], cpu.into());
        }
        if let Some(now) = self.writeback {
            let before = before.and_then(|before| before.writeback).unwrap_or_default();
            put_difference(&mut out[8], before.dirty_bytes, now.dirty_bytes);
            put_difference(&mut out[9], before.writeback_bytes, now.writeback_bytes);
        }
        if let Some(device) = &self.device {
            device.numbers().into_iter().enumerate().for_each(|(column, number)| put(&mut out[10 + column], number));
        }
    }

    fn take(before: Option<&Self>, columns: &mut Columns<'_>) -> Option<Self> {
        let start_ns = take_difference(columns.of(0), before.map_or(0, Self::end_ns))?;
        let length_ns = columns.of(1).number()?;
        let mut narrow = |column: usize| columns.of(column).narrow::<u32>();
        let (busy_ppm, steal_ppm, flags) = (narrow(2)?, narrow(3)?, u64::from(narrow(4)?));
        let pressure_ppm = if flags & PRESSURE == 0 {
            None
        } else {
            Some(PressurePpm { io: narrow(5)?, memory: narrow(6)?, cpu: narrow(7)? })
        };
        let writeback = if flags & WRITEBACK == 0 {
            None
        } else {
            let before = before.and_then(|before| before.writeback).unwrap_or_default();
            Some(Writeback {
                dirty_bytes: take_difference(columns.of(8), before.dirty_bytes)?,
                writeback_bytes: take_difference(columns.of(9), before.writeback_bytes)?,
            })
        };
        let device = if flags & DEVICE == 0 {
            None
        } else {
            let mut numbers = [0; 14];
            for (column, number) in numbers.iter_mut().enumerate() {
                *number = columns.of(10 + column).number()?;
            }
            Some(DeviceCounters::from_numbers(numbers))
        };
        Some(Self { start_ns, length_ns, busy_ppm, steal_ppm, pressure_ppm, writeback, device })
    }
}
