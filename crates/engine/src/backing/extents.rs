//! The extents of a file by FIEMAP: written, unwritten, delayed, encoded (kernel documentation, filesystems/fiemap).

use std::os::fd::{AsRawFd, BorrowedFd};

use qd1_model::record::Extents;
use qd1_model::units::Bytes;

/// `FS_IOC_FIEMAP`, the same number on every architecture we build for: _IOWR('f', 11, struct fiemap).
const FS_IOC_FIEMAP: u64 = 0xC020_660B;
/// Write dirty pages first, so that no delayed allocation remains.
const FLAG_SYNC: u32 = 1;
const LAST: u32 = 1;
const UNKNOWN: u32 = 2;
const DELALLOC: u32 = 4;
const ENCODED: u32 = 8;
const UNWRITTEN: u32 = 0x800;
const BATCH: usize = 64;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; BATCH],
}

/// Sizes in the kernel's interface: a header of 32 bytes, and the extents right after it.
const _: () = assert!(size_of::<Extent>() == 56 && size_of::<Map>() == 32 + BATCH * 56);

/// Adds up the extents of the first `size` bytes of `fd`; `None` where the filesystem does not support it.
pub(super) fn read(fd: BorrowedFd<'_>, size: u64) -> Option<Extents> {
    let mut total = Extents::default();
    let mut at = 0;
    let mut mapped_end = 0;
    while at < size {
        let mut map = Map {
            start: at,
            length: size - at,
            flags: if at == 0 { FLAG_SYNC } else { 0 },
            mapped_extents: 0,
            extent_count: BATCH as u32,
            reserved: 0,
            extents: [Extent::default(); BATCH],
        };
        // SAFETY: the request describes `Map` exactly: a fiemap header followed by extent_count extents, which
        // the kernel fills; the file is open.
        let ret = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) };
        if ret != 0 {
            return None;
        }
        let found = &map.extents[..(map.mapped_extents as usize).min(BATCH)];
        for extent in found {
            total.hole.0 += extent.logical.saturating_sub(mapped_end);
            mapped_end = extent.logical + extent.length;
            add(&mut total, extent, size);
        }
        match found.last() {
            Some(last) if last.flags & LAST == 0 => at = last.logical + last.length,
            _ => break,
        }
    }
    total.hole.0 += size.saturating_sub(mapped_end);
    Some(total)
}

fn add(total: &mut Extents, extent: &Extent, size: u64) {
    let length = extent.length.min(size.saturating_sub(extent.logical));
    let class = match extent.flags {
        flags if flags & UNWRITTEN != 0 => &mut total.unwritten,
        flags if flags & (DELALLOC | UNKNOWN) != 0 => &mut total.delayed,
        flags if flags & ENCODED != 0 => &mut total.encoded,
        _ => &mut total.written,
    };
    *class = Bytes(class.0 + length);
    total.count += 1;
}

#[cfg(test)]
mod tests {
    use crate::backing::{OpenAs, Target};

    #[test]
    fn written_allocated_and_missing_parts_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::create_in(dir.path(), "extents").unwrap();
        let allocated = target.allocate(1 << 20).unwrap();
        let Some(before) = target.extents(1 << 20) else {
            return; // This filesystem has no FIEMAP; the ones in CI have.
        };
        if allocated {
            assert_eq!(before.written.0, 0);
            assert_eq!(before.unwritten.0, 1 << 20);
        }
        let fd = target.open(OpenAs { write: true, ..OpenAs::default() }).unwrap();
        rustix::io::pwrite(&fd, &vec![7; 512 << 10], 0).unwrap();
        rustix::fs::fsync(&fd).unwrap();
        let after = target.extents(1 << 20).unwrap();
        assert_eq!(after.written.0, 512 << 10);
        target.set_len(2 << 20).unwrap();
        assert_eq!(target.extents(2 << 20).unwrap().hole.0, 1 << 20);
    }
}
