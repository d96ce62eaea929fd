//! `qd1-simdisk SCENARIO DIR`: mounts a simulated disk until Ctrl-C, SIGTERM, or the end of its standard input when
//! that is a pipe, so that it goes away with the program that started it.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;

use anyhow::{Context as _, Result, bail};
use qd1_simdisk::truth::Law;
use qd1_simdisk::{Mounted, Scenario};
use rustix::fs::FileType;
use signal_hook::consts::{SIGINT, SIGTERM};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, dir] = &arguments[..] else {
        bail!("usage: qd1-simdisk SCENARIO DIR, where SCENARIO is a built-in scenario or the path of a TOML file");
    };
    let scenario =
        if Path::new(scenario).is_file() { Scenario::load(Path::new(scenario)) } else { Scenario::named(scenario) }?;
    let (end, ended) = mpsc::channel();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let by_signal = end.clone();
    std::thread::spawn(move || signals.forever().next().map(|_| by_signal.send(())));
    let mounted = Mounted::new(&scenario, Path::new(dir))?;
    println!("{}: {}", mounted.dir().display(), scenario.about);
    println!("cost of FUSE itself, subtracted from the device's time: {:?}", mounted.overhead());
    for (what, law) in [
        ("4 KiB reads at depth 1", Law::reads(&scenario.device, 4096, 200_000)),
        ("4 KiB commits at depth 1", Law::commits(&scenario.device, 4096, 200_000)),
    ] {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| law.quantile(q) / 1e3);
        println!("truth, {what}: p50 {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us");
    }
    let stdin = rustix::fs::fstat(rustix::stdio::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if stdin == Ok(FileType::Fifo) {
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            end.send(())
        });
    }
    let _ = ended.recv();
    println!("{:#?}", mounted.served());
    Ok(())
}
