//! What is measured on each filesystem: a list, of which each part brings a Record of its own.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use qd1_model::Record;
use qd1_model::filesystems::FilesystemsPlan;
use qd1_model::spec::Spec;
use qd1_probe::Machine;

use crate::apps::part::Part;
use crate::place::{self, Place};
use crate::plan::{self, Space};
use crate::progress::Progress;
use crate::run::{self, Circumstances};

/// Where and when.
pub(super) struct At<'a> {
    pub(super) machine: &'a Machine,
    /// The mounted filesystem.
    pub(super) dir: &'a Path,
    pub(super) id: &'a str,
    /// The same for every filesystem of a round.
    pub(super) seed: u64,
    pub(super) cancel: &'a AtomicBool,
}

/// One of them.
pub(super) enum Workload {
    /// The steps of the suite, through the ordinary planner and runner.
    Suite(Box<Spec>, FilesystemsPlan),
    /// PostgreSQL's loads, in a cluster made for them.
    Postgres(Part, FilesystemsPlan),
}

impl Workload {
    /// Measures it.
    ///
    /// # Errors
    /// When nothing could be measured.
    pub(super) fn measure(&mut self, at: &At<'_>, progress: &mut Progress) -> Result<Record> {
        match self {
            Self::Suite(spec, asked) => {
                let place = ours(place::look(at.machine, at.dir, at.id)?);
                let spec = Spec { path: at.dir.to_owned(), ..(**spec).clone() };
                let mut plan = plan::decide(&spec, &place, at.seed)?;
                plan.filesystems = Some(asked.clone());
                let circumstances = Circumstances { id: at.id.to_owned(), command: Vec::new(), machine: at.machine };
                run::execute(plan, &circumstances, at.cancel, progress)
            }
            Self::Postgres(part, asked) => {
                let place = ours(place::look(at.machine, at.dir, at.id)?);
                Part::let_through(at.dir)?;
                part.measure(&place, (at.id, at.seed), Some(asked), at.machine, at.cancel, progress)
            }
        }
    }
}

/// On a filesystem that goes with the run nothing has to stay free: the planner is told of that much more.
fn ours(mut place: Place) -> Place {
    let Space { leave, .. } = plan::space(&place);
    place.filesystem.available.0 += leave;
    place
}
