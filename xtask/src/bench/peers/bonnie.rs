//! bonnie++ against `qd1 meta --suite bonnie`: one large file, and many small ones.

use anyhow::{Context, Result, ensure};
use qd1_lab::cmd;

use super::{Figures, Peer, Round, TARGET};

pub(super) const PEER: Peer = Peer {
    name: "bonnie++",
    what: "MiB/s, then operations a second (qd1 meta --suite bonnie)",
    target: TARGET,
    find: || cmd::find("bonnie++"),
    package: "bonnie++",
    peer,
    ours,
};

/// The large file, and the memory that both must exceed; MiB. The page cache holds it all: the programs are
/// compared, not the disk, and a larger file would not leave enough free space.
const SIZE_MIB: u64 = 768;
const RAM_MIB: u64 = 384;
/// Files, in bonnie++'s units of 1,024: enough that no write test takes less than half a second.
const FILES: u64 = 96;

/// What is compared: the field of bonnie++'s line (format 1.98), and its divisor. Not reads, seeks and stats: in memory
/// they take less than half a second, below which bonnie++ reports nothing.
const FIELDS: [(&str, usize, f64); 6] = [
    ("write", 11, 1024.0),
    ("rewrite", 13, 1024.0),
    ("create in order", 26, 1.0),
    ("delete in order", 30, 1.0),
    ("create random", 32, 1.0),
    ("delete random", 36, 1.0),
];
/// Fields of a line.
const COUNT: usize = 50;

fn peer(round: &Round<'_>) -> Result<Figures> {
    let mut command = round.program();
    // Without the two tests that work one character at a time, which ours leaves out as well.
    command.args(["-u", "root", "-q", "-f", "-d", round.dir_str()]);
    command.args(["-s", &SIZE_MIB.to_string(), "-r", &RAM_MIB.to_string(), "-n", &FILES.to_string()]);
    figures(&cmd::capture(&mut command)?)
}

fn ours(round: &Round<'_>) -> Result<Figures> {
    let (size, ram, files) = (format!("{SIZE_MIB}M"), format!("{RAM_MIB}M"), (FILES * 1024).to_string());
    let mut command = round.qd1();
    command.args(["meta", round.dir_str(), "--suite", "bonnie", "--size", &size, "--ram", &ram, "--files", &files]);
    figures(&cmd::capture(command.args(["--format", "csv", "--quiet", "--no-save"]))?)
}

/// The figures of a line; tests that took less than half a second have none, and no ratio.
fn figures(text: &str) -> Result<Figures> {
    let line = text.lines().last().context("there is no line of figures")?;
    let fields: Vec<&str> = line.split(',').collect();
    ensure!(fields.len() == COUNT, "not a line of format 1.98: {line}");
    let figure = |(name, at, unit): &(&str, usize, f64)| {
        let value = if fields[*at].starts_with('+') { f64::NAN } else { fields[*at].parse::<f64>()? / unit };
        Ok(((*name).to_owned(), value))
    };
    FIELDS.iter().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_line_are_found() {
        let line = "1.98,2.00a,vm,1,1795355454,1G,,8192,5,,,294792,15,658301,22,,,1824699,35,+++++,+++,64,,,,,36814,33,\
                    +++++,+++,46314,34,46089,37,+++++,+++,30701,29,,39000us,15437us,,12610us,25542us,18286us,18977us,\
                    14034us,10830us,3971us,20823us\n";
        let found = figures(line).unwrap();
        assert_eq!((found[0].0.as_str(), found[0].1.round()), ("write", 288.0));
        assert_eq!((found[2].1, found[5].1), (36814.0, 30701.0));
        assert!(figures(&line.replace("658301,22", "+++++,+++")).unwrap()[1].1.is_nan());
        assert!(figures("a,b").is_err());
    }
}
