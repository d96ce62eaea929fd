//! Machines for tests: trees of files in a temporary directory that look like `/proc`, `/sys` and `/dev`.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Machine;

/// A machine under construction.
pub(crate) struct Fixture {
    dir: TempDir,
}

/// The machine, and the directory it lives in.
pub(crate) struct Built {
    machine: Machine,
    dir: TempDir,
}

impl Deref for Built {
    type Target = Machine;
    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Built {
    /// Adds a file to the finished machine.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        write(&place(self.dir.path(), path), bytes);
    }
}

fn place(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn machine(self) -> Built {
        Built { machine: Machine::at(self.dir.path()), dir: self.dir }
    }

    fn place(&self, path: &str) -> PathBuf {
        place(self.dir.path(), path)
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        write(&self.place(path), text.as_bytes());
        self
    }

    pub(crate) fn dir(self, path: &str) -> Self {
        fs::create_dir_all(self.place(path)).unwrap();
        self
    }

    /// Makes a path another user's; false if this user cannot do that.
    pub(crate) fn give(&self, path: &str, user: u32) -> bool {
        std::os::unix::fs::chown(self.place(path), Some(user), None).is_ok()
    }

    /// A symbolic link whose target is relative to the link's own directory.
    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        let at = self.place(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&at);
        symlink(target, at).unwrap();
        self
    }

    /// A disk below `/sys/devices/BUS/block`, or a virtual one if `bus` is empty, and its node in `/dev`.
    pub(crate) fn disk(self, name: &str, number: &str, bus: &str, sectors: u64) -> Self {
        let dir = if bus.is_empty() {
            format!("devices/virtual/block/{name}")
        } else {
            format!("devices/{bus}/block/{name}")
        };
        let made = self
            .file(&format!("/sys/{dir}/dev"), &format!("{number}\n"))
            .file(&format!("/sys/{dir}/size"), &format!("{sectors}\n"))
            .file(&format!("/dev/{name}"), "")
            .dir(&format!("/sys/{dir}/holders"))
            .dir(&format!("/sys/{dir}/slaves"))
            .link(&format!("/sys/block/{name}"), &format!("../{dir}"))
            .link(&format!("/sys/class/block/{name}"), &format!("../../{dir}"))
            .link(&format!("/sys/dev/block/{number}"), &format!("../../{dir}"));
        if bus.is_empty() {
            return made;
        }
        made.link(&format!("/sys/{dir}/device"), "../..")
    }

    /// Makes the device directory `path` of sysfs a member of a bus.
    pub(crate) fn bus(self, path: &str, bus: &str) -> Self {
        // Only the last part of the target is ever looked at.
        self.link(&format!("/sys/devices/{path}/subsystem"), &format!("../../bus/{bus}"))
    }

    /// A partition of a disk that was added before.
    pub(crate) fn partition(self, disk: &str, name: &str, number: &str, start: u64, sectors: u64) -> Self {
        let dir = self.place("/sys/block").join(disk).canonicalize().unwrap().join(name);
        let inside = dir.strip_prefix(self.place("/sys").canonicalize().unwrap()).unwrap().to_str().unwrap().to_owned();
        fs::create_dir_all(dir.join("holders")).unwrap();
        write(&dir.join("partition"), b"1\n");
        write(&dir.join("dev"), format!("{number}\n").as_bytes());
        write(&dir.join("start"), format!("{start}\n").as_bytes());
        write(&dir.join("size"), format!("{sectors}\n").as_bytes());
        self.file(&format!("/dev/{name}"), "")
            .link(&format!("/sys/class/block/{name}"), &format!("../../{inside}"))
            .link(&format!("/sys/dev/block/{number}"), &format!("../../{inside}"))
    }

    /// Makes the device `holder` hold `member`.
    pub(crate) fn holds(self, holder: &str, member: &str) -> Self {
        let real = |name: &str| self.place("/sys/class/block").join(name).canonicalize().unwrap();
        let (holder_dir, member_dir) = (real(holder), real(member));
        symlink(&member_dir, holder_dir.join("slaves").join(member)).unwrap();
        symlink(&holder_dir, member_dir.join("holders").join(holder)).unwrap();
        self
    }
}

/// A virtual machine with one partition on a virtio disk.
pub(crate) fn virtio() -> Fixture {
    let queue = "/sys/devices/pci0000:00/virtio1/block/vda/queue";
    Fixture::new()
        .disk("vda", "254:0", "pci0000:00/virtio1", 1000)
        .bus("pci0000:00/virtio1", "virtio")
        .partition("vda", "vda1", "254:1", 100, 900)
        .file("/sys/devices/pci0000:00/virtio1/vendor", "0x1af4\n")
        .file(&format!("{queue}/scheduler"), "[mq-deadline] kyber none\n")
        .file(&format!("{queue}/write_cache"), "write back\n")
        .file(&format!("{queue}/rotational"), "1\n")
        .file(&format!("{queue}/discard_max_bytes"), "0\n")
        .file(&format!("{queue}/logical_block_size"), "512\n")
        .file(&format!("{queue}/physical_block_size"), "4096\n")
        .file(&format!("{queue}/nr_requests"), "256\n")
        .file(&format!("{queue}/read_ahead_kb"), "128\n")
        .file(
            "/proc/self/mountinfo",
            "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
             27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw,discard\n",
        )
}

/// A laptop: root on LVM on dm-crypt on a partition of an NVMe drive.
pub(crate) fn laptop() -> Fixture {
    Fixture::new()
        .disk("nvme0n1", "259:0", "pci0000:00/nvme0", 500_000)
        .bus("pci0000:00/nvme0", "nvme")
        .file("/sys/devices/pci0000:00/nvme0/model", "Samsung SSD 980 PRO 1TB   \n")
        .file("/sys/devices/pci0000:00/nvme0/firmware_rev", "5B2QGXA7\n")
        .file("/sys/devices/pci0000:00/nvme0/transport", "pcie\n")
        .partition("nvme0n1", "nvme0n1p1", "259:1", 34, 2000)
        .partition("nvme0n1", "nvme0n1p2", "259:2", 2048, 450_000)
        .disk("dm-0", "253:0", "", 440_000)
        .file("/sys/devices/virtual/block/dm-0/dm/name", "unlinked\n")
        .file("/sys/devices/virtual/block/dm-0/dm/uuid", "CRYPT-LUKS2-0123abcd-unlinked\n")
        .disk("dm-1", "253:1", "", 400_000)
        .file("/sys/devices/virtual/block/dm-1/dm/name", "vg-root\n")
        .file("/sys/devices/virtual/block/dm-1/dm/uuid", "LVM-a1b2c3\n")
        .holds("dm-0", "nvme0n1p2")
        .holds("dm-1", "dm-0")
        .link("/dev/mapper/vg-root", "../dm-1")
        .file("/proc/self/mountinfo", "27 1 253:1 / / rw - ext4 /dev/mapper/vg-root rw\n")
}

/// A DigitalOcean droplet with a volume.
pub(crate) fn droplet() -> Fixture {
    let scsi = "pci0000:00/virtio3/host0/target0:0:0/0:0:0:1";
    Fixture::new()
        .disk("sda", "8:0", scsi, 2_000_000)
        .bus(scsi, "scsi")
        .file(&format!("/sys/devices/{scsi}/vendor"), "DO      \n")
        .file(&format!("/sys/devices/{scsi}/model"), "Volume          \n")
        .file(&format!("/sys/devices/{scsi}/rev"), "2.5+\n")
        .file("/sys/class/dmi/id/sys_vendor", "DigitalOcean\n")
        .file("/sys/class/dmi/id/product_name", "Droplet\n")
        .file("/etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04 LTS\"\n")
        .file("/proc/sys/kernel/hostname", "web-1\n")
        .file("/proc/sys/kernel/osrelease", "6.8.0-31-generic\n")
        .file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: DO-Regular\nflags\t\t: fpu hypervisor\n")
        .file("/proc/meminfo", "MemTotal:        2097152 kB\nMemFree: 1 kB\n")
        .file("/proc/self/status", "Name:\tqd1\nUid:\t1000\t1000\t1000\t1000\nCpus_allowed_list:\t0-1,3\n")
        .file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n")
        .file("/sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc\n")
        .file("/proc/sys/vm/dirty_ratio", "20\n")
        .file("/proc/sys/vm/dirty_expire_centisecs", "3000\n")
        .file(
            "/proc/self/mountinfo",
            "27 1 252:1 / / rw - ext4 /dev/vda1 rw\n30 27 8:0 / /mnt/volume rw - ext4 /dev/sda rw\n",
        )
}

/// A host with an overlay whose upper directory is on xfs on the whole of sdb.
pub(crate) fn overlay() -> Fixture {
    Fixture::new().disk("sdb", "8:16", "", 1000).file(
        "/proc/self/mountinfo",
        "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
         28 27 8:16 / /var/lib/docker rw - xfs /dev/sdb rw\n\
         29 27 0:50 / /merged rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/docker/overlay2/x/diff,workdir=/w\n",
    )
}

/// Inside a Docker container on the virtio machine.
pub(crate) fn docker() -> Fixture {
    virtio().file(
        "/proc/self/mountinfo",
        "500 400 0:60 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/docker/overlay2/x/diff,workdir=/w\n\
         501 500 0:61 / /proc rw - proc proc rw\n\
         502 500 254:1 /var/lib/kubelet/x /run/x rw - ext4 /dev/vda9 rw\n\
         503 500 254:1 /var/lib/docker/containers/abc/hosts /etc/hosts rw - ext4 /dev/vda1 rw\n",
    )
}

/// Btrfs over two whole disks, with the anonymous device number of a subvolume.
pub(crate) fn btrfs() -> Fixture {
    Fixture::new()
        .disk("sdb", "8:16", "", 1000)
        .disk("sdc", "8:32", "", 1000)
        .dir("/sys/fs/btrfs/features")
        .dir("/sys/fs/btrfs/0a1b/devices/sdb")
        .dir("/sys/fs/btrfs/0a1b/devices/sdc")
        .file("/proc/self/mountinfo", "27 1 0:33 /@ /data rw - btrfs /dev/sdb rw,subvol=/@\n")
}

/// A mirror of two partitions.
pub(crate) fn raid() -> Fixture {
    Fixture::new()
        .disk("sda", "8:0", "", 1000)
        .partition("sda", "sda1", "8:1", 8, 900)
        .disk("sdb", "8:16", "", 1000)
        .partition("sdb", "sdb1", "8:17", 8, 900)
        .disk("md0", "9:0", "", 800)
        .file("/sys/devices/virtual/block/md0/md/level", "raid1\n")
        .holds("md0", "sda1")
        .holds("md0", "sdb1")
        .file("/proc/self/mountinfo", "27 1 9:0 / /srv rw - xfs /dev/md0 rw\n")
}
