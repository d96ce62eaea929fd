//! `qd1 app sysbench`: sysbench fileio as in most published results, with its own figures.
//!
//! By default it uses the page cache and syncs after each hundred requests: its rates depend on memory as much as on
//! the disk. It is included for comparison with published figures; `qd1 check` shows what the disk does.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use qd1_clock as clock;
use qd1_model::Bytes;
use qd1_model::op::Ended;
use qd1_model::plan::StepPlan;
use qd1_model::plan::program::Program;
use qd1_model::record::program::{AppStep, AppUnit, Counter, Setting};

use crate::find;
use crate::options::SysbenchOptions;
use crate::program::{Driver, Loaded, Site};
use crate::text::number_after;
use qd1_runner::watch::Watch;
use qd1_system::child::{self, last_lines};
use qd1_system::scratch::Scratch;

/// sysbench with its options.
pub struct Sysbench {
    options: SysbenchOptions,
    file: PathBuf,
    dir: Option<Scratch>,
}

impl Sysbench {
    /// Creates the driver.
    pub fn new(options: SysbenchOptions) -> Self {
        Self { options, file: PathBuf::new(), dir: None }
    }

    fn run(&self, args: Vec<String>, site: &Site<'_>) -> Result<String> {
        let dir = self.dir.as_ref().context("the directory for the files has not been created")?;
        let mut program = child::Program::new(&self.file, &[]);
        program.args = args.into_iter().map(Into::into).collect();
        program.dir = dir.path();
        program.output(site.cancel)
    }

    /// Writes the files, or their missing parts: sysbench's `seqwr` truncates them, and on a slow disk its time is over
    /// before they are complete again, and no other mode starts without that.
    fn lay_out(&self, site: &Site<'_>) -> Result<()> {
        self.run(self.args("seqwr", "prepare", site.seed), site).map(drop)
    }

    fn args(&self, mode: &str, command: &str, seed: u64) -> Vec<String> {
        let options = &self.options;
        vec![
            "fileio".to_owned(),
            format!("--file-total-size={}", options.size.0),
            format!("--file-test-mode={mode}"),
            format!("--threads={}", options.threads),
            format!("--time={}", options.runtime_ns.div_ceil(1_000_000_000).max(1)),
            // By default it would end after zero or ten thousand requests, depending on its version.
            "--events=0".to_owned(),
            "--percentile=99".to_owned(),
            format!("--rand-seed={}", (seed & 0x7fff_ffff).max(1)),
            command.to_owned(),
        ]
    }
}

impl Driver for Sysbench {
    fn program(&self) -> Program {
        Program::Sysbench
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.options.path)
    }

    fn steps(&self) -> Vec<StepPlan> {
        let step = |mode: &String| {
            let (size, threads) = (self.options.size, self.options.threads);
            let title = format!("sysbench fileio {mode}, files of {size} in total, {threads} threads");
            crate::program::step(Program::Sysbench, mode.clone(), title, threads, 0, self.options.runtime_ns)
        };
        let mut modes = self.options.mode.clone();
        modes.dedup();
        modes.iter().map(step).collect()
    }

    fn space(&self) -> Bytes {
        self.options.size
    }

    fn check(&mut self) -> Result<()> {
        if self.options.size.0 < 128 * 16_384 {
            bail!(qd1_model::Problem::usage("--size: sysbench's 128 files need at least 2MiB in total"));
        }
        self.file = find::needed("sysbench", &find::path_dirs(), "sysbench")?;
        Ok(())
    }

    fn prepare(&mut self, site: &Site<'_>, watch: &mut dyn Watch) -> Result<(String, Vec<Setting>)> {
        self.dir = Some(site.scratch()?);
        let output = child::Program::new(&self.file, &[&"--version"]).output(site.cancel)?;
        watch.note(&format!("sysbench prepare: writing files of {} in total", self.options.size));
        self.lay_out(site)?;
        let version = output.trim().trim_start_matches("sysbench").trim().to_owned();
        let settings = [("file-total-size", self.options.size.0.to_string()), ("file-fsync-freq", "100".to_owned())];
        let setting = |(name, value): (&str, String)| Setting { name: name.to_owned(), value };
        Ok((version, settings.map(setting).to_vec()))
    }

    fn load(&mut self, step: &StepPlan, site: &Site<'_>, _watch: &mut dyn Watch) -> Result<Loaded> {
        self.lay_out(site)?;
        let begin_ns = clock::now_ns();
        let output = self.run(self.args(&step.name, "run", site.seed), site)?;
        let runtime_ns = clock::now_ns() - begin_ns;
        let app = app_step(&output);
        if app.reported.is_empty() {
            bail!("sysbench reported no figures for {}: {}", step.name, last_lines(&output));
        }
        Ok(Loaded { runtime_ns, ended: Ended::Time, app, ..Loaded::default() })
    }

    fn end(&mut self) -> Result<()> {
        self.dir = None;
        Ok(())
    }
}

/// Reads its report: rates, throughput in MiB/s, latencies in ms.
fn app_step(output: &str) -> AppStep {
    let rows = [
        ("reads", "reads/s:", AppUnit::PerSecond, 1.0),
        ("writes", "writes/s:", AppUnit::PerSecond, 1.0),
        ("fsyncs", "fsyncs/s:", AppUnit::PerSecond, 1.0),
        ("read", "read, MiB/s:", AppUnit::BytesPerSecond, f64::from(1 << 20)),
        ("written", "written, MiB/s:", AppUnit::BytesPerSecond, f64::from(1 << 20)),
        ("latency average", " avg:", AppUnit::Ns, 1e6),
        ("99th percentile", "99th percentile:", AppUnit::Ns, 1e6),
        ("slowest", " max:", AppUnit::Ns, 1e6),
    ];
    let figure = |(name, mark, unit, factor): (&str, &str, AppUnit, f64)| {
        Some(Counter::new(name, unit, number_after(output, mark)? * factor))
    };
    AppStep { reported: rows.into_iter().filter_map(figure).collect(), ..AppStep::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let output = "File operations:\n    reads/s:                      19325.98\n    writes/s:    12885.32\n\
                    fsyncs/s:   12.5\n\nThroughput:\n    read, MiB/s:   301.97\n    written, MiB/s:  201.33\n\n\
                    Latency (ms):\n         min:      0.00\n         avg:      0.06\n         max:      12.10\n\
                    99th percentile:   0.30\n";
        let app = app_step(output);
        assert_eq!((app.reported("reads"), app.reported("writes")), (Some(19325.98), Some(12885.32)));
        assert_eq!(app.reported("slowest"), Some(12_100_000.0));
        assert_eq!(app.reported("read").map(|rate| (rate / 1048576.0 * 100.0).round()), Some(30197.0));
        assert!(app_step("FATAL: no files").reported.is_empty());
    }
}
