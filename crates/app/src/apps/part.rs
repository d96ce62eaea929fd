//! A program's loads as a part of another command's run: `qd1 filesystems --postgres`, `qd1 predict --verify`.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::{Args, Parser};
use qd1_model::filesystems::FilesystemsPlan;
use qd1_model::plan::StepPlan;
use qd1_model::{Bytes, Record};
use qd1_probe::Machine;

use super::args::{EtcdArgs, PostgresArgs, SqliteArgs};
use super::etcd::Etcd;
use super::postgres::{self, Postgres};
use super::sqlite::Sqlite;
use super::{App, carry_out, decide};
use crate::place::Place;
use crate::progress::Progress;

/// A program that can be run again and again.
pub(crate) struct Part(Box<dyn App>);

/// The program's own command line, so that its defaults stand in one place.
#[derive(Parser)]
struct Words<A: Args> {
    #[command(flatten)]
    args: A,
}

/// Arguments from words.
fn args<A: Args>(words: &[&str]) -> Result<A> {
    Ok(Words::<A>::try_parse_from([""].iter().chain(words))?.args)
}

fn ms(ns: u64) -> String {
    format!("{}ms", ns / 1_000_000)
}

impl Part {
    /// PostgreSQL under pgbench.
    ///
    /// # Errors
    /// What makes no sense; programs that are missing.
    pub(crate) fn postgres(clients: &str, scale: u32, warmup_ns: u64, runtime_ns: u64) -> Result<Self> {
        Self::postgres_with(clients, scale, warmup_ns, runtime_ns, &[])
    }

    /// The same with all its data in the server's memory, as far as a quarter of the machine's holds it.
    ///
    /// # Errors
    /// As [`Part::postgres`].
    pub(crate) fn postgres_in_memory(
        clients: &str,
        scale: u32,
        warmup_ns: u64,
        runtime_ns: u64,
        memory: Bytes,
    ) -> Result<Self> {
        let needed = (64 << 20) + u64::from(scale) * postgres::SCALE_BYTES * 5 / 4;
        let buffers = format!("shared_buffers={}MB", needed.min(memory.0 / 4) >> 20);
        Self::postgres_with(clients, scale, warmup_ns, runtime_ns, &["--prewarm", "-c", &buffers])
    }

    fn postgres_with(clients: &str, scale: u32, warmup_ns: u64, runtime_ns: u64, more: &[&str]) -> Result<Self> {
        let (scale, warmup, runtime) = (scale.to_string(), ms(warmup_ns), ms(runtime_ns));
        let words = ["--clients", clients, "--scale", &scale, "--warmup", &warmup, "--runtime", &runtime];
        let words = [&words[..], more].concat();
        Self::of(Postgres::new(args::<PostgresArgs>(&words)?)?)
    }

    /// etcd under puts at these rates.
    ///
    /// # Errors
    /// Programs that are missing.
    pub(crate) fn etcd(rates: &[u32], runtime_ns: u64) -> Result<Self> {
        let rates: Vec<String> = rates.iter().map(u32::to_string).collect();
        let words = ["--rate", &rates.join(","), "--runtime", &ms(runtime_ns)];
        Self::of(Etcd::new(args::<EtcdArgs>(&words)?))
    }

    /// SQLite, by journal and synchronous mode, with all pages in its memory.
    ///
    /// # Errors
    /// None in practice.
    pub(crate) fn sqlite(runtime_ns: u64) -> Result<Self> {
        Self::of(Sqlite::new(args::<SqliteArgs>(&["--runtime", &ms(runtime_ns), "--cache", "64MiB"])?))
    }

    fn of(app: impl App + 'static) -> Result<Self> {
        let mut part = Self(Box::new(app));
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

    /// Refuses a place that is too small.
    ///
    /// # Errors
    /// With how much is needed.
    pub(crate) fn fits(&self, place: &Place, seed: u64) -> Result<()> {
        decide(self.0.as_ref(), place, seed).map(drop)
    }

    /// Makes its data at `place`, runs its loads, and takes all away again.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn measure(
        &mut self,
        place: &Place,
        (id, seed): (&str, u64),
        filesystems: Option<&FilesystemsPlan>,
        machine: &Machine,
        cancel: &AtomicBool,
        progress: &mut Progress,
    ) -> Result<Record> {
        let mut plan = decide(self.0.as_ref(), place, seed)?;
        plan.filesystems = filesystems.cloned();
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
