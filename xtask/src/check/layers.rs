//! Who may depend on whom, proved from `cargo metadata`.
//!
//! Arrows run down: `app -> experiment -> programs -> runner -> {system, jobs} -> {analysis, report, suites, store,
//! engine, probe, fio, import} -> {clock, model}`. Two tables: which other packages a package of the workspace may
//! depend on (a package without a row fails), and which packages may use certain third-party crates.

use anyhow::{Result, bail};
use serde_json::Value;

use super::Notes;
use crate::metadata;

/// What one package of the workspace may depend on, directly and for any purpose (including tests and build scripts).
struct Rule {
    package: &'static str,
    /// The workspace's own packages that it may depend on. All others are refused.
    sees: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule { package: "qd1-model", sees: &[] },
    Rule { package: "qd1-clock", sees: &[] },
    Rule { package: "qd1-engine", sees: &["qd1-model", "qd1-clock"] },
    Rule { package: "qd1-probe", sees: &["qd1-model", "qd1-clock"] },
    Rule { package: "qd1-trace", sees: &["qd1-model"] },
    Rule { package: "qd1-stats", sees: &["qd1-model"] },
    Rule { package: "qd1-analysis", sees: &["qd1-model", "qd1-stats"] },
    Rule { package: "qd1-fio", sees: &["qd1-model"] },
    Rule { package: "qd1-import", sees: &["qd1-model"] },
    Rule { package: "qd1-suites", sees: &["qd1-model"] },
    Rule { package: "qd1-report", sees: &["qd1-model"] },
    // The report's samples, for tests.
    Rule { package: "qd1-store", sees: &["qd1-model", "qd1-report"] },
    Rule { package: "qd1-system", sees: &["qd1-model", "qd1-clock", "qd1-probe"] },
    Rule { package: "qd1-jobs", sees: &["qd1-model", "qd1-clock", "qd1-engine", "qd1-fio", "qd1-probe"] },
    Rule {
        package: "qd1-runs",
        sees: &["qd1-model", "qd1-engine", "qd1-analysis", "qd1-import", "qd1-report", "qd1-store", "qd1-system"],
    },
    // The statistics decide when a step has seen enough.
    Rule {
        package: "qd1-runner",
        sees: &["qd1-model", "qd1-clock", "qd1-stats", "qd1-engine", "qd1-probe", "qd1-suites", "qd1-system"],
    },
    Rule {
        package: "qd1-programs",
        sees: &["qd1-model", "qd1-clock", "qd1-engine", "qd1-probe", "qd1-suites", "qd1-system", "qd1-runner"],
    },
    Rule {
        package: "qd1-experiment",
        sees: &[
            "qd1-model",
            "qd1-clock",
            "qd1-engine",
            "qd1-probe",
            "qd1-suites",
            "qd1-system",
            "qd1-runner",
            "qd1-programs",
        ],
    },
    Rule {
        package: "qd1",
        sees: &[
            "qd1-model",
            "qd1-clock",
            "qd1-engine",
            "qd1-probe",
            "qd1-stats",
            "qd1-analysis",
            "qd1-fio",
            "qd1-import",
            "qd1-suites",
            "qd1-report",
            "qd1-store",
            "qd1-system",
            "qd1-trace",
            "qd1-runs",
            "qd1-jobs",
            "qd1-runner",
            "qd1-programs",
            "qd1-experiment",
            "qd1-simdisk",
            "qd1-lab",
        ],
    },
    // Only for the project's own tests and measurements.
    Rule { package: "qd1-lab", sees: &[] },
    Rule { package: "qd1-simdisk", sees: &["qd1-model", "qd1-clock", "qd1-engine"] },
    Rule {
        package: "qd1-truth",
        sees: &["qd1-model", "qd1-engine", "qd1-stats", "qd1-analysis", "qd1-suites", "qd1-lab"],
    },
    Rule {
        package: "qd1-fuzz",
        sees: &[
            "qd1-model",
            "qd1-engine",
            "qd1-analysis",
            "qd1-fio",
            "qd1-import",
            "qd1-suites",
            "qd1-report",
            "qd1-store",
            "qd1-system",
            "qd1-runs",
            "qd1-runner",
            "qd1-trace",
            "qd1-programs",
        ],
    },
    Rule { package: "xtask", sees: &["qd1-lab"] },
];

/// Third-party crates that only some packages may use.
struct Home {
    crates: &'static [&'static str],
    /// The packages that may depend on them. All others are refused.
    packages: &'static [&'static str],
    /// Packages whose tests may depend on them, too.
    in_tests: &'static [&'static str],
}

const HOMES: &[Home] = &[
    // The command line and signals: packages with a `main`.
    Home {
        crates: &["clap", "clap_complete", "signal-hook"],
        packages: &["qd1", "xtask", "qd1-simdisk", "qd1-lab", "qd1-truth"],
        in_tests: &[],
    },
    // The terminal.
    Home {
        crates: &["indicatif", "comfy-table", "ratatui", "crossterm", "anstream"],
        packages: &["qd1"],
        in_tests: &[],
    },
    Home { crates: &["anstyle"], packages: &["qd1", "qd1-report"], in_tests: &[] },
    // The history, and SQLite as a program to measure. Tests of the binary look into its history as a stranger would.
    Home { crates: &["rusqlite", "libsqlite3-sys"], packages: &["qd1-store", "qd1-programs"], in_tests: &["qd1"] },
    // System calls.
    Home {
        crates: &["libc", "rustix", "nix", "io-uring", "syscalls"],
        packages: &[
            "qd1-clock",
            "qd1-engine",
            "qd1-probe",
            "qd1-system",
            "qd1-jobs",
            "qd1-runner",
            "qd1-programs",
            "qd1-experiment",
            "qd1",
            "qd1-simdisk",
            "qd1-trace",
            "qd1-lab",
            // How much space its disk has.
            "qd1-store",
        ],
        in_tests: &[],
    },
    // Untyped errors: for packages that report to a person. The others have typed errors.
    Home {
        crates: &["anyhow"],
        packages: &[
            "qd1-suites",
            "qd1-store",
            "qd1-system",
            "qd1-trace",
            "qd1-runs",
            "qd1-runner",
            "qd1-programs",
            "qd1-experiment",
            "qd1",
            "qd1-simdisk",
            "qd1-lab",
            "qd1-truth",
            "xtask",
        ],
        in_tests: &[],
    },
    // In-kernel (eBPF) programs; a benchmark asks the kernel how long they ran.
    Home { crates: &["aya", "aya-obj"], packages: &["qd1-trace", "xtask"], in_tests: &[] },
    // Serves the simulated disk; it must not enter the binary.
    Home { crates: &["fuser"], packages: &["qd1-simdisk"], in_tests: &[] },
];

pub(super) fn run() -> Result<Notes> {
    let found = violations(&metadata::workspace()?);
    if !found.is_empty() {
        bail!("{}", found.join("\n"));
    }
    Ok(Vec::new())
}

/// Each broken rule as a line.
fn violations(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<_> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut found = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or(name);
        let Some(rule) = RULES.iter().find(|rule| rule.package == name) else {
            found.push(format!("{manifest}: {name} has no rule; give it a row in xtask/src/check/layers.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            // A package may name itself, to switch features on for its own tests.
            if names.contains(&on) && on != name && !rule.sees.contains(&on) {
                found.push(format!("{manifest}: {name} must not depend on {on}, only on {:?}", rule.sees));
            }
            if let Some(home) = HOMES.iter().find(|home| home.crates.contains(&on)) {
                let in_tests = dependency["kind"] == "dev" && home.in_tests.contains(&name);
                if !home.packages.contains(&name) && !in_tests {
                    found.push(format!("{manifest}: {name} must not depend on {on}; only {:?} may", home.packages));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The shape of `cargo metadata --no-deps`, with these packages and direct dependencies.
    fn metadata(packages: &[(&str, &[&str])]) -> Value {
        let package = |(name, on): &(&str, &[&str])| {
            let dependencies: Vec<_> = on.iter().map(|on| json!({ "name": on, "kind": null })).collect();
            json!({ "name": name, "manifest_path": format!("{name}/Cargo.toml"), "dependencies": dependencies })
        };
        json!({ "packages": packages.iter().map(package).collect::<Vec<_>>() })
    }

    #[test]
    fn arrows_never_run_up_or_sideways() {
        for (package, on) in [
            ("qd1-engine", "qd1-probe"),
            ("qd1-report", "qd1-store"),
            ("qd1-runner", "qd1-programs"),
            ("qd1-programs", "qd1-experiment"),
            ("qd1-system", "qd1"),
        ] {
            let found = violations(&metadata(&[(package, &[on]), (on, &[])]));
            assert_eq!(found.len(), 1, "{found:?}");
            let expected = format!("{package}/Cargo.toml: {package} must not depend on {on}");
            assert!(found[0].starts_with(&expected), "{found:?}");
        }
    }

    #[test]
    fn every_package_is_seen_from_above_only() {
        for rule in RULES {
            for seen in rule.sees {
                let below = RULES.iter().find(|other| other.package == *seen);
                assert!(below.is_some_and(|below| !below.sees.contains(&rule.package)), "{} and {seen}", rule.package);
            }
        }
    }

    #[test]
    fn the_command_line_the_store_and_the_terminal_stay_at_home() {
        for on in ["clap", "indicatif", "ratatui", "rusqlite", "libc", "anyhow", "fuser"] {
            let found = violations(&metadata(&[("qd1-analysis", &[on])]));
            assert_eq!(found.len(), 1, "{on}");
        }
        assert_eq!(violations(&metadata(&[("qd1-programs", &["clap"]), ("qd1", &["rusqlite"])])).len(), 2);
    }

    #[test]
    fn tests_of_the_binary_may_read_its_history() {
        let mut layout = metadata(&[("qd1", &["rusqlite"])]);
        layout["packages"][0]["dependencies"][0]["kind"] = json!("dev");
        assert_eq!(violations(&layout), Vec::<String>::new());
    }

    #[test]
    fn a_package_without_a_rule_is_found() {
        assert!(violations(&metadata(&[("qd1-new", &[])]))[0].contains("qd1-new has no rule"));
    }
}
