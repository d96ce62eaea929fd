//! Nothing that is written makes it panic, run on or eat memory.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Table, file, line, meaning, shell_words, table};
use proptest::prelude::*;
use qd1_fio::{Jobs, Limits, Request, options, parse_args, parse_job_file};

/// A file that uses much of the dialect.
const SEED: &str = "[global]\nioengine=io_uring\niodepth=8\nsize=64m\nhipri\nkb_base=1024\nfilename=a:b\\:c\n\
    [a]\nrw=randrw:4\nbs=4k,8k\nbssplit=4k/10:64k/50:32k/40\nrandom_distribution=zoned:60/10:40/90\nruntime=10\ntime_based\n\
    [b]\nrw=read:512k\nnumjobs=2*$ncpus\nbuffer_pattern=0xff\"ab\"-12\npercentile_list=50:99.9\ncpus_allowed=0-3,8\n\
    startdelay=1-5\nsteadystate=iops:2%\nsync_file_range=write:8\nsize=(2k*4)\nfilesize=4k-8k\noffset=10%\n";

/// Text that is near to what options take.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9a-zA-Z%:/,.()*+^$x\"' -]{0,24}",
        "[0-9]{1,20}[kmgtpibusdh%]{0,3}",
        any::<String>(),
        Just("${A}$ncpus".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_jobs_or_errors(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut world = Table::default();
        world.files.insert("j.fio".into(), bytes);
        if let Err(errors) = parse_job_file("j.fio", &world) {
            prop_assert!(!errors.0.is_empty() && errors.0.len() <= Limits::ERRORS);
        }
    }

    #[test]
    fn a_changed_job_is_a_job_or_an_error(at in 0..SEED.len(), length in 0_usize..20, text in value()) {
        let mut content = SEED.to_owned();
        content.replace_range(at..(at + length).min(SEED.len()), &text);
        let _ = file(&content);
    }

    #[test]
    fn any_option_takes_any_value_or_refuses_it(index in 0_usize..300, text in value()) {
        let option = options::all().cycle().nth(index).unwrap();
        let _ = file(&format!("[a]\nsize=1m\n{}={text}\n", option.name));
        let _ = file(&format!("[a]\nsize=1m\n{}\n", option.name));
    }

    #[test]
    fn any_arguments_are_a_request_or_errors(args in proptest::collection::vec(
        prop_oneof![value(), value().prop_map(|text| format!("--{text}")), Just("--name=a".to_owned()), Just("j.fio".into())],
        0..8,
    )) {
        let _ = parse_args(&args, &table(SEED));
    }

    #[test]
    fn a_shown_job_means_the_same_again(text in value(), index in 0_usize..400) {
        let option = options::all().cycle().nth(index).unwrap();
        if let Ok(jobs) = file(&format!("[a]\nsize=1m\n{}={text}\n", option.name)) {
            same_when_shown(jobs);
        }
    }
}

/// Reads the command line that `--showcmd` gives, and compares.
fn same_when_shown(jobs: Jobs) {
    if jobs.jobs.is_empty() {
        // A file of global sections only: a command line without a job is an error.
        return;
    }
    if jobs.jobs.iter().any(|job| job.name.is_empty()) {
        // A section `[]`: fio shows `--name=` and refuses that itself.
        return;
    }
    let shown = qd1_fio::help::showcmd(&jobs.globals, &jobs.jobs);
    let words = shell_words(shown.trim_end_matches('\n'));
    let again = line(&words[1..].iter().map(String::as_str).collect::<Vec<_>>());
    let again = again.unwrap_or_else(|errors| panic!("{shown}: {errors}")).jobs;
    assert_eq!(again.len(), jobs.jobs.len(), "{shown}");
    for (again, first) in again.into_iter().zip(jobs.jobs) {
        assert_eq!(meaning(again), meaning(first), "{shown}");
    }
}

/// The inputs that fuzzing starts from; the campaign itself is `cargo xtask fuzz`.
#[test]
fn every_input_of_the_corpus_is_jobs_or_errors() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut inputs = 0;
    for target in ["fio_job", "fio_args"] {
        for entry in fs::read_dir(corpus.join(target)).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            inputs += 1;
            if let Ok(text) = std::str::from_utf8(&bytes) {
                let (args, beside) = text.split_once("\n\n").unwrap_or((text, ""));
                let args: Vec<&str> = args.split('\n').collect();
                if let Ok(Request::Run(run)) = parse_args(&args, &table(beside)) {
                    same_when_shown(Jobs { globals: run.globals, jobs: run.jobs, notes: run.notes });
                }
            }
            let mut world = Table::default();
            world.files.insert("j.fio".into(), bytes);
            match parse_job_file("j.fio", &world) {
                Ok(jobs) => same_when_shown(jobs),
                Err(errors) => assert!(!errors.to_string().is_empty()),
            }
        }
    }
    assert!(inputs > 30, "the corpus is there");
}

#[test]
fn the_seed_is_a_job_file() {
    assert_eq!(file(SEED).unwrap().jobs.len(), 2);
}

/// The worst files that fit the limits. The time is far above what they take, since a test machine may stand still.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test may look at the wall clock to see that it ends")]
fn large_files_end() {
    let started = Instant::now();
    for content in [
        format!("[global]\n{}{}", "hipri\n".repeat(60_000), "[a]\nsize=1m\n".repeat(2000)),
        format!("[global]\nsize=1m\n{}{}", "filename=x\n".repeat(1000), "[a]\nfilename=y\n".repeat(2000)),
        format!("[global]\nsize=1m\nfilename={}\n{}", "x:".repeat(900), "[a]\nfilename=y\n".repeat(3000)),
        "[global]\nsize=1m\n[a]\n".repeat(40_000),
        "[a]\nx=1\n".repeat(100_000),
        format!("[a]\nsize={}\n", "(".repeat(8000)),
        format!("[a]\nbssplit={}\n", "4k/1:".repeat(1600)),
        format!("[a]\nnumjobs={}\n", u32::MAX),
        "[".repeat(1 << 20),
        "x".repeat(3 << 20),
    ] {
        let _ = file(&content);
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}
