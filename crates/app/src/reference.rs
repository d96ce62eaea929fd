//! How fast this machine's processor is: what it takes to sort some numbers, where no disk is met.
//!
//! `qd1 predict` needs it for the part of a transaction that is not the disk's, and a Record keeps it so that predictions can be
//! made of it elsewhere. It takes 50 ms, before anything is measured.

use std::time::Duration;

use qd1_engine::clock;

/// Numbers that are sorted: 128 KiB of them, more than the nearest cache holds.
const NUMBERS: u64 = 16_384;
/// Times that they are sorted; the median counts. A shared processor is slow now and then, and slow for longer than one.
const TIMES: u64 = 11;
const PAUSE: Duration = Duration::from_millis(4);

/// Time to sort them, ns.
pub(crate) fn sort_ns() -> f64 {
    let mut took_ns: Vec<u64> = (0..TIMES).map(once_ns).collect();
    took_ns.sort_unstable();
    took_ns[took_ns.len() / 2] as f64
}

fn once_ns(time: u64) -> u64 {
    std::thread::sleep(PAUSE);
    let mut random = fastrand::Rng::with_seed(time);
    let mut numbers: Vec<u64> = (0..NUMBERS).map(|_| random.u64(..)).collect();
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
    fn sorting_takes_more_than_a_nanosecond_a_number_and_less_than_a_millisecond() {
        let ns = sort_ns() / NUMBERS as f64;
        assert!((1.0..1e6).contains(&ns), "{ns}");
    }
}
