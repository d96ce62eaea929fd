//! Many seeded runs on all processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Spreads the numbers over the processors; each disk is a separate run, so the order does not matter.
pub(crate) fn each<T: Send>(numbers: impl IntoIterator<Item = u64>, one: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = one(*number);
                    done.lock().expect("no thread panics with it").push((*number, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics with it");
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}
