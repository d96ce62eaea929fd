//! What an NVMe controller reports about itself: attributes in sysfs, and as root its Identify and SMART / Health data.
//!
//! Two admin commands are issued, both read-only: Identify Controller and Get Log Page 02h. Where the controller
//! cannot be opened, or refuses, the fields stay empty. Layouts are those of the NVM Express Base
//! Specification 2.0, figures 275 (Identify Controller) and 207 (SMART / Health Information).

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use qd1_model::environment::{Nvme, NvmeHealth};
use qd1_model::units::Bytes;

use crate::block::Block;
use crate::{Machine, names_in, text_of};

/// Bytes of Identify Controller.
const IDENTIFY_BYTES: usize = 4096;
/// Bytes of SMART / Health.
const HEALTH_BYTES: usize = 512;
/// Smallest memory page of a controller, bytes: the unit of its transfer size. No controllers with larger ones are
/// known.
const PAGE_BYTES: u64 = 4096;
/// A SMART data unit: 1,000 times 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

impl Machine {
    /// Reads the controller of the namespace `block`; nothing for other devices.
    pub(crate) fn nvme(&self, block: &Block) -> Option<Nvme> {
        let dir = controller(block)?;
        let attr = |name: &str| text_of(&dir.join(name));
        let name = dir.file_name()?.to_string_lossy().into_owned();
        let mut nvme = Nvme {
            model: attr("model"),
            serial: attr("serial"),
            firmware: attr("firmware_rev"),
            vendor_id: hexadecimal(&attr("device/vendor")),
            transport: attr("transport"),
            numa_node: attr("numa_node").parse().ok(),
            queues: attr("queue_count").parse().ok(),
            queue_entries: attr("sqsize").parse::<u32>().ok().map(|last| last.saturating_add(1)),
            // The kernel reports it for the namespace: a flush is sent only where there is a cache to empty.
            volatile_write_cache: match block.attr("queue/write_cache").as_str() {
                "write back" => Some(true),
                "write through" => Some(false),
                _ => None,
            },
            controller: name,
            ..Nvme::default()
        };
        if self.is_live() {
            ask(&Path::new("/dev").join(&nvme.controller), &mut nvme);
        }
        Some(nvme)
    }
}

/// The controller's directory: the device of a namespace, or the first controller of its subsystem where it has several
/// paths.
pub(crate) fn controller(block: &Block) -> Option<PathBuf> {
    let device = block.dir.join("device").canonicalize().ok()?;
    let is_controller = |name: &str| {
        let number = name.strip_prefix("nvme").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let name = device.file_name()?.to_str()?;
    if is_controller(name) {
        return Some(device);
    }
    if !block.name.starts_with("nvme") {
        return None;
    }
    let path = names_in(&device).into_iter().find(|name| is_controller(name))?;
    device.join(path).canonicalize().ok()
}

fn hexadecimal(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Asks the controller itself, as far as this user is allowed to.
fn ask(path: &Path, nvme: &mut Nvme) {
    let Ok(file) = File::open(path) else { return };
    let mut data = [0; IDENTIFY_BYTES];
    if admin(&file, Command::IDENTIFY_CONTROLLER, &mut data) {
        identified(&data, nvme);
    }
    let mut data = [0; HEALTH_BYTES];
    if admin(&file, Command::HEALTH, &mut data) {
        nvme.health = Some(health(&data));
    }
}

/// An admin command that reads.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    opcode: u8,
    namespace: u32,
    /// Command dword 10.
    dword10: u32,
    /// 0: the kernel's own limit.
    timeout_ms: u32,
}

impl Command {
    /// Identify (06h) with the structure "controller" (CNS 01h).
    const IDENTIFY_CONTROLLER: Self = Self { opcode: 0x06, namespace: 0, dword10: 0x01, timeout_ms: TIMEOUT_MS };
    /// Page 02h of the whole controller.
    const HEALTH: Self = Self { timeout_ms: TIMEOUT_MS, ..Self::log_page(0x02, HEALTH_BYTES, u32::MAX) };

    /// Get Log Page (02h), with the page's length in dwords less one in the upper half. The kernel's own limit applies:
    /// at the end of a shorter one it would reset a controller that is only slow.
    pub(crate) const fn log_page(page: u8, bytes: usize, namespace: u32) -> Self {
        let dword10 = page as u32 | ((bytes as u32 / 4 - 1) << 16);
        Self { opcode: 0x02, namespace, dword10, timeout_ms: 0 }
    }
}

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct Passthrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dword2: u32,
    dword3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    dwords10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// The size is part of the ioctl number.
const _: () = assert!(size_of::<Passthrough>() == 72);

/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const ADMIN: libc::c_ulong = 0xC000_0000 | (size_of::<Passthrough>() as libc::c_ulong) << 16 | 0x4E41;
/// A controller that does not answer within this is left alone.
const TIMEOUT_MS: u32 = 1000;

/// Fills `data` with the controller's answer; false where access is denied or it refuses.
pub(crate) fn admin(file: &File, command: Command, data: &mut [u8]) -> bool {
    let mut passthrough = Passthrough {
        opcode: command.opcode,
        namespace: command.namespace,
        address: data.as_mut_ptr() as u64,
        data_bytes: data.len() as u32,
        dwords10_to_15: [command.dword10, 0, 0, 0, 0, 0],
        timeout_ms: command.timeout_ms,
        ..Passthrough::default()
    };
    // SAFETY: the structure is that of the kernel's header, and its address and length are those of `data`, which
    // outlives the call; the command's direction is from the controller, so that the kernel writes at most `data_bytes`
    // there.
    let outcome = unsafe { libc::ioctl(file.as_raw_fd(), ADMIN as _, &raw mut passthrough) };
    // Above 0 it is the controller's own status.
    outcome == 0
}

/// Fills in what Identify Controller reports and sysfs does not, or not as well.
fn identified(data: &[u8; IDENTIFY_BYTES], nvme: &mut Nvme) {
    let text = |range: std::ops::Range<usize>| {
        let text = String::from_utf8_lossy(&data[range]);
        text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
    };
    nvme.vendor_id = Some(u16::from_le_bytes([data[0], data[1]]));
    for (field, range) in [(&mut nvme.serial, 4..24), (&mut nvme.model, 24..64), (&mut nvme.firmware, 64..72)] {
        if field.is_empty() {
            *field = text(range);
        }
    }
    // 0 means no limit.
    nvme.transfer_max = match data[77] {
        0 => None,
        power => 1u64.checked_shl(u32::from(power)).and_then(|pages| pages.checked_mul(PAGE_BYTES)).map(Bytes),
    };
    let version = u32::from_le_bytes([data[80], data[81], data[82], data[83]]);
    if version > 0 {
        nvme.version = format!("{}.{}.{}", version >> 16, version >> 8 & 0xFF, version & 0xFF);
    }
    nvme.volatile_write_cache = Some(data[525] & 1 == 1);
}

fn health(data: &[u8; HEALTH_BYTES]) -> NvmeHealth {
    // Counters have 128 bits; those of real devices fit into 64.
    let counter = |at: usize| {
        let bytes: [u8; 16] = data[at..at + 16].try_into().expect("sixteen bytes");
        u64::try_from(u128::from_le_bytes(bytes)).unwrap_or(u64::MAX)
    };
    NvmeHealth {
        critical_warning: data[0],
        temperature_k: u16::from_le_bytes([data[1], data[2]]),
        available_spare_percent: data[3],
        spare_threshold_percent: data[4],
        used_percent: data[5],
        read_bytes: counter(32).saturating_mul(DATA_UNIT_BYTES),
        written_bytes: counter(48).saturating_mul(DATA_UNIT_BYTES),
        power_on_hours: counter(128),
        unsafe_shutdowns: counter(144),
        media_errors: counter(160),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_ioctl_has_the_number_of_the_kernels_header() {
        assert_eq!((size_of::<Passthrough>(), ADMIN), (72, 0xC048_4E41));
        assert_eq!(Command::HEALTH.dword10, 0x007F_0002);
        assert_eq!(Command::log_page(0xD0, 4096, 1).dword10, 0x03FF_00D0);
    }

    #[test]
    fn identify_controller_is_read_by_the_specs_offsets() {
        let mut data = [0u8; IDENTIFY_BYTES];
        data[0..2].copy_from_slice(&0x144Du16.to_le_bytes());
        data[4..24].copy_from_slice(b"S4EVNF0M123456      ");
        data[24..64].copy_from_slice(b"Samsung SSD 970 EVO Plus 500GB          ");
        data[64..72].copy_from_slice(b"2B2QEXM7");
        data[77] = 9;
        data[80..84].copy_from_slice(&0x0001_0300u32.to_le_bytes());
        data[525] = 0b111;
        let mut nvme = Nvme { serial: "known".to_owned(), ..Nvme::default() };
        identified(&data, &mut nvme);
        assert_eq!((nvme.model.as_str(), nvme.firmware.as_str()), ("Samsung SSD 970 EVO Plus 500GB", "2B2QEXM7"));
        assert_eq!((nvme.serial.as_str(), nvme.vendor_id), ("known", Some(0x144D)));
        assert_eq!((nvme.version.as_str(), nvme.volatile_write_cache), ("1.3.0", Some(true)));
        assert_eq!(nvme.transfer_max, Some(Bytes(2 << 20)));
        identified(&[0; IDENTIFY_BYTES], &mut nvme);
        assert_eq!((nvme.transfer_max, nvme.volatile_write_cache), (None, Some(false)));
    }

    #[test]
    fn health_is_read_by_the_offsets_of_the_specification() {
        let mut data = [0u8; HEALTH_BYTES];
        (data[0], data[3], data[4], data[5]) = (0, 100, 10, 3);
        data[1..3].copy_from_slice(&311u16.to_le_bytes());
        data[32..48].copy_from_slice(&2_000_000u128.to_le_bytes());
        data[48..64].copy_from_slice(&u128::MAX.to_le_bytes());
        data[128..144].copy_from_slice(&8760u128.to_le_bytes());
        data[144..160].copy_from_slice(&7u128.to_le_bytes());
        let health = health(&data);
        assert_eq!((health.temperature_k, health.used_percent, health.available_spare_percent), (311, 3, 100));
        assert_eq!((health.read_bytes, health.power_on_hours, health.unsafe_shutdowns), (1_024_000_000_000, 8760, 7));
        assert_eq!(
            (health.written_bytes, health.media_errors),
            (u64::MAX, 0),
            "more than 64 bits is as much as there is"
        );
    }

    #[test]
    fn sysfs_tells_of_the_controller_and_a_partition_has_its_disks() {
        let machine = fixture::laptop()
            .file("/sys/devices/pci0000:00/nvme0/serial", "S5GXNX0T\n")
            .file("/sys/devices/pci0000:00/nvme0/transport", "pcie\n")
            .file("/sys/devices/pci0000:00/nvme0/numa_node", "-1\n")
            .file("/sys/devices/pci0000:00/nvme0/queue_count", "9\n")
            .file("/sys/devices/pci0000:00/nvme0/sqsize", "1023\n")
            .machine();
        let nvme = machine.nvme(&machine.block_named("nvme0n1").unwrap()).unwrap();
        assert_eq!((nvme.controller.as_str(), nvme.model.as_str()), ("nvme0", "Samsung SSD 980 PRO 1TB"));
        assert_eq!((nvme.serial.as_str(), nvme.numa_node), ("S5GXNX0T", Some(-1)));
        assert_eq!((nvme.queues, nvme.queue_entries), (Some(9), Some(1024)));
        assert_eq!(nvme.health, None, "a machine in a directory is not asked");
        assert_eq!(machine.nvme(&machine.block_named("dm-0").unwrap()), None);
    }

    #[test]
    fn a_device_that_is_no_controller_is_left_alone() {
        let mut nvme = Nvme::default();
        ask(Path::new("/dev/null"), &mut nvme);
        ask(Path::new("/dev/none"), &mut nvme);
        assert_eq!(nvme, Nvme::default());
    }
}
