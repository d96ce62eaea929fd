//! ioping against `qd1 ping`: the fastest and the mean time of a request, without pauses between requests.

use anyhow::{Context, Result};
use qd1_lab::cmd;
use serde_json::Value;

use super::{Figures, Peer, Round, TARGET};

pub(super) const PEER: Peer = Peer {
    name: "ioping",
    what: "us per request of 4 KiB (qd1 ping)",
    target: TARGET,
    find: || cmd::find("ioping"),
    package: "ioping",
    peer,
    ours,
};

/// The cases and their options, which are the same in both programs.
const CASES: [(&str, &[&str]); 4] =
    [("read, direct", &["-D"]), ("read, uncached", &[]), ("read, cached", &["-C"]), ("write, fdatasync", &["-W"])];

/// Options of both: no pauses, over 16 MiB.
const ALIKE: [&str; 6] = ["-i", "0", "-s", "4k", "-S", "16m"];

fn peer(round: &Round<'_>) -> Result<Figures> {
    let seconds = round.seconds.to_string();
    both(|letters| {
        let mut command = round.program();
        command.args(letters).args(ALIKE).args(["-B", "-w", &seconds]).arg(round.dir);
        raw_us(&cmd::capture(&mut command)?)
    })
}

/// The fastest request and the mean of each case, us.
fn both(one: impl Fn(&[&str]) -> Result<(f64, f64)>) -> Result<Figures> {
    let mut figures = Vec::new();
    for (name, letters) in CASES {
        let (fastest, mean) = one(letters)?;
        figures.extend([(format!("{name}: fastest"), fastest), (format!("{name}: mean"), mean)]);
    }
    Ok(figures)
}

/// The fifth and sixth numbers of its raw statistics: the fastest and the mean, ns.
fn raw_us(text: &str) -> Result<(f64, f64)> {
    let number = |at: usize| {
        let word = text.split_whitespace().nth(at).with_context(|| format!("ioping printed no statistics: {text}"))?;
        word.parse::<f64>().with_context(|| format!("ioping's figure is not a number: {word}"))
    };
    Ok((number(4)? / 1e3, number(5)? / 1e3))
}

fn ours(round: &Round<'_>) -> Result<Figures> {
    let seconds = round.seconds.to_string();
    both(|letters| {
        let mut command = round.qd1();
        command.args(["ping", round.dir_str()]).args(letters).args(ALIKE);
        let text = cmd::capture(command.args(["--quiet", "--json", "-w", &seconds]))?;
        let last = text.lines().last().context("qd1 ping printed nothing")?;
        let summary: Value = serde_json::from_str(last).context("qd1 ping's summary is not JSON")?;
        let of = |name: &str| cmd::number(&summary, &format!("/operations/0/{name}"));
        Ok((of("lat_min_ns")? / 1e3, of("busy_ns")? / of("requests")? / 1e3))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_and_the_mean_of_its_raw_statistics_are_read() {
        let line = "99 10970974 9024 36961531 90437 110818 358872 30756 100 12516420\n";
        let (fastest, mean) = raw_us(line).unwrap();
        assert!((fastest - 90.437).abs() < 1e-9 && (mean - 110.818).abs() < 1e-9);
        assert!(raw_us("").is_err());
    }
}
