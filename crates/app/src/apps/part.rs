//! A program's loads as a part of another command's run, in a directory of that one's: `qd1 filesystems --postgres`.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Parser;
use qd1_model::filesystems::FilesystemsPlan;
use qd1_model::plan::StepPlan;
use qd1_model::{Bytes, Record};
use qd1_probe::Machine;

use super::args::PostgresArgs;
use super::postgres::Postgres;
use super::{App, carry_out, decide};
use crate::place::Place;
use crate::progress::Progress;

/// A program that can be run again and again.
pub(crate) struct Part(Box<dyn App>);

/// The program's own command line, so that its defaults stand in one place.
#[derive(Parser)]
struct Words {
    #[command(flatten)]
    args: PostgresArgs,
}

impl Part {
    /// PostgreSQL under pgbench.
    ///
    /// # Errors
    /// What makes no sense; programs that are missing.
    pub(crate) fn postgres(clients: &str, scale: u32, warmup_ns: u64, runtime_ns: u64) -> Result<Self> {
        let (scale, ms) = (scale.to_string(), |ns: u64| format!("{}ms", ns / 1_000_000));
        let (warmup, runtime) = (ms(warmup_ns), ms(runtime_ns));
        let words = ["", "--clients", clients, "--scale", &scale, "--warmup", &warmup, "--runtime", &runtime];
        let mut part = Self(Box::new(Postgres::new(Words::try_parse_from(words)?.args)?));
        part.0.check()?;
        Ok(part)
    }

    /// Its loads.
    pub(crate) fn steps(&self) -> Vec<StepPlan> {
        self.0.steps()
    }

    /// Space it takes at most.
    pub(crate) fn space(&self) -> Bytes {
        self.0.space()
    }

    /// Makes its data at `place`, runs its loads, and takes all away again.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn measure(
        &mut self,
        place: &Place,
        (id, seed): (&str, u64),
        asked: &FilesystemsPlan,
        machine: &Machine,
        cancel: &AtomicBool,
        progress: &mut Progress,
    ) -> Result<Record> {
        let mut plan = decide(self.0.as_ref(), place, seed)?;
        plan.filesystems = Some(asked.clone());
        carry_out(self.0.as_mut(), plan, id, machine, cancel, progress)
    }

    /// The directory a server's user has to get to: others may pass through.
    ///
    /// # Errors
    /// When that cannot be changed.
    pub(crate) fn let_through(dir: &Path) -> Result<()> {
        super::opened_up(dir)
    }
}
