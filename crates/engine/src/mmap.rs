//! mmap: files as memory. A read is a copy out of the mapping and a write a copy into it; the page faults are the I/O,
//! and msync makes it durable. What databases such as LMDB and MongoDB's first engine do.
//!
//! A mapping ends at the end of its file: a read there is short, as with pread, and a write cannot make the file
//! longer. A fault that the kernel cannot serve (a bad sector, a full filesystem, a truncated file) becomes the
//! request's EIO instead of ending the process: see `mmap/fault.rs`.

mod fault;

use std::ffi::c_void;
use std::ptr::NonNull;

use qd1_model::plan::EngineKind;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

use crate::blocking::{Blocking, Calls};
use crate::engine::Setup;
use crate::handles::{Handles, result_of};
use crate::request::{Op, OpKind};

pub(crate) type Mmap = Blocking<Mapped>;

/// Maximum size of a mapping: more than most files, less than the address space.
const WINDOW_MAX: u64 = if cfg!(target_pointer_width = "64") { 1 << 40 } else { 1 << 28 };
/// Windows begin at multiples of half their length, so that a request of up to half a window always lies in one.
const WINDOW_MIN: u64 = 1 << 20;

/// A stretch of a file in memory; unmapped when dropped.
struct Window {
    base: NonNull<u8>,
    /// Of the first byte in the file.
    offset: u64,
    length: usize,
    writable: bool,
}

impl Window {
    /// Maps `length` bytes at `offset`, for writing where the file is open for it.
    fn new(handles: &Handles, file: u16, offset: u64, length: usize) -> Result<Self, Errno> {
        let map = |protection| {
            // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing in this process. What
            // others do to the file's bytes is seen through raw pointers only.
            unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, handles.fd(file), offset) }
        };
        let (base, writable) = match map(ProtFlags::READ | ProtFlags::WRITE) {
            Err(Errno::ACCESS) => (map(ProtFlags::READ)?, false),
            outcome => (outcome?, true),
        };
        Ok(Self { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, offset, length, writable })
    }

    fn holds(&self, offset: u64, len: usize) -> bool {
        offset >= self.offset && offset - self.offset + len as u64 <= self.length as u64
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping, and pointers into it live no longer than a request.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.length) };
    }
}

/// What is known about one file.
#[derive(Default)]
struct View {
    /// Its length when last checked. It is checked again when a request lies beyond it.
    length: u64,
    window: Option<Window>,
}

pub(crate) struct Mapped {
    views: Vec<View>,
    /// Longest window that the address space allows (`ulimit -v`).
    window_max: u64,
}

impl Mapped {
    /// Where the request's bytes are, and how many of them there are before the end of the file.
    fn locate(&mut self, handles: &Handles, op: &Op) -> Result<(*mut u8, usize, bool), Errno> {
        let view = &mut self.views[usize::from(op.file)];
        if op.offset.saturating_add(u64::from(op.len)) > view.length {
            view.length = seek(handles.fd(op.file), SeekFrom::End(0))?;
        }
        let len = view.length.saturating_sub(op.offset).min(u64::from(op.len)) as usize;
        if len == 0 {
            return Ok((std::ptr::null_mut(), 0, true));
        }
        while !view.window.as_ref().is_some_and(|window| window.holds(op.offset, len)) {
            // There might not be room for two windows at the same time.
            view.window = None;
            let offset = op.offset / (self.window_max / 2) * (self.window_max / 2);
            let length = (view.length - offset).min(self.window_max) as usize;
            match Window::new(handles, op.file, offset, length) {
                Err(Errno::NOMEM) if self.window_max / 4 >= (len as u64).max(WINDOW_MIN / 2) => self.window_max /= 2,
                outcome => view.window = Some(outcome?),
            }
        }
        let window = view.window.as_ref().expect("it was just created");
        // SAFETY: the request's bytes lie inside the window, as `holds` says.
        let at = unsafe { window.base.as_ptr().add((op.offset - window.offset) as usize) };
        Ok((at, len, window.writable))
    }

    /// Copies between a mapping and a buffer. A missing page is the request's EIO.
    ///
    /// # Safety
    /// `len` bytes at both places, of which only those at `mapped` lie in a mapping of this file.
    unsafe fn copy(
        &mut self,
        file: u16,
        from: *const u8,
        to: *mut u8,
        mapped: *const u8,
        len: usize,
    ) -> Result<usize, Errno> {
        // SAFETY: the caller's promise; buffers and mappings do not overlap.
        let whole = fault::guarded(mapped, len, || unsafe { std::ptr::copy_nonoverlapping(from, to, len) });
        if whole {
            return Ok(len);
        }
        // The guard put a blank page there instead of the file's, so this mapping is no longer usable.
        self.views[usize::from(file)] = View::default();
        Err(Errno::IO)
    }
}

impl Calls for Mapped {
    const KIND: EngineKind = EngineKind::Mmap;

    fn new(setup: &Setup) -> Self {
        fault::install();
        Self { views: setup.files.iter().map(|_| View::default()).collect(), window_max: WINDOW_MAX }
    }

    fn read(&mut self, handles: &Handles, op: &Op, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (at, len, _) = self.locate(handles, op)?;
        // SAFETY: len bytes lie at `at`, and the buffer holds op.len, which is no less.
        unsafe { self.copy(op.file, at, buffer.as_mut_ptr(), at, len) }
    }

    fn write(&mut self, handles: &Handles, op: &Op, buffer: &[u8]) -> Result<usize, Errno> {
        let (at, len, writable) = self.locate(handles, op)?;
        if !writable {
            return Err(Errno::BADF);
        }
        if len == 0 && op.len > 0 {
            return Err(Errno::NXIO);
        }
        // SAFETY: as in `read`; the mapping is writable.
        unsafe { self.copy(op.file, buffer.as_ptr(), at, at, len) }
    }

    fn sync_or_trim(&mut self, handles: &Handles, op: &Op) -> i32 {
        let view = &self.views[usize::from(op.file)];
        match (&view.window, op.kind) {
            // If the window is the whole file. Otherwise dirty pages may lie outside it, and only fsync finds those.
            (Some(window), OpKind::Fsync | OpKind::Fdatasync) if window.length as u64 == view.length => {
                // SAFETY: base and length are those of the mapping; msync changes no memory.
                let outcome = unsafe { msync(window.base.as_ptr().cast::<c_void>(), window.length, MsyncFlags::SYNC) };
                result_of(outcome.map(|()| 0))
            }
            _ => handles.sync_or_trim(op),
        }
    }
}
