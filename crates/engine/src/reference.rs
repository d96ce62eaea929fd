//! How fast this machine's processor is: the time to sort some numbers, which involves no disk.
//!
//! `qd1 predict` needs it for the part of a transaction that is not spent on the disk, and a Record keeps it so that
//! predictions can be made from it elsewhere. It takes 25 ms for each processor measured.
//!
//! Each processor is measured separately: in a virtual machine one may share its core with a busy neighbour and differ
//! in speed from the next by half for hours, and programs run on all of them.

use std::time::Duration;

use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoroshiro128Plus;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::threads::room_for_one;
use qd1_clock as clock;

/// How many numbers are sorted: 128 KiB of them, more than the L1 cache holds.
const NUMBERS: u64 = 16_384;
/// How many times they are sorted; the median counts. A shared processor is slow now and then, for longer than one
/// sort.
const TIMES: u64 = 5;
const PAUSE: Duration = Duration::from_millis(4);
/// Maximum number of processors measured.
const PROCESSORS: usize = 4;

/// Time to sort them, ns: the mean of the processors.
pub fn sort_ns() -> f64 {
    // A separate thread, whose affinity ends with it. Without one, measure wherever this thread happens to run.
    let took = match room_for_one().and_then(|()| std::thread::Builder::new().spawn(on_each)) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(_) => vec![median_ns()],
    };
    took.iter().sum::<f64>() / took.len() as f64
}

/// The median on each processor; on the current one if none can be chosen.
fn on_each() -> Vec<f64> {
    let allowed = sched_getaffinity(None::<Pid>).unwrap_or_else(|_| CpuSet::new());
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let chosen = all.iter().step_by(all.len().div_ceil(PROCESSORS).max(1));
    let took: Vec<f64> = chosen
        .filter_map(|cpu| {
            let mut alone = CpuSet::new();
            alone.set(*cpu);
            sched_setaffinity(None::<Pid>, &alone).ok().map(|()| median_ns())
        })
        .collect();
    if took.is_empty() { vec![median_ns()] } else { took }
}

fn median_ns() -> f64 {
    let mut took_ns: Vec<u64> = (0..TIMES).map(once_ns).collect();
    took_ns.sort_unstable();
    took_ns[took_ns.len() / 2] as f64
}

fn once_ns(time: u64) -> u64 {
    std::thread::sleep(PAUSE);
    let mut random = Xoroshiro128Plus::seed_from_u64(time);
    let mut numbers: Vec<u64> = (0..NUMBERS).map(|_| random.next_u64()).collect();
    let begin_ns = clock::now_ns();
    numbers.sort_unstable();
    let took_ns = clock::now_ns() - begin_ns;
    std::hint::black_box(numbers);
    took_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sorted_number_takes_between_a_nanosecond_and_a_millisecond() {
        let ns = sort_ns() / NUMBERS as f64;
        assert!((1.0..1e6).contains(&ns), "{ns}");
    }
}
