//! Whether the data a job reads is on the disk at all: extents that were never written, and blocks of zeros on storage
//! that does not store them, are served without the disk and give figures that no program will see.

use qd1_engine::backing::Target;
use qd1_fio::FioJob;
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{Advice, Mode, OFlags};

use crate::files::{FileKind, FilePlan};

/// Number of blocks sampled in each file.
const SAMPLES: u64 = 32;
/// Bytes of a sampled block: no filesystem or device uses smaller ones.
const BLOCK: u64 = 4096;

/// Reasons why the figures of a job that reads existing files may be too good, one sentence per file.
pub(crate) fn doubts(job: &FioJob, files: &[FilePlan]) -> Vec<String> {
    let reads = job.rw.kind.reads() && job.ioengine.moves_data();
    let there = |file: &&FilePlan| match file.kind {
        FileKind::Regular => file.exists && file.have >= file.needed(),
        FileKind::Block => true,
        FileKind::Character | FileKind::Nothing => false,
    };
    files
        .iter()
        .filter(|_| reads)
        .filter(there)
        .filter_map(|file| unwritten(job, file).or_else(|| zeros(job, file)))
        .collect()
}

fn unwritten(job: &FioJob, file: &FilePlan) -> Option<String> {
    if file.kind != FileKind::Regular {
        return None;
    }
    let extents = Target::existing(&file.path).extents(file.needed())?;
    let empty = extents.unwritten.0 + extents.hole.0;
    (empty > 0).then(|| {
        format!(
            "job `{}`: {} of {} bytes of {} were never written: reading them does not touch the disk, so the figures \
             are too good; delete the file so that it is created again, or write all of it first",
            job.name,
            empty,
            file.needed(),
            file.path.display()
        )
    })
}

/// Samples some blocks of the part that is used. It is no accident if more than half of them are zero.
fn zeros(job: &FioJob, file: &FilePlan) -> Option<String> {
    let blocks = file.extent.length / BLOCK;
    if blocks < SAMPLES {
        return None;
    }
    let fd = rustix::fs::open(&file.path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // Read-ahead would bring in more than is sampled.
    let _ = rustix::fs::fadvise(&fd, 0, None, Advice::Random);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(file.extent.length);
    let mut block = [0; BLOCK as usize];
    let mut zero = 0;
    for _ in 0..SAMPLES {
        let at = file.extent.start + rng.next_u64() % blocks * BLOCK;
        let read = rustix::io::pread(&fd, &mut block, at).ok()?;
        zero += u64::from(block[..read].iter().all(|byte| *byte == 0));
    }
    let _ = rustix::fs::fadvise(&fd, 0, None, Advice::DontNeed);
    (zero * 2 > SAMPLES).then(|| {
        format!(
            "job `{}`: {zero} of {SAMPLES} sampled blocks of {} hold only zeros: storage that does not store zeros, \
             or a volume that was never written, answers without the disk, so the figures may be too good; fill it \
             with random data first",
            job.name,
            file.path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Extent;

    fn plan(path: &std::path::Path) -> FilePlan {
        let length = std::fs::metadata(path).unwrap().len();
        let extent = Extent { start: 0, length };
        FilePlan { path: path.to_owned(), kind: FileKind::Regular, extent, exists: true, have: length }
    }

    fn doubts_about(bytes: &[u8]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, bytes).unwrap();
        // Delayed allocation is over once it is synced.
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        doubts(&FioJob::new("t"), &[plan(&path)])
    }

    #[test]
    fn a_sparse_file_is_reported_where_extents_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let found = doubts(&FioJob::new("t"), &[plan(&path)]);
        let knows = Target::existing(&path).extents(1 << 20).is_some();
        assert!(found[0].contains(if knows { "never written" } else { "only zeros" }), "{found:?}");
    }

    #[test]
    fn written_zeros_are_reported_and_data_is_not() {
        assert!(doubts_about(&vec![0; 1 << 20])[0].contains("only zeros"));
        let mut data = vec![0; 1 << 20];
        Xoshiro256PlusPlus::seed_from_u64(3).fill_bytes(&mut data);
        assert!(doubts_about(&data).is_empty(), "{:?}", doubts_about(&data));
        data[..300_000].fill(0);
        assert!(doubts_about(&data).is_empty(), "a third may be zero");
    }
}
