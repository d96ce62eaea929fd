//! The emulated machine: the binary on another kernel and on devices that this machine lacks. It needs neither root nor
//! hardware; its timings mean nothing, only its behaviour matters.

mod archive;
mod boot;
mod claim;
mod judge;
pub mod powercut;
mod scenario;
mod unpacked;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

pub use self::archive::Archive;
use self::boot::Outcome;
pub use self::scenario::Scenario;
pub use self::unpacked::Unpacked;
use crate::{clock, cmd};

/// The program that emulates it.
pub const QEMU: &str = "qemu-system-x86_64";
/// The scenarios that check one disk several times.
pub const REPEATED: [&str; 2] = ["dm-moving", "qemu-throttled"];

/// The kernel and tools that boot, and the binary that runs.
pub struct Machine {
    /// Its kernel and tools.
    pub packages: Unpacked,
    /// A static qd1.
    pub binary: PathBuf,
}

impl Machine {
    /// Runs the scenarios in one boot, keeps each run's output in `dir`, and prints what did not come out as expected.
    /// False if anything did not.
    pub fn run(&self, scenarios: &[Scenario], dir: Option<&Path>) -> Result<bool> {
        println!(
            "one boot of Linux {} for {} scenarios; timings under emulation mean nothing",
            self.packages.release,
            scenarios.len()
        );
        let (outcome, took) = clock::timed(|| boot::boot(scenarios, self));
        let outcome = outcome?;
        if let Some(dir) = dir {
            keep(dir, &outcome)?;
        }
        let mut wrong = 0;
        for scenario in scenarios {
            let broken = judge::judge(scenario, &outcome);
            let word = if broken.is_empty() { "ok    " } else { "FAILED" };
            println!("{word} {:<16} {}", scenario.name, scenario.about);
            broken.iter().for_each(|line| println!("       {}", line.replace('\n', "\n       ")));
            wrong += usize::from(!broken.is_empty());
        }
        if !outcome.is_whole() {
            println!("the machine ended early; its console:\n{}", cmd::tail(&outcome.console, 20));
        }
        println!("lab: {} ok, {wrong} failed ({:.0} s)", scenarios.len() - wrong, took.as_secs_f64());
        Ok(wrong == 0)
    }

    /// Runs one scenario, and returns the files in `dir` that have its reports.
    pub fn reports(&self, name: &str, dir: &Path) -> Result<Vec<PathBuf>> {
        let mut scenarios = Scenario::all()?;
        scenarios.retain(|scenario| scenario.name == name);
        ensure!(self.run(&scenarios, Some(dir))?, "the scenario {name} did not come out as expected");
        let mut files: Vec<PathBuf> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "out"));
        files.sort();
        Ok(files)
    }
}

/// Writes each run's output to files.
fn keep(dir: &Path, outcome: &Outcome) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for sent in outcome.sent.iter().filter(|sent| sent.kind == "run") {
        let name = format!("{}-{}", sent.name, sent.number);
        fs::write(dir.join(format!("{name}.out")), &sent.stdout)?;
        fs::write(dir.join(format!("{name}.err")), &sent.stderr)?;
    }
    fs::write(dir.join("console"), &outcome.console).context("cannot keep the console")
}
