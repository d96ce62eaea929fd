//! xtask: the project's own commands, called as `cargo xtask CMD`.
//!
//! Everything that a contributor or CI does to the workspace is one of these commands, so that what passes on one
//! machine passes on the other.
#![forbid(unsafe_code)]

mod bench;
mod bpf;
mod check;
mod chosen;
mod debian;
mod dist;
mod docs;
mod examples;
mod faults;
mod fuzz;
mod lab;
mod metadata;
mod packages;
mod pip;
mod python;
mod servers;
mod setup;
mod test;
mod tools;
mod truth;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what check, test and dist need; quick if nothing is missing
    Setup,
    /// Format, lints, layers, docs, licences, unused dependencies, spelling, house rules
    Check {
        /// Only these checks (default: all); `list` prints their names
        names: Vec<String>,
    },
    /// Build and run all tests, with a summary in the last line
    Test {
        /// Passed to `cargo test` unchanged
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build everything users get into dist/: static binaries, packages, checksums; check size, linkage and start time
    Dist(dist::Args),
    /// Regenerate the pages of docs/ that come from the binary
    Docs {
        /// Change nothing; fail if a page is out of date
        #[arg(long)]
        check: bool,
        /// Instead, build a searchable site of all documents in dist/site
        #[arg(long, conflicts_with = "check")]
        site: bool,
        /// Instead, redraw the terminal pictures, only those whose names contain NAME if given (some minutes; root)
        #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["check", "site"])]
        pictures: Option<String>,
        /// Instead, run every command that the documents show, only documents whose names contain NAME if given (all:
        /// half an hour; root)
        #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["check", "site"])]
        run: Option<String>,
    },
    /// Run each command under each fault, and look for anything lost, left behind or changed (root)
    Faults(faults::Args),
    /// Fuzz the code that reads untrusted input, each target for a while
    Fuzz(fuzz::Args),
    /// Run the binary in a virtual machine, on another kernel and on devices that this machine lacks
    Lab(lab::Args),
    /// Build the in-kernel (eBPF) programs from C, with a pinned clang
    Bpf,
    /// Measure qd1 itself against fio and against its targets
    Bench(bench::Args),
    /// Print how close the analysis comes to the truth on disks whose truth is known
    #[command(disable_help_flag = true)]
    Truth {
        /// Passed to qd1-truth unchanged; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Setup => setup::run().map(|()| true),
        Command::Check { names } => check::run(&names),
        Command::Test { args } => test::run(&args),
        Command::Dist(args) => dist::run(&args).map(|()| true),
        Command::Docs { site: true, .. } => docs::site().map(|()| true),
        Command::Docs { run: Some(only), .. } => docs::run_commands(&only).map(|()| true),
        Command::Docs { pictures: Some(only), .. } => docs::pictures(&only).map(|()| true),
        Command::Docs { check, .. } => docs::run(check),
        Command::Faults(args) => faults::run(&args).map(|()| true),
        Command::Fuzz(args) => fuzz::run(&args).map(|()| true),
        Command::Lab(args) => lab::run(&args),
        Command::Bpf => bpf::run().map(|()| true),
        Command::Bench(args) => bench::run(&args),
        Command::Truth { args } => truth::run(&args).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
