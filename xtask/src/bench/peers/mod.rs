//! Our commands and the programs that they replace, on the same loop device with ext4, in turn.
//!
//! One file for each peer and one row in `PEERS`. In each round both sides measure the same and return figures with the
//! same names; the median of the rounds' ratios, ours to the peer's, counts.

mod bonnie;
mod fio;
mod ioping;
mod pg_test_fsync;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use qd1_lab::cmd;
use serde_json::Value;

use super::args::Args;
use super::rounds::in_turn;
use super::table::{Table, Target};
use crate::chosen::chosen;
use crate::dist;

/// Room for the test files plus the space that always stays free.
const DISK_BYTES: u64 = 3 << 30;
/// The target for most ratios.
const TARGET: Target = Target::Between(0.9, 1.1);

/// A program that one of our commands replaces.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// What is compared, and in what unit.
    pub(super) what: &'static str,
    /// The target for each ratio.
    pub(super) target: Target,
    /// The program, if it is installed.
    pub(super) find: fn() -> Option<PathBuf>,
    /// The Debian package that contains it.
    pub(super) package: &'static str,
    /// One round of the peer.
    pub(super) peer: fn(&Round<'_>) -> Result<Figures>,
    /// The same with ours.
    pub(super) ours: fn(&Round<'_>) -> Result<Figures>,
}

/// Names and values, in an order that both sides keep.
pub(super) type Figures = Vec<(String, f64)>;

const PEERS: &[Peer] = &[pg_test_fsync::PEER, ioping::PEER, bonnie::PEER, fio::PEER];

/// What a round has.
pub(super) struct Round<'a> {
    /// The mounted filesystem.
    pub(super) dir: &'a Path,
    /// The peer's program.
    program: PathBuf,
    /// Our binary.
    qd1: &'a Path,
    /// Seconds for each figure.
    pub(super) seconds: u64,
}

impl Round<'_> {
    /// The peer's program, to be given arguments.
    pub(super) fn program(&self) -> Command {
        cmd::command(&self.program)
    }

    /// Ours.
    pub(super) fn qd1(&self) -> Command {
        let mut command = cmd::command(self.qd1);
        command.env("QD1_STORE", self.dir.join(".history.db"));
        command
    }

    /// The one JSON document that ours prints.
    pub(super) fn report(&self, args: &[&str]) -> Result<Value> {
        cmd::json(self.qd1().args(args))
    }

    /// The directory as an argument.
    pub(super) fn dir_str(&self) -> &str {
        self.dir.to_str().unwrap_or_default()
    }
}

pub(super) fn run(args: &Args) -> Result<Table> {
    let peers = chosen(PEERS, |peer| peer.name, &args.peer, "peer")?;
    qd1_lab::need_root("a loop device")?;
    let qd1 = match &args.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => dist::build_binary()?,
    };
    let disk = qd1_lab::Mounted::filled("ext4", qd1_lab::temp_dir()?, DISK_BYTES)?;
    println!("min/median/max of {} rounds of {} s per figure", args.rounds, args.seconds);
    let mut table = Table::new(&["peer", "", "peer's", "ours", "ratio", "median ratio"]);
    for peer in peers {
        let Some(program) = (peer.find)() else {
            println!("SKIPPED {}: not installed (Debian package {})", peer.name, peer.package);
            continue;
        };
        println!("{}: {}", peer.name, peer.what);
        let round = Round { dir: disk.path(), program, qd1: &qd1, seconds: args.seconds };
        let pairs = in_turn(args.rounds, || (peer.peer)(&round), || (peer.ours)(&round))?;
        rows(&mut table, peer, &pairs)?;
    }
    Ok(table)
}

/// One row for each figure of a peer.
fn rows(table: &mut Table, peer: &Peer, pairs: &[(Figures, Figures)]) -> Result<()> {
    let name = peer.name;
    let Some((first, _)) = pairs.first() else { return Ok(()) };
    for (at, (figure, _)) in first.iter().enumerate() {
        let of = |figures: &Figures| {
            let found = figures.get(at).with_context(|| format!("{name}: {figure} is missing from a round"))?;
            ensure!(found.0 == *figure, "{name}: found {} instead of {figure}", found.0);
            Ok(found.1)
        };
        let values = pairs.iter().map(|(peer, ours)| Ok((of(peer)?, of(ours)?))).collect::<Result<Vec<_>>>()?;
        table.pairs(vec![name.to_owned(), figure.clone()], values, 1.0, Some(peer.target));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[(&str, f64)]) -> Figures {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn a_figure_gets_a_row_with_its_ratio_and_one_out_of_place_is_an_error() {
        let mut table = Table::new(&["peer", "", "peer's", "ours", "ratio", "median ratio"]);
        let pair = |peer, ours| (figures(&[("fsync", peer)]), figures(&[("fsync", ours)]));
        rows(&mut table, &bonnie::PEER, &[pair(100.0, 105.0), pair(100.0, 95.0), pair(100.0, 101.0)]).unwrap();
        assert!(!table.missed());
        assert!(table.to_string().contains("0.95/1.01/1.05"), "{table}");
        rows(&mut table, &bonnie::PEER, &[pair(100.0, 150.0)]).unwrap();
        assert!(table.missed());
        let crossed = (figures(&[("fsync", 1.0)]), figures(&[("fdatasync", 1.0)]));
        assert!(rows(&mut table, &bonnie::PEER, &[crossed]).is_err());
    }
}
