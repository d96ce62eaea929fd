//! Page-aligned buffers, one per slot, filled with data that neither compresses nor deduplicates.

use std::ffi::c_void;
use std::ptr::NonNull;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::EngineError;

/// Data is made unique at this granularity: the smallest block that storage deduplicates.
const STAMP_EVERY: usize = 4096;

/// A block of memory cut into equal, page-aligned slots that the kernel reads and writes while I/O is in flight.
///
/// Only the worker that owns it touches it, and only slots with nothing in flight.
pub struct Buffers {
    base: NonNull<u8>,
    length: usize,
    stride: usize,
    slots: u32,
}

// SAFETY: the memory is owned by this value, and every access goes through raw pointers whose exclusivity the
// worker guarantees (one request per slot, one worker per Buffers); nothing is tied to the creating thread.
unsafe impl Send for Buffers {}
// SAFETY: as above: shared references only hand out raw pointers.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// `slots` buffers of `size` bytes each, filled from `seed`.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(slots: u32, size: u32, seed: u64) -> Result<Self, EngineError> {
        let stride = (size as usize).max(1).next_multiple_of(4096);
        let length = stride * slots as usize;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }
        .map_err(|errno| EngineError::Broken { engine: "buffers", op: "mmap", errno })?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap never returns null on success");
        // SAFETY: the mapping is `length` bytes long, zeroed, and not shared yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), length) };
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(bytes);
        Ok(Self { base, length, stride, slots })
    }

    /// The buffer of `slot`.
    #[inline]
    pub fn ptr(&self, slot: u32) -> *mut u8 {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: slot < slots, so the offset stays inside the mapping.
        unsafe { self.base.as_ptr().add(self.stride * slot as usize) }
    }

    /// Bytes of one buffer.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The whole memory, for registration with the kernel.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.base.as_ptr(), self.length)
    }

    /// Makes each 4 KiB block among the first `len` bytes of `slot` unlike any written before, by writing
    /// `stamp` (unique per request) and the block's number to its start.
    ///
    /// Must not be called while a request on `slot` is in flight.
    #[inline]
    pub fn stamp(&self, slot: u32, len: u32, stamp: u64) {
        let buffer = self.ptr(slot);
        let mut at = 0;
        while at + 8 <= len as usize {
            let unique = stamp.wrapping_add((at as u64) << 44).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            // SAFETY: at + 8 <= len <= stride (the worker never asks for more than it opened with), and the
            // slot has no request in flight, so nothing else reads or writes these bytes.
            unsafe { buffer.add(at).cast::<u64>().write_unaligned(unique) };
            at += STAMP_EVERY;
        }
    }

    /// Lets `f` write the first `len` bytes of `slot`: the data of the request to come.
    ///
    /// Must not be called while a request on `slot` is in flight.
    #[inline]
    pub fn fill(&self, slot: u32, len: usize, f: impl FnOnce(&mut [u8])) {
        assert!(len <= self.stride, "{len} bytes of {}", self.stride);
        // SAFETY: len is inside the slot, and with no request in flight on it only this worker, whose attention is
        // inside `f`, reads or writes it.
        f(unsafe { std::slice::from_raw_parts_mut(self.ptr(slot), len) });
    }

    /// Shows `f` the first `len` bytes of `slot`: what a read brought.
    ///
    /// Must not be called while a request on `slot` is in flight.
    #[inline]
    pub fn look<R>(&self, slot: u32, len: usize, f: impl FnOnce(&[u8]) -> R) -> R {
        assert!(len <= self.stride, "{len} bytes of {}", self.stride);
        // SAFETY: as in `fill`; nothing writes there while `f` looks.
        f(unsafe { std::slice::from_raw_parts(self.ptr(slot), len) })
    }

    /// A copy of the first `len` bytes of `slot`, for tests and verification.
    pub fn copy(&self, slot: u32, len: usize) -> Vec<u8> {
        self.look(slot, len, <[u8]>::to_vec)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping made in `new`, and no request is in flight any more:
        // engines hold an Arc of these buffers until they have drained.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_page_aligned_and_distinct() {
        let buffers = Buffers::new(4, 2300, 1).unwrap();
        for slot in 0..4 {
            assert_eq!(buffers.ptr(slot) as usize % 4096, 0);
        }
        assert_ne!(buffers.copy(0, 2300), buffers.copy(1, 2300));
    }

    #[test]
    fn what_is_filled_in_is_seen_and_nothing_else_changes() {
        let buffers = Buffers::new(2, 4096, 1).unwrap();
        let before = (buffers.copy(0, 4096), buffers.copy(1, 4096));
        buffers.fill(0, 100, |bytes| bytes.fill(7));
        assert!(buffers.look(0, 100, |bytes| bytes.len() == 100 && bytes.iter().all(|byte| *byte == 7)));
        assert_eq!((&buffers.copy(0, 4096)[100..], buffers.copy(1, 4096)), (&before.0[100..], before.1));
    }

    #[test]
    fn every_stamped_block_differs_from_every_other() {
        let buffers = Buffers::new(1, 1 << 20, 7).unwrap();
        let mut seen = std::collections::HashSet::new();
        for stamp in 0..20u64 {
            buffers.stamp(0, 1 << 20, stamp);
            for block in buffers.copy(0, 1 << 20).chunks(4096) {
                assert!(seen.insert(block.to_vec()), "a block was repeated");
            }
        }
    }

    #[test]
    fn zeros_are_rare_so_the_data_does_not_compress() {
        let buffers = Buffers::new(1, 1 << 20, 3).unwrap();
        let bytes = buffers.copy(0, 1 << 20);
        let mut counts = [0u64; 256];
        bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
        let n = bytes.len() as f64;
        let entropy: f64 = counts.iter().map(|c| *c as f64 / n).map(|p| -p * p.log2()).sum();
        assert!(entropy > 7.99, "{entropy} bits per byte");
    }
}
