//! Many seeded runs on all processors.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `of` gives for each number, in their order.
pub(crate) fn on_all_processors<T: Send>(numbers: Range<u64>, of: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let numbers: Vec<u64> = numbers.collect();
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = of(*number);
                    all.lock().expect("no thread panics with it").push((*number, one));
                }
            });
        }
    });
    let mut all = all.into_inner().expect("no thread panics with it");
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, one)| one).collect()
}
