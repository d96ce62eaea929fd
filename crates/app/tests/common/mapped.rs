//! Files that a test changes in memory.

use std::fs::File;

/// Changes the first byte of a file in memory and makes it durable.
pub(crate) fn change_mapped(file: &File) {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
    let (length, access) = (4096, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: the mapping is shared with nobody, used only here, and within the file.
    unsafe {
        let memory = mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0).unwrap();
        memory.cast::<u8>().write_volatile(7);
        // Without this flag, nothing is waited for.
        msync(memory, length, MsyncFlags::ASYNC).unwrap();
        msync(memory, length, MsyncFlags::SYNC).unwrap();
        // The trace looks up the mapping when it reads the event.
        std::thread::sleep(std::time::Duration::from_secs(1));
        munmap(memory, length).unwrap();
    }
}
