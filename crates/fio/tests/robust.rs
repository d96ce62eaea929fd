//! Nothing that is written makes it panic, run on or eat memory.

mod common;

use std::time::{Duration, Instant};

use common::{Table, file, table};
use proptest::prelude::*;
use qd1_fio::{Limits, options, parse_args, parse_job_file};

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
    fn a_shown_job_is_read_again(text in value(), index in 0_usize..300) {
        let option = options::all().cycle().nth(index).unwrap();
        if let Ok(jobs) = file(&format!("[a]\nsize=1m\n{}={text}\n", option.name)) {
            prop_assert!(qd1_fio::help::showcmd(&jobs.globals, &jobs.jobs).starts_with("fio"));
        }
    }
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
