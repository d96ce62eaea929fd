//! The UUID of a mounted filesystem, which the kernel reports through any of its directories.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::ioctl::{Getter, ioctl, opcode};

/// `struct fsuuid2` of linux/fs.h.
#[repr(C)]
struct FsUuid {
    length: u8,
    uuid: [u8; 16],
}

/// `struct xfs_fsop_geom_v1` of XFS's xfs_fs.h, which all versions of XFS support.
#[repr(C)]
struct XfsGeometry {
    sizes: [u32; 8],
    blocks: [u64; 4],
    uuid: [u8; 16],
    rest: [u32; 8],
}

/// `FS_IOC_GETFSUUID`, from Linux 6.9 on.
const FS_UUID: rustix::ioctl::Opcode = opcode::read::<FsUuid>(0x15, 0);
/// `XFS_IOC_FSGEOMETRY_V1`.
const XFS_GEOMETRY: rustix::ioctl::Opcode = opcode::read::<XfsGeometry>(b'X', 100);

/// The UUID, in hexadecimal, of the filesystem (of type `kind`) that holds `path`; `None` if it has none, the kernel
/// does not report it, or its directory cannot be read.
pub(crate) fn of(path: &Path, kind: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |dir: &Path| openat(CWD, dir, flags, Mode::empty()).ok();
    let dir = open(path).or_else(|| open(path.parent()?))?;
    let uuid = fs_uuid(&dir).or_else(|| if kind == "xfs" { xfs_uuid(&dir) } else { None })?;
    let text: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    uuid.iter().any(|byte| *byte != 0).then_some(text)
}

fn fs_uuid(dir: impl AsFd) -> Option<[u8; 16]> {
    // SAFETY: the kernel writes a `struct fsuuid2`, of which this is the layout, or refuses.
    let answer = unsafe { ioctl(dir, Getter::<FS_UUID, FsUuid>::new()) }.ok()?;
    (answer.length == 16).then_some(answer.uuid)
}

fn xfs_uuid(dir: impl AsFd) -> Option<[u8; 16]> {
    // SAFETY: XFS writes a `struct xfs_fsop_geom_v1`, of which this is the layout; it is asked for XFS alone.
    let answer = unsafe { ioctl(dir, Getter::<XFS_GEOMETRY, XfsGeometry>::new()) }.ok()?;
    Some(answer.uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ioctls_have_the_numbers_of_the_kernels_headers() {
        assert_eq!((size_of::<FsUuid>(), size_of::<XfsGeometry>()), (17, 112));
        assert_eq!((FS_UUID, XFS_GEOMETRY), (0x8011_1500, 0x8070_5864));
    }

    #[test]
    fn where_the_kernel_tells_none_there_is_none() {
        assert_eq!(of(Path::new("/proc"), "proc"), None);
        assert_eq!(of(Path::new("/nowhere/at/all"), "xfs"), None);
    }
}
