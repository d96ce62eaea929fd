//! The I/O priority of a thread, which no crate of ours sets.

use rustix::io::Errno;
use syscalls::{Sysno, syscall};

/// `IOPRIO_WHO_PROCESS` of linux/ioprio.h; with 0 it is the calling thread.
const WHO_PROCESS: u32 = 1;
/// `IOPRIO_CLASS_SHIFT`.
const CLASS_SHIFT: u32 = 13;

/// Sets the I/O priority of the calling thread: class 1 (real time), 2 (best effort) or 3 (idle), and a level from 0
/// (highest) to 7, as ionice has them.
///
/// # Errors
/// EPERM for the real-time class without the privilege, EINVAL for a class or level that is none.
pub fn set_io_priority(class: u32, level: u32) -> Result<(), Errno> {
    // SAFETY: ioprio_set takes three integers and touches no memory.
    let outcome = unsafe { syscall!(Sysno::ioprio_set, WHO_PROCESS, 0u32, class << CLASS_SHIFT | level) };
    outcome.map(drop).map_err(|errno| Errno::from_raw_os_error(errno.into_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_a_priority_and_refuses_one_that_is_none() {
        std::thread::spawn(|| {
            assert_eq!(set_io_priority(2, 7), Ok(()));
            assert_eq!(set_io_priority(7, 0), Err(Errno::INVAL));
        })
        .join()
        .unwrap();
    }
}
