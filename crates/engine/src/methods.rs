//! Whether a filesystem supports a way to make writes durable: some refuse O_DIRECT, older kernels and FUSE filesystems
//! a flag of a single write. A single write finds out before a run is planned with it.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use qd1_model::plan::{EngineKind, Sync};
use rustix::io::Errno;

use crate::backing::{OpenAs, Target};
use crate::buf::Buffers;
use crate::engine::Setup;
use crate::error::EngineError;
use crate::open;
use crate::request::{Op, OpKind};
use crate::run::tuning;

/// Makes `len` bytes of our own file durable in this way.
///
/// # Errors
/// With the path, the call that was refused, and why.
pub fn try_method(target: &Target, sync: Sync, direct: bool, len: u32) -> Result<(), EngineError> {
    let file = target.open(OpenAs { write: true, direct, sync })?;
    let buffers = Arc::new(Buffers::new(1, len, 1)?);
    let files = vec![file.as_raw_fd()];
    let mut engine = open(EngineKind::Psync, Setup { files, iodepth: 1, buffers, sim: None, tuning: tuning(sync) })?;
    let (write, call) = calls(sync);
    let ops = [(Some(OpKind::Write), write, len), (call.map(|(kind, _)| kind), call.map_or("", |(_, name)| name), 0)];
    for (kind, name, len) in ops {
        let Some(kind) = kind else { continue };
        let done = engine.one(0, &Op { kind, file: 0, len, offset: 0 })?;
        if done.result < 0 {
            return Err(EngineError::path(name, target.path(), Errno::from_raw_os_error(-done.result)));
        }
        if done.result != len as i32 {
            // write(2): fewer bytes are written if there is no room for more.
            return Err(EngineError::path(name, target.path(), Errno::NOSPC));
        }
    }
    Ok(())
}

/// The name of the call that writes, and the call that follows.
const fn calls(sync: Sync) -> (&'static str, Option<(OpKind, &'static str)>) {
    match sync {
        Sync::Fsync | Sync::EndFsync => ("write to", Some((OpKind::Fsync, "fsync"))),
        Sync::Fdatasync => ("write to", Some((OpKind::Fdatasync, "fdatasync"))),
        Sync::SyncFileRange => ("write to", Some((OpKind::SyncFileRange, "sync_file_range"))),
        Sync::RwfDsync => ("write with RWF_DSYNC to", None),
        Sync::OSync | Sync::ODsync | Sync::None => ("write to", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disks_filesystem_takes_every_method_through_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        for sync in [Sync::Fdatasync, Sync::Fsync, Sync::ODsync, Sync::OSync, Sync::RwfDsync, Sync::SyncFileRange] {
            try_method(&Target::create_in(dir.path(), "method").unwrap(), sync, false, 512)
                .unwrap_or_else(|error| panic!("{sync:?}: {error}"));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_refused_names_the_call() {
        let dir = tempfile::tempdir().unwrap();
        // Direct I/O of three bytes is refused wherever it really is direct; elsewhere there is nothing to refuse.
        if let Err(error) = try_method(&Target::create_in(dir.path(), "method").unwrap(), Sync::Fdatasync, true, 3) {
            let said = error.to_string();
            assert!(said.contains("EINVAL") && said.contains(dir.path().to_str().unwrap()), "{said}");
        }
    }
}
