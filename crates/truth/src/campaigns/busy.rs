//! `cargo xtask truth --busy`: checks of a fast disk while other programs keep every processor busy. The disk passes
//! when nothing else runs; any slowdown under load is due to the processors, and no check may blame the disk for it.

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use qd1_lab::{Mounted, as_root, cmd, interrupted, temp_dir};
use serde_json::Value;

const DISK_BYTES: u64 = 3 << 30;
/// Busy threads for each processor.
const THREADS: usize = 2;
/// The share of checks that must attribute the waits to the processors.
const ATTRIBUTED_MIN: f64 = 0.95;

/// Checks the disk once at rest and `count` times next to busy threads, and prints the results. An error if a target is
/// missed.
pub(crate) fn run(count: u64) -> Result<()> {
    let binary = super::binaries(&["qd1"])?.join("qd1");
    as_root("a loop device")?;
    let disk = Mounted::filled("ext4", temp_dir()?, DISK_BYTES)?;
    let rest = check(&binary, disk.path())?;
    println!("at rest        {}", rest.shown());
    ensure!(rest.failed.is_empty(), "the disk fails even at rest, so the effect of busy processors cannot be judged");
    let checks = beside(THREADS * std::thread::available_parallelism()?.get(), || {
        let one = |number| {
            interrupted()?;
            let said = check(&binary, disk.path())?;
            println!("busy, {number:>2} of {count:>2} {}", said.shown());
            Ok(said)
        };
        (1..=count).map(one).collect::<Result<Vec<Said>>>()
    })?;
    let failed = checks.iter().filter(|said| !said.failed.is_empty()).count();
    let attributed = checks.iter().filter(|said| said.is_attributed()).count();
    println!("{attributed} of {count} blame the processors (target {:.0} %)", 100.0 * ATTRIBUTED_MIN);
    println!("{failed} of {count} fail the disk (target 0)");
    ensure!(failed == 0 && attributed as f64 >= ATTRIBUTED_MIN * count as f64, "a target was missed");
    Ok(())
}

/// Does something while busy threads run.
fn beside<T>(threads: usize, what: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut value = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    (0..10_000).for_each(|_| value = black_box(value.wrapping_mul(31) + 7));
                }
            });
        }
        let done = what();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// The result of a check.
struct Said {
    /// The classes of each grade, as `etcd: pass`.
    grades: Vec<String>,
    /// Classes that fail.
    failed: Vec<String>,
    /// Criteria graded not resolved or worse, and those of them that blame the processors.
    open: usize,
    of_processors: usize,
    /// Whether a finding says that the slowest operations, each on its own, waited for a processor.
    is_found: bool,
}

impl Said {
    /// A finding says that slow operations waited for a processor, nothing fails, and if criteria are open, at least
    /// one of them blames the processors.
    fn is_attributed(&self) -> bool {
        self.is_found && self.failed.is_empty() && (self.open == 0 || self.of_processors > 0)
    }

    fn shown(&self) -> String {
        let found = if self.is_found { "; found" } else { "" };
        format!(
            "{}; {} of {} open criteria blame the processors{found}",
            self.grades.join(", "),
            self.of_processors,
            self.open
        )
    }
}

fn check(binary: &Path, dir: &Path) -> Result<Said> {
    let mut command = cmd::command(binary);
    command.arg("check").arg(dir).args(["--quick", "--json", "--no-save", "--quiet"]);
    said(&cmd::json(&mut command)?)
}

fn said(report: &Value) -> Result<Said> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let verdicts = report["verdicts"].as_array().context("a check has verdicts")?;
    let judged: Vec<&Value> = verdicts.iter().filter_map(|verdict| verdict["judged"].as_array()).flatten().collect();
    let open: Vec<&&Value> = judged.iter().filter(|one| text(one, "grade") == "not_resolved").collect();
    let findings = report["findings"].as_array().context("a report has findings")?;
    Ok(Said {
        grades: verdicts
            .iter()
            .map(|verdict| format!("{}: {}", text(verdict, "class"), text(verdict, "grade")))
            .collect(),
        failed: verdicts.iter().filter(|one| text(one, "grade") == "fail").map(|one| text(one, "class")).collect(),
        of_processors: open.iter().filter(|one| text(one, "why").contains("processor")).count(),
        open: open.len(),
        is_found: findings.iter().any(|finding| text(finding, "id").starts_with("cpu_spoiled.tail")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_attributed_where_slow_operations_waited_for_a_processor_and_nothing_fails() {
        let report = |grade: &str, why: &str, id: &str| {
            let judged = serde_json::json!([{ "grade": "not_resolved", "why": why }]);
            serde_json::json!({
                "verdicts": [{ "class": "etcd", "grade": grade, "judged": judged }],
                "findings": [{ "id": id }],
            })
        };
        let is_attributed = |grade, why, id| said(&report(grade, why, id)).unwrap().is_attributed();
        let why = "limited by this machine's processors";
        assert!(is_attributed("not_resolved", why, "cpu_spoiled.tail"));
        assert!(!is_attributed("fail", why, "cpu_spoiled.tail"));
        assert!(!is_attributed("not_resolved", "too few", "cpu_spoiled.tail"));
        assert!(!is_attributed("not_resolved", why, "cpu_spoiled.run_delay"));
    }
}
