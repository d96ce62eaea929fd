//! Work that takes seconds, on all processors.

use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use qd1_engine::threads::room_for_one;

/// Most threads.
const THREADS_MAX: usize = 8;

/// Returns what `of` makes of each item, in their order.
///
/// # Errors
/// The first of `of`.
pub fn each<I: Send, T: Send>(items: Vec<I>, of: impl Fn(I) -> Result<T> + Sync) -> Result<Vec<T>> {
    let items = Mutex::new(items.into_iter().enumerate());
    all(|| {
        let (number, item) = items.lock().unwrap_or_else(PoisonError::into_inner).next()?;
        Some((number, of(item)))
    })
}

/// Returns what `next` makes, in the order of its numbers, until it has nothing more: each processor asks again and again.
///
/// # Errors
/// The first of `next`.
pub fn all<T: Send>(next: impl Fn() -> Option<(usize, Result<T>)> + Sync) -> Result<Vec<T>> {
    let made: Mutex<Vec<(usize, Result<T>)>> = Mutex::default();
    let one = || {
        let (number, one) = next()?;
        let is_made = one.is_ok();
        made.lock().unwrap_or_else(PoisonError::into_inner).push((number, one));
        is_made.then_some(())
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let go_on = || while one().is_some() {};
    thread::scope(|scope| {
        // If no more threads can be started, this one does it all.
        let start = || room_for_one().and_then(|()| thread::Builder::new().spawn_scoped(scope, go_on));
        let _others: Vec<_> = (1..processors.min(THREADS_MAX)).map_while(|_| start().ok()).collect();
        go_on();
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_unstable_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, one)| one).collect()
}
