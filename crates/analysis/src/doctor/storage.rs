//! What lies between the filesystem and the disk, and how full and healthy it is: partitions, RAID, encryption, trims,
//! swap, limits, overlays.

use qd1_model::Severity;
use qd1_model::doctor::Fix;
use qd1_model::environment::{Device, FilesystemClass};
use qd1_model::setting::{Inventory, Place, SettingKind};
use qd1_model::shell_quoted;
use qd1_model::units::Bytes;

use super::{Found, Rule, fix, path_of};
use crate::version::version_of;

const MD: &str = "https://docs.kernel.org/admin-guide/md.html";
const CRYPT: &str = "https://docs.kernel.org/admin-guide/device-mapper/dm-crypt.html";

/// The rules.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "storage.partition_alignment",
        what: "partitions that do not begin at a multiple of the disk's physical block, or of 4 KiB where the disk \
               reports blocks of 512 bytes",
        severity: Severity::Warning,
        cost: "A block of the filesystem lies across two blocks of the disk: small writes may need a read and two \
               writes instead of one write.",
        sources: &["https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-block"],
        proof: "`qd1 check PATH` here and on an aligned partition, and `qd1 compare` of both",
        find: partition_alignment,
    },
    Rule {
        id: "storage.raid_degraded",
        what: "an array that lacks a member",
        severity: Severity::Critical,
        cost: "Another failure may lose the data, and reads of parity RAID have to be calculated from the other disks.",
        sources: &[MD],
        proof: "`cat /proc/mdstat` shows the missing member and a rebuild; `qd1 check PATH` after it shows the \
                difference",
        find: raid_degraded,
    },
    Rule {
        id: "storage.raid_without_bitmap",
        what: "redundant arrays without a write-intent bitmap or journal",
        severity: Severity::Warning,
        cost: "After a crash the whole array is synchronised instead of the parts that were being written. The disks \
               are busy with that for hours.",
        sources: &[MD, "https://man7.org/linux/man-pages/man4/md.4.html"],
        proof: "`qd1 sync PATH` with and without the bitmap shows what it costs writes; md(4) says what it saves",
        find: raid_without_bitmap,
    },
    Rule {
        id: "storage.crypt_queues",
        what: "dm-crypt on solid-state disks with its work queues, according to /etc/crypttab",
        severity: Severity::Info,
        cost: "Each request is passed to other threads for encryption, which may cost a fast disk more time than the \
               encryption itself. Linux 5.9 and later can do without.",
        sources: &[CRYPT, "https://blog.cloudflare.com/speeding-up-linux-disk-encryption/"],
        proof: "`qd1 check PATH` with and without the queues, and `qd1 compare` of both",
        find: crypt_queues,
    },
    Rule {
        id: "storage.nearly_full",
        what: "filesystems with less than 5 % of their space (and less than 20 GiB) or of their files left",
        severity: Severity::Warning,
        cost: "Writes fail when nothing is left, and before that new data may have to be placed in fragments.",
        sources: &[
            "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
            "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html",
        ],
        proof: "`qd1 check PATH` now and with more space, and `qd1 compare` of both",
        find: nearly_full,
    },
    Rule {
        id: "storage.never_trimmed",
        what: "disks that support trims, and neither discard nor fstrim.timer",
        severity: Severity::Info,
        cost: "The disk is never told which blocks are free: a solid-state disk may have to move deleted data about, \
               and thinly provisioned storage does not get it back.",
        sources: &["https://man7.org/linux/man-pages/man8/fstrim.8.html"],
        proof: "`qd1 check PATH` before and after `fstrim -v PATH`, and `qd1 compare` of both",
        find: never_trimmed,
    },
    Rule {
        id: "storage.swap_on_same_disk",
        what: "swap in use (64 MiB or more) on the disk of the data",
        severity: Severity::Info,
        cost: "While memory is short, swapping competes with the requests of programs on this disk.",
        sources: &[
            "https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management",
            "https://docs.siderolabs.com/talos/v1.14/configure-your-talos-cluster/storage-and-disk-management/swap",
        ],
        proof: "`qd1 watch` shows pages swapped in and out, and the pressure on memory",
        find: swap_on_same_disk,
    },
    Rule {
        id: "storage.limited",
        what: "I/O limits of the control group of this process",
        severity: Severity::Warning,
        cost: "Requests above the limit wait in the kernel. What is measured here is the limit and not the disk.",
        sources: &["https://docs.kernel.org/admin-guide/cgroup-v2.html"],
        proof: "`qd1 limits PATH` inside and outside of the group",
        find: limited,
    },
    Rule {
        id: "storage.overlay",
        what: "data on an overlay filesystem, as in a container's own layer; only that of PATH is looked at",
        severity: Severity::Info,
        cost: "The first write to a file of a lower layer copies the whole file, and the data goes with the container.",
        sources: &["https://docs.docker.com/engine/storage/drivers/overlayfs-driver/"],
        proof: "`qd1 check PATH` here and on a volume, and `qd1 compare` of both",
        find: overlay,
    },
    Rule {
        id: "storage.docker_vfs",
        what: "Docker with the storage driver vfs",
        severity: Severity::Warning,
        cost: "Every layer is a full copy: creating a container writes its whole image.",
        sources: &["https://docs.docker.com/engine/storage/drivers/vfs-driver/"],
        proof: "`qd1 watch` while a container is created shows what is written",
        find: docker_vfs,
    },
    Rule {
        id: "storage.nvme_health",
        what: "critical warnings, media errors and used endurance of NVMe drives",
        severity: Severity::Critical,
        cost: "The drive itself reports that it is failing or worn out: data may be lost, and writes may be slower or \
               refused.",
        sources: &["https://nvmexpress.org/specification/nvm-express-base-specification/"],
        proof: "`nvme smart-log` shows the drive's own report",
        find: nvme_health,
    },
];

/// Share of space or files below which a filesystem counts as nearly full, percent; ext4 reserves as much for root.
const LEFT_FEW: u64 = 5;
/// Space that is enough for most writes, whatever share of the filesystem it is.
const SPACE_FEW: Bytes = Bytes::gib(20);
/// Swap that counts as in use, KiB.
const SWAP_USED: i64 = 64 << 10;
/// Sectors of sysfs in 4 KiB.
const SECTORS_4K: i64 = 8;
/// A smaller array is synchronised quickly, and mdadm gives it no bitmap unless asked (mdadm(8), `--bitmap`).
const ARRAY_LARGE: Bytes = Bytes::gib(100);

fn partition_alignment(inventory: &Inventory) -> Vec<Found> {
    let of = |device: &&Device| {
        let value = |name| inventory.setting(SettingKind::Block, &device.name, name);
        let (start, offset) = (value("start")?, value("alignment_offset").and_then(|setting| setting.number()));
        let sector = start.number()?;
        let says_kernel = offset.is_some_and(|offset| offset != 0);
        // With larger blocks the kernel knows; many disks report 512 bytes whatever they write at once.
        let is_odd = device.physical_block <= 512 && sector % SECTORS_4K != 0;
        let what = if says_kernel { "across blocks of the disk" } else { "not at a multiple of 4 KiB" };
        (says_kernel || is_odd).then(|| Found {
            subject: device.name.clone(),
            title: format!("{}: the partition begins at sector {sector}, {what}", device.name),
            severity: (!says_kernel).then_some(Severity::Info),
            setting: Some(start.clone()),
            fix: fix::advice("create the partition again at a multiple of 1 MiB, and restore its data from a copy"),
            path: path_of(inventory, &device.name),
        })
    };
    let devices = inventory.devices();
    devices.iter().filter(|device| device.kind == "partition").filter_map(of).collect()
}

fn raid_degraded(inventory: &Inventory) -> Vec<Found> {
    let missing =
        |count: i64| if count == 1 { "1 disk is missing".to_owned() } else { format!("{count} disks are missing") };
    let degraded = inventory.all(SettingKind::Block, "md/degraded");
    let found = degraded.filter_map(|setting| {
        let count = setting.number().filter(|count| *count > 0)?;
        let action = inventory.setting(SettingKind::Block, &setting.subject, "md/sync_action");
        let is_rebuilding = action.is_some_and(|action| matches!(action.value.as_str(), "recover" | "resync"));
        let (what, fix) = if is_rebuilding {
            (
                "a disk is being rebuilt".to_owned(),
                "wait for the rebuild; `cat /proc/mdstat` shows when it ends".to_owned(),
            )
        } else {
            let node = shell_quoted(&format!("/dev/{}", setting.subject));
            let replace = format!("replace the disk: `mdadm --manage {node} --add DEVICE`");
            (missing(count), format!("{replace}, unless `cat /proc/mdstat` shows that it is being rebuilt"))
        };
        Some(Found {
            subject: setting.subject.clone(),
            title: format!("{}: the array is degraded, {what}", setting.subject),
            setting: Some(setting.clone()),
            fix: fix::advice(fix),
            path: path_of(inventory, &setting.subject),
            ..Found::default()
        })
    });
    found.collect()
}

fn raid_without_bitmap(inventory: &Inventory) -> Vec<Found> {
    let policies = inventory.all(SettingKind::Block, "md/consistency_policy");
    let found = policies.filter(|setting| setting.value == "resync").map(|setting| {
        let size = inventory.devices().iter().find(|device| device.name == setting.subject).map(|device| device.size);
        Found {
            subject: setting.subject.clone(),
            title: format!("{}: without a bitmap, a crash makes the whole array synchronise", setting.subject),
            severity: size.filter(|size| *size < ARRAY_LARGE).map(|_| Severity::Info),
            setting: Some(setting.clone()),
            fix: Fix {
                command: format!(
                    "mdadm --grow --bitmap=internal {}",
                    shell_quoted(&format!("/dev/{}", setting.subject))
                ),
                advice: "small writes become slower, since the bitmap has to be written before them; a larger \
                         --bitmap-chunk costs less"
                    .to_owned(),
                ..Fix::default()
            },
            path: path_of(inventory, &setting.subject),
        }
    });
    found.collect()
}

fn crypt_queues(inventory: &Inventory) -> Vec<Found> {
    if version_of(&inventory.environment.kernel).is_some_and(|version| version < (5, 9)) {
        return Vec::new();
    }
    let found = inventory.all(SettingKind::Block, "crypttab").filter_map(|setting| {
        let has = |option: &str| setting.value.split(',').any(|known| known == option);
        let place = inventory.place_of(&setting.subject)?;
        let is_solid = place.devices.iter().any(|device| device.kind == "disk" && device.rotational == Some(false));
        if has("no-read-workqueue") || has("no-write-workqueue") || !is_solid {
            return None;
        }
        let volume =
            place.devices.iter().find(|device| device.name == setting.subject)?.model.split(' ').next_back()?;
        let both = "no-read-workqueue,no-write-workqueue";
        let at = match &setting.after_boot.winner {
            Some(by) => format!("{}:{}", by.file, by.line),
            None => "/etc/crypttab".to_owned(),
        };
        let fix = Fix {
            command: format!(
                "cryptsetup refresh --perf-no_read_workqueue --perf-no_write_workqueue {}",
                shell_quoted(volume)
            ),
            advice: format!(
                "for the next boot: in {at}, add {both} to the options, the fourth field (write none as the third if \
                 there are only two)"
            ),
            ..Fix::default()
        };
        Some(Found {
            subject: setting.subject.clone(),
            title: format!("{}: requests of the encrypted volume {volume} pass through work queues", setting.subject),
            setting: Some(setting.clone()),
            fix,
            path: place.filesystem.mount_point.clone(),
            ..Found::default()
        })
    });
    found.collect()
}

fn nearly_full(inventory: &Inventory) -> Vec<Found> {
    let of = |place: &Place| {
        let fs = &place.filesystem;
        let is_read_only = fs.options.iter().any(|option| option == "ro");
        if is_read_only || fs.kind == "block" || fs.class != FilesystemClass::Disk {
            return None;
        }
        let few =
            |available: u64, total: u64| total > 0 && available.saturating_mul(100) < total.saturating_mul(LEFT_FEW);
        let what = match fs.inodes {
            _ if few(fs.available.0, fs.size.0) && fs.available < SPACE_FEW => {
                format!("{} of {} are left", fs.available, fs.size)
            }
            Some(inodes) if few(inodes.available, inodes.total) => {
                format!("{} of {} files are left", inodes.available, inodes.total)
            }
            _ => return None,
        };
        Some(Found {
            subject: fs.mount_point.clone(),
            title: format!("{} ({}) is nearly full: {what}", fs.mount_point, fs.kind),
            fix: fix::advice(format!(
                "delete files, or enlarge the filesystem (`du -xh {} | sort -h`)",
                shell_quoted(&fs.mount_point)
            )),
            path: fs.mount_point.clone(),
            ..Found::default()
        })
    };
    inventory.places.iter().filter_map(of).collect()
}

fn never_trimmed(inventory: &Inventory) -> Vec<Found> {
    let Some(timer) = inventory.setting(SettingKind::System, "", "fstrim").filter(|timer| timer.value == "disabled")
    else {
        return Vec::new();
    };
    let of = |place: &Place| {
        let fs = &place.filesystem;
        let has_trims = place.devices.first().is_some_and(|device| device.discard == Some(true));
        let is_online = fs.options.iter().any(|option| option == "discard" || option.starts_with("discard="));
        let is_kind = matches!(fs.kind.as_str(), "ext4" | "xfs" | "btrfs");
        (has_trims && is_kind && !is_online).then(|| Found {
            subject: fs.mount_point.clone(),
            title: format!("{} ({}) is never trimmed", fs.mount_point, fs.kind),
            setting: Some(timer.clone()),
            fix: Fix {
                command: "systemctl enable --now fstrim.timer".to_owned(),
                advice: fix::TRIMMED.to_owned(),
                ..Fix::default()
            },
            path: fs.mount_point.clone(),
            ..Found::default()
        })
    };
    inventory.places.iter().filter_map(of).collect()
}

fn swap_on_same_disk(inventory: &Inventory) -> Vec<Found> {
    let mut found = Vec::new();
    for swap in inventory.all(SettingKind::System, "swap") {
        let used = swap.number().unwrap_or(0);
        let is_on = |device: &&Device| device.kind == "disk" && is_part_of(&swap.subject, &device.name);
        let devices = inventory.devices();
        let Some(disk) = devices.iter().find(|device| is_on(device)).filter(|_| used >= SWAP_USED) else { continue };
        let used = Bytes(used.unsigned_abs() << 10);
        found.push(Found {
            subject: disk.name.clone(),
            title: format!("{}: {used} of swap are in use on the disk of the data ({})", disk.name, swap.subject),
            setting: Some(swap.clone()),
            fix: fix::advice("add memory, or move the swap space to another disk"),
            path: path_of(inventory, &disk.name),
            ..Found::default()
        });
    }
    found
}

/// Whether `/dev/vda2` is `vda` or a partition of it, as the kernel names them.
fn is_part_of(node: &str, disk: &str) -> bool {
    let Some(rest) = node.strip_prefix("/dev/").and_then(|name| name.strip_prefix(disk)) else { return false };
    let ends_with_digit = disk.ends_with(|c: char| c.is_ascii_digit());
    let number = if ends_with_digit { rest.strip_prefix('p').unwrap_or(rest) } else { rest };
    number.bytes().all(|letter| letter.is_ascii_digit())
        && (rest.is_empty() || !ends_with_digit || rest.starts_with('p'))
}

fn limited(inventory: &Inventory) -> Vec<Found> {
    let of = |line: &String| {
        let (number, limits) = line.split_once(' ')?;
        let set: Vec<&str> = limits.split_whitespace().filter(|limit| !limit.ends_with("=max")).collect();
        let devices = inventory.devices();
        let device = devices.iter().find(|device| device.number == number).filter(|_| !set.is_empty())?;
        Some(Found {
            subject: device.name.clone(),
            title: format!("{}: the control group of this process is limited to {}", device.name, set.join(" ")),
            fix: fix::advice("change io.max of the group (IOReadBandwidthMax= and its kin of a systemd unit)"),
            path: path_of(inventory, &device.name),
            ..Found::default()
        })
    };
    inventory.environment.cgroup_io_limits.iter().filter_map(of).collect()
}

fn overlay(inventory: &Inventory) -> Vec<Found> {
    let is_overlay = |place: &&Place| place.filesystem.class == FilesystemClass::Overlay;
    let found = inventory.places.iter().filter(is_overlay).map(|place| Found {
        subject: place.filesystem.mount_point.clone(),
        title: format!("{} is an overlay ({})", place.filesystem.mount_point, place.filesystem.kind),
        fix: fix::advice("keep data that is written often on a volume (`docker run --mount type=volume,...`)"),
        path: place.filesystem.mount_point.clone(),
        ..Found::default()
    });
    found.collect()
}

fn docker_vfs(inventory: &Inventory) -> Vec<Found> {
    let driver = inventory.setting(SettingKind::Program, "Docker", "storage-driver");
    let found = driver.filter(|setting| setting.value == "vfs").map(|setting| Found {
        subject: "Docker".to_owned(),
        title: "Docker copies every layer in full (storage-driver vfs)".to_owned(),
        setting: Some(setting.clone()),
        fix: fix::advice(format!(
            "in {}, change storage-driver to overlay2, then restart Docker. It then does not show the images and \
             containers that exist: save what you need before (`docker save`), and pull or load it again",
            setting.after_boot.winner.as_ref().map_or("/etc/docker/daemon.json", |by| by.file.as_str())
        )),
        path: "/var/lib/docker".to_owned(),
        ..Found::default()
    });
    found.into_iter().collect()
}

/// The bit of a critical warning for a temperature outside of its thresholds.
const TOO_HOT: u8 = 1 << 1;

/// What the bits of a critical warning mean.
fn warnings(bits: u8) -> String {
    const MEANINGS: [&str; 6] = [
        "spare blocks are running out",
        "its temperature is outside of its limits",
        "it has become unreliable",
        "it accepts no more writes",
        "the backup of its volatile memory has failed",
        "its persistent memory is read-only or unreliable",
    ];
    let known = MEANINGS.iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, meaning)| *meaning);
    let known: Vec<&str> = known.collect();
    if known.is_empty() { format!("a critical warning (0x{bits:02x})") } else { known.join(", ") }
}

/// NVM Express Base Specification 2.0, figure 207.
fn nvme_health(inventory: &Inventory) -> Vec<Found> {
    let mut found = Vec::new();
    for device in inventory.devices() {
        let Some(health) = device.nvme.as_ref().and_then(|nvme| nvme.health) else { continue };
        let warned = |bits: u8| health.critical_warning & bits != 0;
        let replace = "back up its data, and replace the drive";
        let (what, severity, fix) = if warned(!TOO_HOT) {
            (format!("the drive reports: {}", warnings(health.critical_warning)), Severity::Critical, replace)
        } else if warned(TOO_HOT) {
            let fix = "cool it (air flow, a heat sink, less load): `nvme smart-log` shows the temperature";
            (warnings(TOO_HOT), Severity::Warning, fix)
        } else if health.media_errors > 0 {
            (format!("{} media and data integrity errors", health.media_errors), Severity::Warning, replace)
        } else if health.used_percent >= 100 {
            (format!("{} % of its endurance are used", health.used_percent), Severity::Warning, replace)
        } else {
            continue;
        };
        found.push(Found {
            subject: device.name.clone(),
            title: format!("{}: {what}", device.name),
            severity: Some(severity),
            fix: fix::advice(fix),
            path: path_of(inventory, &device.name),
            ..Found::default()
        });
    }
    found
}
