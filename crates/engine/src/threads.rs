//! Whether there is memory for one more thread: the standard library aborts the process if a new thread finds none for
//! its signal stack.

use std::io;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Its stack of 2 MiB, its signal stack, and what it allocates before it does anything.
const BYTES: usize = 3 << 20;

/// Checks for it just before the thread is started.
///
/// # Errors
/// ENOMEM if there is none.
pub fn room_for_one() -> io::Result<()> {
    // SAFETY: a new mapping, which nobody uses, is unmapped again.
    unsafe {
        let found = mmap_anonymous(null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?;
        munmap(found, BYTES)?;
    }
    Ok(())
}
