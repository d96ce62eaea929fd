//! Page-aligned buffers, one per slot, filled with data that neither compresses nor deduplicates, or does so as
//! requested.

use std::ffi::c_void;
use std::ptr::NonNull;

use qd1_model::plan::Data;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::EngineError;

/// Data is made unique at this granularity: the smallest block that storage deduplicates.
const STAMP_EVERY: usize = 4096;

/// Requests this large hold enough distinct data: their slots are identical except for the stamps, so that the data
/// written, for example to the test file, does not depend on which of several requests in flight completes first.
const ALIKE_FROM: usize = 1 << 20;

/// A block of memory cut into equal, page-aligned slots that the kernel reads and writes while I/O is in flight.
///
/// Only the worker that owns it touches it, and only slots with nothing in flight.
pub struct Buffers {
    base: NonNull<u8>,
    length: usize,
    stride: usize,
    slots: u32,
    /// Where stamps begin: at 0, or after the end of the buffer for data that is to repeat.
    first_stamp: usize,
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
    /// When there is not enough memory.
    pub fn new(slots: u32, size: u32, seed: u64) -> Result<Self, EngineError> {
        Self::with_data(slots, size, seed, Data::Random)
    }

    /// The same with data of this kind.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn with_data(slots: u32, size: u32, seed: u64, data: Data) -> Result<Self, EngineError> {
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
        let (first, rest) = bytes.split_at_mut(if stride >= ALIKE_FROM { stride } else { length });
        fill_as(first, seed, data);
        rest.chunks_mut(stride).for_each(|slot| slot.copy_from_slice(first));
        let first_stamp = if matches!(data, Data::Zeros | Data::Repeated) { stride } else { 0 };
        Ok(Self { base, length, stride, slots, first_stamp })
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
    /// `stamp` (unique per request) and the block's number to its start. Data that is to repeat is left as it is.
    ///
    /// Must not be called while a request on `slot` is in flight.
    #[inline]
    pub fn stamp(&self, slot: u32, len: u32, stamp: u64) {
        debug_assert!(len as usize <= self.stride, "no request is longer than the buffers it was opened with");
        let buffer = self.ptr(slot);
        let mut at = self.first_stamp;
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
    pub fn fill<R>(&self, slot: u32, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(len <= self.stride, "{len} bytes of {}", self.stride);
        // SAFETY: len is inside the slot, and with no request in flight on it only this worker, whose attention is
        // inside `f`, reads or writes it.
        f(unsafe { std::slice::from_raw_parts_mut(self.ptr(slot), len) })
    }

    /// Shows `f` the first `len` bytes of `slot`: what a read returned.
    ///
    /// Must not be called while a request on `slot` is in flight.
    #[inline]
    pub fn inspect<R>(&self, slot: u32, len: usize, f: impl FnOnce(&[u8]) -> R) -> R {
        assert!(len <= self.stride, "{len} bytes of {}", self.stride);
        // SAFETY: as in `fill`; nothing writes there while `f` looks.
        f(unsafe { std::slice::from_raw_parts(self.ptr(slot), len) })
    }

    /// A copy of the first `len` bytes of `slot`, for tests and verification.
    pub fn copy(&self, slot: u32, len: usize) -> Vec<u8> {
        self.inspect(slot, len, <[u8]>::to_vec)
    }
}

/// Fills fresh, zeroed memory with data of this kind.
fn fill_as(bytes: &mut [u8], seed: u64, data: Data) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    match data {
        Data::Random => rng.fill_bytes(bytes),
        Data::Zeros => {}
        Data::Compressible { percent } => {
            // Room for the stamp is kept, so that no two blocks are equal.
            let random = (STAMP_EVERY * usize::from(100 - percent.min(100)) / 100).max(8);
            bytes.chunks_mut(STAMP_EVERY).for_each(|block| rng.fill_bytes(&mut block[..random]));
        }
        Data::Repeated => {
            let (first, rest) = bytes.split_at_mut(STAMP_EVERY);
            rng.fill_bytes(first);
            rest.chunks_mut(STAMP_EVERY).for_each(|block| block.copy_from_slice(first));
        }
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
    fn data_of_large_requests_depends_on_their_number_and_not_on_their_slot() {
        let size = 1 << 20;
        let buffers = Buffers::new(4, size, 1).unwrap();
        (0..4).for_each(|slot| buffers.stamp(slot, size, 9));
        let first = buffers.copy(0, size as usize);
        assert!((1..4).all(|slot| buffers.copy(slot, size as usize) == first));
        buffers.stamp(1, size, 10);
        let other = buffers.copy(1, size as usize);
        assert!(first.chunks(4096).zip(other.chunks(4096)).all(|(one, other)| one != other));
    }

    #[test]
    fn what_is_filled_in_is_seen_and_nothing_else_changes() {
        let buffers = Buffers::new(2, 4096, 1).unwrap();
        let before = (buffers.copy(0, 4096), buffers.copy(1, 4096));
        buffers.fill(0, 100, |bytes| bytes.fill(7));
        assert!(buffers.inspect(0, 100, |bytes| bytes.len() == 100 && bytes.iter().all(|byte| *byte == 7)));
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

    /// Bits per byte by the counts of the bytes.
    fn entropy(bytes: &[u8]) -> f64 {
        let mut counts = [0u64; 256];
        bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
        let n = bytes.len() as f64;
        counts.iter().filter(|c| **c > 0).map(|c| *c as f64 / n).map(|p| -p * p.log2()).sum()
    }

    #[test]
    fn compressible_data_has_its_zeros_and_no_two_equal_blocks() {
        let buffers = Buffers::with_data(2, 1 << 20, 7, Data::Compressible { percent: 75 }).unwrap();
        let mut seen = std::collections::HashSet::new();
        for (slot, stamp) in [(0, 1), (1, 2), (0, 3)] {
            buffers.stamp(slot, 1 << 20, stamp);
            let bytes = buffers.copy(slot, 1 << 20);
            let zeros = bytes.iter().filter(|byte| **byte == 0).count() as f64 / bytes.len() as f64;
            assert!((zeros - 0.75).abs() < 0.01, "{zeros}");
            assert!(bytes.chunks(4096).all(|block| seen.insert(block.to_vec())), "a block was repeated");
        }
    }

    #[test]
    fn repeated_data_is_one_incompressible_block_and_zeros_stay() {
        let zeros = Buffers::with_data(1, 8192, 7, Data::Zeros).unwrap();
        zeros.stamp(0, 8192, 5);
        assert!(zeros.copy(0, 8192).iter().all(|byte| *byte == 0));
        let repeated = Buffers::with_data(2, 65_536, 7, Data::Repeated).unwrap();
        repeated.stamp(1, 65_536, 5);
        let first = repeated.copy(0, 4096);
        assert!(entropy(&first) > 7.9);
        assert!((0..2).all(|slot| repeated.copy(slot, 65_536).chunks(4096).all(|block| block == first)));
    }

    #[test]
    fn zeros_are_rare_so_the_data_does_not_compress() {
        let buffers = Buffers::new(1, 1 << 20, 3).unwrap();
        let entropy = entropy(&buffers.copy(0, 1 << 20));
        assert!(entropy > 7.99, "{entropy} bits per byte");
    }
}
