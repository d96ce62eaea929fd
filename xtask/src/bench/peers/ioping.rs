//! ioping against `qd1 ping`: the mean time of a request, as fast as they go.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Figures, Peer, Round, number};
use crate::cmd;

pub(super) const PEER: Peer = Peer {
    name: "ioping",
    what: "us a request of 4 KiB, mean (qd1 ping)",
    find: || cmd::find("ioping"),
    package: "ioping",
    peer,
    ours,
};

/// What is asked, and the letters for it, which are the same in both programs.
const CASES: [(&str, &[&str]); 4] =
    [("read, direct", &["-D"]), ("read, uncached", &[]), ("read, cached", &["-C"]), ("write, fdatasync", &["-W"])];

/// Letters of both: as fast as they go, over 16 MiB.
const ALIKE: [&str; 6] = ["-i", "0", "-s", "4k", "-S", "16m"];

fn peer(round: &Round<'_>) -> Result<Figures> {
    let seconds = round.seconds.to_string();
    let one = |letters: &[&str]| {
        let mut command = round.program();
        command.args(letters).args(ALIKE).args(["-B", "-w", &seconds]).arg(round.dir);
        raw_mean_us(&cmd::capture(&mut command)?)
    };
    CASES.iter().map(|(name, letters)| Ok(((*name).to_owned(), one(letters)?))).collect()
}

/// The sixth number of its raw statistics: the mean, ns.
fn raw_mean_us(text: &str) -> Result<f64> {
    let word = text.split_whitespace().nth(5).with_context(|| format!("ioping printed no statistics: {text}"))?;
    Ok(word.parse::<f64>().with_context(|| format!("ioping's mean is no number: {word}"))? / 1e3)
}

fn ours(round: &Round<'_>) -> Result<Figures> {
    let seconds = round.seconds.to_string();
    let one = |letters: &[&str]| {
        let mut command = round.qd1();
        command.args(["ping", round.dir_str()]).args(letters).args(ALIKE);
        let text = cmd::capture(command.args(["--quiet", "--json", "-w", &seconds]))?;
        let last = text.lines().last().context("qd1 ping printed nothing")?;
        let summary: Value = serde_json::from_str(last).context("qd1 ping's summary is no JSON")?;
        Ok::<_, anyhow::Error>(number(&summary, "/operations/0/lat_mean_ns/value")? / 1e3)
    };
    CASES.iter().map(|(name, letters)| Ok(((*name).to_owned(), one(letters)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_its_raw_statistics_is_read() {
        let line = "99 10970974 9024 36961531 90437 110818 358872 30756 100 12516420\n";
        assert!((raw_mean_us(line).unwrap() - 110.818).abs() < 1e-9);
        assert!(raw_mean_us("").is_err());
    }
}
