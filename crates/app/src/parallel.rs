//! Work that takes seconds, on all processors.

use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;

/// Threads at most.
const THREADS_MAX: usize = 8;

/// Returns what `of` makes of each item, in their order.
///
/// # Errors
/// The first of `of`.
pub(crate) fn each<I: Send, T: Send>(items: Vec<I>, of: impl Fn(I) -> Result<T> + Sync) -> Result<Vec<T>> {
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
pub(crate) fn all<T: Send>(next: impl Fn() -> Option<(usize, Result<T>)> + Sync) -> Result<Vec<T>> {
    let made: Mutex<Vec<(usize, Result<T>)>> = Mutex::default();
    let one = || {
        let (number, one) = next()?;
        let is_made = one.is_ok();
        made.lock().unwrap_or_else(PoisonError::into_inner).push((number, one));
        is_made.then_some(())
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        (0..processors.min(THREADS_MAX)).for_each(|_| drop(scope.spawn(|| while one().is_some() {})));
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_unstable_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, one)| one).collect()
}
