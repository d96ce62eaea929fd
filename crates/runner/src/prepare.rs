//! Prepares the target: writes the whole shared test file, or opens the existing file or device.

use anyhow::Result;
use qd1_engine::backing::{Target, fill};
use qd1_engine::run::Decision;
use qd1_model::plan::{Arrival, FileUse, IoWork, StepPlan, TargetKind};
use qd1_model::record::Prepare;

use crate::context::Run;
use crate::test_file::TestFile;
use crate::watch::Watch;

impl Run<'_> {
    /// Creates the shared file and writes all of it, or opens the existing file or device.
    pub(crate) fn open_shared(&mut self, watch: &mut dyn Watch) -> Result<()> {
        let target = &self.plan.target;
        let shared = match target.kind {
            TargetKind::Directory if !self.plan.needs_shared_file() => return Ok(()),
            TargetKind::Directory => TestFile::create(&target.path, &self.context.id)?,
            TargetKind::File => {
                let existing = Target::existing(&target.path);
                // Nothing was written: only the extents are of interest.
                let extents = existing.extents(target.size.0);
                self.prepared = extents.is_some().then(|| Prepare { extents, ..Prepare::default() });
                existing.into()
            }
            TargetKind::BlockReadOnly => Target::existing(&target.path).into(),
            TargetKind::BlockDestroy => Target::exclusive(&target.path)?.into(),
        };
        if matches!(target.kind, TargetKind::Directory | TargetKind::BlockDestroy) {
            watch.prepare(target.size);
            let mut report = |now: &qd1_engine::run::Progress<'_>| {
                watch.prepared(now);
                Decision::Continue
            };
            let (size, seed) = (target.size.0, self.plan.seed);
            let filled =
                fill(&shared, size, target.prepare_max_ns, target.direct, seed, self.context.cancel, &mut report)?;
            if let Some(error) = filled.errors.first() {
                anyhow::bail!(
                    "writing the test file failed: {} at offset {}; check that the disk and the quota have room for {}",
                    error.error,
                    error.first_offset,
                    target.size
                );
            }
            debug_assert!(filled.prepare.bytes.0 <= size, "more was written than the test file holds");
            self.shrink_to(filled.prepare.bytes.0);
            self.plan.steps.iter_mut().for_each(|step| limit_load(&mut step.background, &filled.prepare));
            // If the user ended it, the disk is not too slow.
            let shortened = filled.prepare.shortened && !self.context.is_cancelled();
            self.prepared = Some(Prepare { shortened, ..filled.prepare });
        }
        self.shared = Some(shared);
        Ok(())
    }

    /// Limits all steps to the part that was written, on a disk too slow to write the whole file in time.
    fn shrink_to(&mut self, bytes: u64) {
        self.plan.target.size.0 = self.plan.target.size.0.min(bytes);
        let works = self.plan.steps.iter_mut().flat_map(StepPlan::works_mut);
        works.filter(|io| io.file == FileUse::Shared).for_each(|io| io.size.0 = io.size.0.min(bytes));
    }
}

/// Limits a load's writes to half the rate at which the disk wrote the test file.
fn limit_load(background: &mut [IoWork], prepare: &Prepare) {
    if prepare.elapsed_ns == 0 {
        return;
    }
    let bytes_per_second = prepare.bytes.0 as f64 * 1e9 / prepare.elapsed_ns as f64;
    for work in background.iter_mut().filter(|work| work.rw.writes()) {
        let block = f64::from(work.block_max());
        if let Arrival::Fixed { iops } = &mut work.arrival {
            *iops = iops.min(bytes_per_second / 2.0 / block);
        }
    }
}
