//! Who may depend on whom, proved from `cargo metadata`.
//!
//! `model <- {engine, probe, analysis} <- app`: the three in the middle never see each other, nor the command line, the
//! store or the terminal. A table of rules, one row for each package; a package without a row fails.

use anyhow::{Result, bail};
use serde_json::Value;

use super::Notes;
use crate::metadata;

/// What one package of the workspace may depend on, directly and for whatever purpose (tests and build scripts too).
struct Rule {
    package: &'static str,
    /// The workspace's own packages that it may see. All others are refused.
    sees: &'static [&'static str],
    /// Crates of others that it must not see, in groups.
    never: &'static [&'static [&'static str]],
}

/// The command line, the store and the terminal: the app's business.
const APP_ONLY: &[&str] =
    &["clap", "rusqlite", "indicatif", "comfy-table", "ratatui", "crossterm", "anstream", "anstyle", "anyhow"];
/// System calls.
const SYSCALLS: &[&str] = &["libc", "rustix", "nix", "io-uring"];

const RULES: &[Rule] = &[
    Rule { package: "qd1-model", sees: &[], never: &[APP_ONLY, SYSCALLS] },
    Rule { package: "qd1-engine", sees: &["qd1-model"], never: &[APP_ONLY] },
    Rule { package: "qd1-probe", sees: &["qd1-model"], never: &[APP_ONLY] },
    Rule { package: "qd1-analysis", sees: &["qd1-model"], never: &[APP_ONLY, SYSCALLS] },
    Rule { package: "qd1-fio", sees: &["qd1-model"], never: &[APP_ONLY, SYSCALLS] },
    Rule { package: "qd1-jobs", sees: &["qd1-model", "qd1-engine", "qd1-fio"], never: &[APP_ONLY] },
    Rule {
        package: "qd1",
        sees: &["qd1-model", "qd1-engine", "qd1-probe", "qd1-analysis", "qd1-fio", "qd1-jobs", "qd1-simdisk"],
        never: &[],
    },
    Rule { package: "qd1-simdisk", sees: &["qd1-model", "qd1-engine"], never: &[] },
    Rule { package: "qd1-truth", sees: &["qd1-model", "qd1-engine", "qd1-analysis"], never: &[APP_ONLY] },
    Rule { package: "xtask", sees: &[], never: &[] },
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
                found.push(format!("{manifest}: {name} must not depend on {on}: it may see {:?}", rule.sees));
            }
            if rule.never.iter().any(|group| group.contains(&on)) {
                found.push(format!("{manifest}: {name} must not depend on {on}"));
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
    fn the_layout_of_the_design_passes() {
        let layout = metadata(&[
            ("qd1-model", &["serde"]),
            ("qd1-engine", &["qd1-model", "libc", "io-uring"]),
            ("qd1-probe", &["qd1-model", "rustix"]),
            ("qd1-analysis", &["qd1-model", "statrs"]),
            ("qd1", &["qd1-model", "qd1-engine", "qd1-probe", "qd1-analysis", "clap"]),
        ]);
        assert_eq!(violations(&layout), Vec::<String>::new());
    }

    #[test]
    fn the_middle_never_sees_each_other() {
        let found = violations(&metadata(&[("qd1-engine", &["qd1-probe"]), ("qd1-probe", &[])]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("qd1-engine/Cargo.toml: qd1-engine must not depend on qd1-probe"), "{found:?}");
    }

    #[test]
    fn the_terminal_and_the_store_stay_in_the_app() {
        for on in APP_ONLY {
            let found = violations(&metadata(&[("qd1-analysis", &[on])]));
            assert_eq!(found.len(), 1, "{on}");
        }
    }

    #[test]
    fn analysis_and_model_make_no_system_calls() {
        assert_eq!(violations(&metadata(&[("qd1-analysis", &["libc"]), ("qd1-model", &["io-uring"])])).len(), 2);
    }

    #[test]
    fn a_package_without_a_rule_is_found() {
        assert!(violations(&metadata(&[("qd1-new", &[])]))[0].contains("qd1-new has no rule"));
    }

    #[test]
    fn metadata_without_packages_breaks_nothing_but_is_not_what_cargo_prints() {
        assert!(violations(&json!({})).is_empty());
        assert!(metadata::workspace().unwrap()["packages"].as_array().is_some_and(|packages| packages.len() > 1));
    }
}
