//! Which filesystem holds a path, and what type it is.

use std::io;
use std::path::Path;

use qd1_model::environment::{Filesystem, FilesystemClass, Inodes};
use qd1_model::units::Bytes;
use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor, statvfs, statx};

use crate::Machine;
use crate::mounts::{self, Identity, Mount};
use crate::uuid;

/// How deep overlays are followed; more than this is a loop.
const OVERLAY_DEPTH_MAX: u32 = 8;

const MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs", "rootfs"];
const OVERLAY: &[&str] = &["overlay", "overlayfs", "aufs", "unionfs"];
const NETWORK: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "9p",
    "virtiofs",
    "afs",
    "lustre",
    "beegfs",
    "orangefs",
    "pvfs2",
    "coda",
    "ncpfs",
    "glusterfs",
    "gpfs",
    "vboxsf",
    "prl_fs",
    "vmhgfs",
    "drvfs",
];
const PSEUDO: &[&str] = &[
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "cpuset",
    "devpts",
    "debugfs",
    "tracefs",
    "securityfs",
    "pstore",
    "bpf",
    "configfs",
    "fusectl",
    "mqueue",
    "hugetlbfs",
    "efivarfs",
    "binfmt_misc",
    "autofs",
    "rpc_pipefs",
    "nfsd",
    "nsfs",
    "sockfs",
    "pipefs",
    "bdev",
    "anon_inodefs",
    "selinuxfs",
    "smackfs",
    "apparmorfs",
    "binder",
    "resctrl",
    "xenfs",
    "openpromfs",
    "functionfs",
    "usbfs",
    "devfs",
    "secretmem",
];
/// Filesystems whose `f_fsid` is derived from their UUID (see statfs of each in the kernel); XFS, for example, uses the
/// device number instead.
const HAS_OWN_ID: &[&str] = &["ext2", "ext3", "ext4", "btrfs", "bcachefs", "zfs"];

/// The magic numbers of common filesystems in statfs(2); ext2, ext3 and ext4 share one.
const MAGICS: [(u64, &str); 11] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0x2FC1_2FC1, "zfs"),
    (0xCA45_1A4E, "bcachefs"),
    (0xF2F5_2010, "f2fs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x794C_7630, "overlay"),
    (0x6969, "nfs"),
    (0x6573_5546, "fuse"),
];

/// The class of a filesystem type as mountinfo names it. Unknown types are assumed to be on a disk.
#[must_use]
pub fn class_of(kind: &str) -> FilesystemClass {
    if kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.") {
        return FilesystemClass::Fuse;
    }
    let table = [
        (MEMORY, FilesystemClass::Memory),
        (OVERLAY, FilesystemClass::Overlay),
        (NETWORK, FilesystemClass::Network),
        (PSEUDO, FilesystemClass::Pseudo),
    ];
    table.iter().find(|(kinds, _)| kinds.contains(&kind)).map_or(FilesystemClass::Disk, |(_, class)| *class)
}

impl Machine {
    /// The filesystem that holds `path`, or would hold it once created.
    ///
    /// A block device has no filesystem of its own: its `kind` is `block`, its `source` the device, its `size` and
    /// `available` the device's size. Sizes are 0 where `statvfs` fails.
    ///
    /// # Errors
    /// When `/proc/self/mountinfo` cannot be read, or lists no mount for the path.
    pub fn filesystem(&self, path: &Path) -> io::Result<Filesystem> {
        if let Some(block) = self.block(path) {
            let source = self.resolve(path).to_string_lossy().into_owned();
            let (kind, size) = ("block".to_owned(), Bytes(block.size()));
            return Ok(Filesystem { kind, source, size, available: size, ..Filesystem::default() });
        }
        let mount = self.mount_of(path)?;
        let resolved = self.resolve(path);
        let mut options = mount.options.clone();
        options.extend(mount.super_options.iter().filter(|option| !mount.options.contains(option)).cloned());
        let existing = resolved.ancestors().find(|ancestor| self.has(ancestor)).unwrap_or(Path::new("/"));
        let room = statvfs(self.below(existing)).ok();
        let bytes = |blocks: u64, unit: u64| Bytes(blocks.saturating_mul(unit));
        Ok(Filesystem {
            class: self.class_of_mount(&mount),
            upper: self.upper_of(&mount).map(|upper| upper.kind).unwrap_or_default(),
            mount_point: mount.point.to_string_lossy().into_owned(),
            size: room.as_ref().map(|room| bytes(room.f_blocks, room.f_frsize)).unwrap_or_default(),
            available: room.as_ref().map(|room| bytes(room.f_bavail, room.f_frsize)).unwrap_or_default(),
            // Filesystems that create inodes on demand (btrfs, many network ones) report none at all.
            inodes: room
                .as_ref()
                .filter(|room| room.f_files > 0)
                .map(|room| Inodes { total: room.f_files, available: room.f_favail }),
            id: match room {
                Some(room) if HAS_OWN_ID.contains(&mount.kind.as_str()) => format!("{:016x}", room.f_fsid),
                _ => uuid::of(&self.below(existing), &mount.kind).unwrap_or_default(),
            },
            version: if mount.kind == "zfs" {
                self.text("/sys/module/zfs/version").trim().into()
            } else {
                String::new()
            },
            kind: mount.kind,
            source: mount.source,
            options,
        })
    }

    /// The class of a mounted filesystem; an overlay whose writes land in memory counts as memory.
    pub(crate) fn class_of_mount(&self, mount: &Mount) -> FilesystemClass {
        match self.upper_of(mount).map(|upper| class_of(&upper.kind)) {
            Some(FilesystemClass::Memory) => FilesystemClass::Memory,
            _ => class_of(&mount.kind),
        }
    }

    /// All mounts this process sees.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        mounts::parse(&self.text("/proc/self/mountinfo"))
    }

    /// The mount that holds `path`.
    pub(crate) fn mount_of(&self, path: &Path) -> io::Result<Mount> {
        let file = self.below("/proc/self/mountinfo");
        let text = std::fs::read(&file).map_err(|error| {
            let hint = "mount /proc to let qd1 see which filesystem holds a path";
            io::Error::new(error.kind(), format!("read {}: {error}; {hint}", file.display()))
        })?;
        let mounts = mounts::parse(&String::from_utf8_lossy(&text));
        let resolved = self.resolve(path);
        let identity = if self.is_live() { identity_of(&resolved) } else { Identity::default() };
        let listed = mounts::containing(&mounts, &resolved, &identity).cloned();
        listed.or_else(|| self.unlisted(&resolved, &identity)).ok_or_else(|| {
            let text = format!("{} lists no mount that holds {}", file.display(), path.display());
            io::Error::new(io::ErrorKind::NotFound, text)
        })
    }

    /// The mount of a path that no listed mount holds: in a chroot, the mount of its root is out of sight. What the
    /// kernel says about the filesystem itself is enough to measure there.
    fn unlisted(&self, path: &Path, identity: &Identity) -> Option<Mount> {
        let existing = path.ancestors().find(|ancestor| self.has(ancestor)).filter(|_| self.is_live())?;
        let magic = rustix::fs::statfs(self.below(existing)).ok()?.f_type.cast_unsigned();
        let kind = MAGICS.iter().find(|(known, _)| *known == magic as u64).map_or("unknown", |(_, kind)| *kind);
        Some(Mount {
            number: identity.number.clone().unwrap_or_default(),
            root: "/".to_owned(),
            point: "/".into(),
            kind: kind.to_owned(),
            ..Mount::default()
        })
    }

    /// The mount below an overlay where its writes land, as far as it can be seen from here.
    pub(crate) fn upper_of(&self, mount: &Mount) -> Option<Mount> {
        let mut below = self.upper_once(mount)?;
        for _ in 0..OVERLAY_DEPTH_MAX {
            if class_of(&below.kind) != FilesystemClass::Overlay {
                return Some(below);
            }
            below = self.upper_once(&below)?;
        }
        None
    }

    /// Whether an overlay has as much room as the filesystem at `upper`, from which the kernel takes the overlay's
    /// numbers. By now another one may be mounted over the directory, or be visible there from another namespace.
    fn has_room_of(&self, overlay: &Mount, upper: &Path) -> bool {
        let room =
            |path: &Path| statvfs(self.below(path)).ok().map(|room| (room.f_blocks, room.f_frsize, room.f_files));
        !self.is_live() || room(&overlay.point) == room(upper)
    }

    fn upper_once(&self, mount: &Mount) -> Option<Mount> {
        if class_of(&mount.kind) != FilesystemClass::Overlay {
            return None;
        }
        let upper = Path::new(mount.super_option("upperdir")?);
        if upper.is_absolute() && self.has(upper) {
            let found = self.mount_of(upper).ok().filter(|found| found.id != mount.id)?;
            return self.has_room_of(mount, upper).then_some(found);
        }
        // Inside a container the directory is out of sight, but Docker and Podman bind single files (/etc/hosts) from
        // their data directory. A shared /var/lib/docker means the same filesystem; /var/lib alone would not.
        let shared = |root: &str| {
            let same = Path::new(root).components().zip(upper.components()).take_while(|(a, b)| a == b);
            same.count() > 3
        };
        self.mounts().into_iter().find(|other| other.has_block_number() && shared(&other.root))
    }
}

/// Asks the kernel which mount and device hold the nearest existing ancestor of `path`.
fn identity_of(path: &Path) -> Identity {
    let ask = |at: &Path| statx(CWD, at, AtFlags::empty(), StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok();
    let Some(stat) = path.ancestors().find_map(ask) else { return identity_by_stat(path) };
    let has_id = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    Identity {
        mount: has_id.then_some(stat.stx_mnt_id),
        number: Some(format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor)),
    }
}

/// The device alone, for kernels before 4.11 and for sandboxes that refuse `statx`.
fn identity_by_stat(path: &Path) -> Identity {
    let stat = path.ancestors().find_map(|at| rustix::fs::stat(at).ok());
    Identity { mount: None, number: stat.map(|stat| format!("{}:{}", major(stat.st_dev), minor(stat.st_dev))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Fixture};

    #[test]
    fn types_are_sorted_into_classes() {
        for (kind, class) in [
            ("ext4", FilesystemClass::Disk),
            ("zfs", FilesystemClass::Disk),
            ("tmpfs", FilesystemClass::Memory),
            ("overlay", FilesystemClass::Overlay),
            ("nfs4", FilesystemClass::Network),
            ("virtiofs", FilesystemClass::Network),
            ("fuse.sshfs", FilesystemClass::Fuse),
            ("fuseblk", FilesystemClass::Fuse),
            ("securityfs", FilesystemClass::Pseudo),
        ] {
            assert_eq!(class_of(kind), class, "{kind}");
        }
    }

    #[test]
    fn a_path_yet_to_be_created_is_on_the_filesystem_of_its_parent() {
        let fs = fixture::virtio().machine().filesystem(Path::new("/var/lib/db/new")).unwrap();
        assert_eq!((fs.kind.as_str(), fs.source.as_str(), fs.mount_point.as_str()), ("ext4", "/dev/vda1", "/"));
        assert_eq!(fs.options, ["rw", "relatime", "discard"]);
        assert!(fs.size > Bytes(0));
        assert_eq!(fs.upper, "");
    }

    #[test]
    fn of_zfs_the_version_of_the_module_is_known() {
        let mounts = "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /tank rw - zfs tank rw\n";
        let with = |version: &str| {
            let machine = Fixture::new().file("/proc/self/mountinfo", mounts).file("/sys/module/zfs/version", version);
            machine.machine()
        };
        let version = |machine: &Machine, path: &str| machine.filesystem(Path::new(path)).unwrap().version;
        assert_eq!(version(&with("2.2.7-1\n"), "/tank/data"), "2.2.7-1");
        assert_eq!(version(&with("2.2.7-1\n"), "/var"), "");
    }

    #[test]
    fn kernel_filesystems_are_pseudo() {
        let fs = fixture::virtio().machine().filesystem(Path::new("/proc/sys")).unwrap();
        assert_eq!(fs.class, FilesystemClass::Pseudo);
    }

    #[test]
    fn an_overlay_names_the_filesystem_of_its_upper_directory() {
        let machine = fixture::overlay().dir("/var/lib/docker/overlay2/x/diff").machine();
        let fs = machine.filesystem(Path::new("/merged/data")).unwrap();
        assert_eq!((fs.class, fs.upper.as_str()), (FilesystemClass::Overlay, "xfs"));
    }

    #[test]
    fn an_overlay_whose_writes_land_in_memory_is_memory() {
        let layers =
            "9 1 0:50 / /merged rw - overlay overlay rw,lowerdir=/l,upperdir=/run/x/diff,workdir=/run/x/work\n";
        let mounts = format!("1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:22 / /run rw - tmpfs tmpfs rw\n{layers}");
        let machine = Fixture::new().file("/proc/self/mountinfo", &mounts).dir("/run/x/diff").machine();
        let fs = machine.filesystem(Path::new("/merged/data")).unwrap();
        assert_eq!((fs.class, fs.kind.as_str(), fs.upper.as_str()), (FilesystemClass::Memory, "overlay", "tmpfs"));
    }

    #[test]
    fn an_overlay_whose_upper_directory_is_out_of_sight_names_none() {
        let fs = fixture::overlay().machine().filesystem(Path::new("/merged/data")).unwrap();
        assert_eq!((fs.class, fs.upper.as_str()), (FilesystemClass::Overlay, ""));
    }

    #[test]
    fn in_docker_bound_files_reveal_the_upper_filesystem() {
        let fs = fixture::docker().machine().filesystem(Path::new("/data")).unwrap();
        assert_eq!((fs.kind.as_str(), fs.upper.as_str()), ("overlay", "ext4"));
    }

    #[test]
    fn an_overlay_whose_upper_directory_is_on_itself_is_left_alone() {
        let machine = Fixture::new()
            .file("/proc/self/mountinfo", "5 1 0:40 / / rw - overlay overlay rw,upperdir=/up\n")
            .dir("/up")
            .machine();
        assert_eq!(machine.filesystem(Path::new("/x")).unwrap().upper, "");
    }

    #[test]
    fn a_block_device_is_its_own_source() {
        let fs = fixture::laptop().machine().filesystem(Path::new("/dev/mapper/vg-root")).unwrap();
        assert_eq!((fs.kind.as_str(), fs.source.as_str()), ("block", "/dev/dm-1"));
        assert_eq!(fs.size, Bytes(400_000 * 512));
    }

    #[test]
    fn without_mountinfo_the_error_names_the_file() {
        let error = Fixture::new().machine().filesystem(Path::new("/x")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("mountinfo"));
    }
}
