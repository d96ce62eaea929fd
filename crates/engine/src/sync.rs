//! psync and similar engines: the ways in which Linux can read or write at an offset and wait for the result. Programs
//! use all of them, and fio has an engine for each. One file for five engines, since each is just two system calls.

use std::io::{IoSlice, IoSliceMut};

use qd1_model::plan::EngineKind;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{
    Errno, ReadWriteFlags, pread, preadv, preadv2, pwrite, pwritev, pwritev2, read, readv, write, writev,
};

use crate::blocking::{Blocking, Calls};
use crate::engine::Setup;
use crate::handles::Handles;
use crate::request::Op;

pub(crate) type Psync = Blocking<Positional>;
pub(crate) type DurablePsync = Blocking<Durable>;
pub(crate) type Sync = Blocking<Seeking<false>>;
pub(crate) type Vsync = Blocking<Seeking<true>>;
pub(crate) type Pvsync = Blocking<Vectors>;
pub(crate) type Pvsync2 = Blocking<FlaggedVectors>;

/// pread and pwrite.
pub(crate) struct Positional;

impl Calls for Positional {
    const KIND: EngineKind = EngineKind::Psync;

    fn new(_setup: &Setup) -> Self {
        Self
    }

    #[inline(always)]
    fn read(&mut self, handles: &Handles, op: &Op, buffer: &mut [u8]) -> Result<usize, Errno> {
        pread(handles.fd(op.file), buffer, op.offset)
    }

    #[inline(always)]
    fn write(&mut self, handles: &Handles, op: &Op, buffer: &[u8]) -> Result<usize, Errno> {
        pwrite(handles.fd(op.file), buffer, op.offset)
    }
}

/// pread, and pwritev2 with RWF_DSYNC: each write is a commit, on a file opened like any other. A separate variant of
/// psync, so that the plain one has no branch for it.
pub(crate) struct Durable;

impl Calls for Durable {
    const KIND: EngineKind = EngineKind::Psync;

    fn new(_setup: &Setup) -> Self {
        Self
    }

    fn read(&mut self, handles: &Handles, op: &Op, buffer: &mut [u8]) -> Result<usize, Errno> {
        pread(handles.fd(op.file), buffer, op.offset)
    }

    fn write(&mut self, handles: &Handles, op: &Op, buffer: &[u8]) -> Result<usize, Errno> {
        pwritev2(handles.fd(op.file), &[IoSlice::new(buffer)], op.offset, ReadWriteFlags::DSYNC)
    }
}

/// preadv and pwritev, with a vector of one.
pub(crate) struct Vectors;

impl Calls for Vectors {
    const KIND: EngineKind = EngineKind::Pvsync;

    fn new(_setup: &Setup) -> Self {
        Self
    }

    fn read(&mut self, handles: &Handles, op: &Op, buffer: &mut [u8]) -> Result<usize, Errno> {
        preadv(handles.fd(op.file), &mut [IoSliceMut::new(buffer)], op.offset)
    }

    fn write(&mut self, handles: &Handles, op: &Op, buffer: &[u8]) -> Result<usize, Errno> {
        pwritev(handles.fd(op.file), &[IoSlice::new(buffer)], op.offset)
    }
}

/// preadv2 and pwritev2, with a vector of one: the calls that take flags for each request.
pub(crate) struct FlaggedVectors {
    flags: ReadWriteFlags,
}

impl Calls for FlaggedVectors {
    const KIND: EngineKind = EngineKind::Pvsync2;

    fn new(setup: &Setup) -> Self {
        let flags = if setup.tuning.hipri { ReadWriteFlags::HIPRI } else { ReadWriteFlags::empty() };
        Self { flags }
    }

    fn read(&mut self, handles: &Handles, op: &Op, buffer: &mut [u8]) -> Result<usize, Errno> {
        preadv2(handles.fd(op.file), &mut [IoSliceMut::new(buffer)], op.offset, self.flags)
    }

    fn write(&mut self, handles: &Handles, op: &Op, buffer: &[u8]) -> Result<usize, Errno> {
        pwritev2(handles.fd(op.file), &[IoSlice::new(buffer)], op.offset, self.flags)
    }
}

/// lseek, unless the file is already there, then read and write or, with `VECTORS`, readv and writev.
///
/// The position belongs to the open file description, so nobody else may use the descriptors at the same time: each
/// engine gets files that were opened for it.
pub(crate) struct Seeking<const VECTORS: bool> {
    /// The position of each file; `UNKNOWN` before its first request and after a failure.
    places: Vec<u64>,
}

/// No request can have this offset: offsets end at 2^63.
const UNKNOWN: u64 = u64::MAX;

impl<const VECTORS: bool> Seeking<VECTORS> {
    /// Seeks to the request's offset, lets `transfer` do the work, and records the new position.
    fn at(
        &mut self,
        handles: &Handles,
        op: &Op,
        transfer: impl FnOnce() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let place = &mut self.places[usize::from(op.file)];
        if std::mem::replace(place, UNKNOWN) != op.offset {
            seek(handles.fd(op.file), SeekFrom::Start(op.offset))?;
        }
        let count = transfer()?;
        *place = op.offset + count as u64;
        Ok(count)
    }
}

impl<const VECTORS: bool> Calls for Seeking<VECTORS> {
    const KIND: EngineKind = if VECTORS { EngineKind::Vsync } else { EngineKind::Sync };

    fn new(setup: &Setup) -> Self {
        Self { places: vec![UNKNOWN; setup.files.len()] }
    }

    fn read(&mut self, handles: &Handles, op: &Op, buffer: &mut [u8]) -> Result<usize, Errno> {
        let fd = handles.fd(op.file);
        self.at(handles, op, || if VECTORS { readv(fd, &mut [IoSliceMut::new(buffer)]) } else { read(fd, buffer) })
    }

    fn write(&mut self, handles: &Handles, op: &Op, buffer: &[u8]) -> Result<usize, Errno> {
        let fd = handles.fd(op.file);
        self.at(handles, op, || if VECTORS { writev(fd, &[IoSlice::new(buffer)]) } else { write(fd, buffer) })
    }
}
