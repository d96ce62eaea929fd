//! The I/O and processor priorities of a thread, which neither the standard library nor a crate that we use can set; by
//! system calls, since musl's functions refuse.

use rustix::io::Errno;
use syscalls::{Sysno, syscall};

use crate::threads::room_for_one;

/// `IOPRIO_WHO_PROCESS` of linux/ioprio.h; with 0 it is the calling thread.
const WHO_PROCESS: u32 = 1;
/// `IOPRIO_CLASS_SHIFT`.
const CLASS_SHIFT: u32 = 13;

/// Sets the I/O priority of the calling thread: class 1 (real time), 2 (best effort) or 3 (idle), and a level from 0
/// (highest) to 7, as ionice has them.
///
/// # Errors
/// EPERM for the real-time class without the privilege, EINVAL for an invalid class or level.
pub fn set_io_priority(class: u32, level: u32) -> Result<(), Errno> {
    // SAFETY: ioprio_set takes three integers and touches no memory.
    let outcome = unsafe { syscall!(Sysno::ioprio_set, WHO_PROCESS, 0u32, class << CLASS_SHIFT | level) };
    outcome.map(drop).map_err(|errno| Errno::from_raw_os_error(errno.into_raw()))
}

/// `SCHED_OTHER` of linux/sched.h, the usual policy.
const OTHER: usize = 0;

/// While this lives, the calling thread has no real-time priority; threads that it started before keep theirs.
///
/// The thread that watches a step also computes its figures, for a few ms at a time. Started by `chrt`, it would delay
/// what it watches: its own workers and the programs that serve the disk.
pub(crate) struct WithoutRealtime {
    /// Policy and priority to restore.
    before: Option<(usize, i32)>,
}

impl WithoutRealtime {
    pub(crate) fn begin() -> Self {
        let before = scheduling().filter(|(policy, _)| *policy != OTHER);
        // Another thread checks whether it can be restored: a process that was given the priority may not be allowed to
        // set it.
        let comes_back = |before: (usize, i32)| {
            let there_and_back = move || schedule(OTHER, 0).and_then(|()| schedule(before.0, before.1)).is_ok();
            room_for_one().is_ok() && std::thread::spawn(there_and_back).join().unwrap_or(false)
        };
        let before = before.filter(|before| comes_back(*before) && schedule(OTHER, 0).is_ok());
        Self { before }
    }
}

impl Drop for WithoutRealtime {
    fn drop(&mut self) {
        if let Some((policy, priority)) = self.before {
            // Whether it may was checked before.
            let _ = schedule(policy, priority);
        }
    }
}

/// Policy and priority of the calling thread.
fn scheduling() -> Option<(usize, i32)> {
    let mut priority = 0_i32;
    // SAFETY: the first takes no pointer; the second writes one int, as `struct sched_param` is, to a variable that
    // lives.
    let (policy, got) = unsafe {
        (syscall!(Sysno::sched_getscheduler, 0u32), syscall!(Sysno::sched_getparam, 0u32, &raw mut priority))
    };
    got.ok()?;
    Some((policy.ok()?, priority))
}

fn schedule(policy: usize, priority: i32) -> Result<(), Errno> {
    // SAFETY: it reads one int, as `struct sched_param` is, from a variable that lives.
    let outcome = unsafe { syscall!(Sysno::sched_setscheduler, 0u32, policy, &raw const priority) };
    outcome.map(drop).map_err(|errno| Errno::from_raw_os_error(errno.into_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watcher_drops_its_priority_and_takes_it_back() {
        std::thread::spawn(|| {
            /// `SCHED_FIFO` of linux/sched.h.
            const FIFO: usize = 1;
            if schedule(FIFO, 3).is_err() {
                println!("SKIPPED: no right to real-time priority here");
                return;
            }
            let worker = {
                let _ordinary = WithoutRealtime::begin();
                assert_eq!(scheduling(), Some((OTHER, 0)));
                std::thread::spawn(scheduling).join().unwrap()
            };
            assert_eq!((worker, scheduling()), (Some((OTHER, 0)), Some((FIFO, 3))));
        })
        .join()
        .unwrap();
    }

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
