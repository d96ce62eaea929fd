//! What a load draws: each block once where that is promised, shares as asked, orders as fio has them.

#[path = "load/against_fio.rs"]
mod against_fio;
#[path = "load/shares.rs"]
mod shares;

use std::collections::HashMap;
use std::io;
use std::path::Path;

use proptest::prelude::*;
use qd1_fio::{FioJob, System, World, parse_job_file};
use qd1_jobs::load::{Extent, JobLoad, JobRequest, READ, TRIM, WRITE};

/// A job file and nothing else.
struct Text(String);

impl World for Text {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.clone().into_bytes())
    }
    fn env(&self, _: &str) -> Option<String> {
        None
    }
    fn system(&self) -> System {
        System { ncpus: 2, mb_memory: 1024, pagesize: 4096 }
    }
}

/// The job of these options, separated by spaces.
fn job(options: &str) -> FioJob {
    // The dialect refuses a zonerange below the zonesize; fio takes it, and so does the load.
    let (zonerange, given): (Vec<_>, Vec<_>) = options.split(' ').partition(|option| option.starts_with("zonerange="));
    let text = format!("[t]\n{}\n", given.join("\n"));
    let jobs = parse_job_file("t.fio", &Text(text)).unwrap_or_else(|errors| panic!("{options}: {errors}"));
    let mut job = jobs.jobs.into_iter().next().expect("one section is one job");
    if let [zonerange] = zonerange.as_slice() {
        let kib = zonerange.trim_start_matches("zonerange=").trim_end_matches('k');
        job.zonerange = kib.parse::<u64>().expect("a number of KiB") << 10;
    }
    job
}

fn extents(files: u64, length: u64) -> Vec<Extent> {
    (0..files).map(|_| Extent { start: 0, length }).collect()
}

fn load(options: &str, files: &[Extent], seed: u64) -> JobLoad {
    JobLoad::new(&job(options), files, seed)
}

/// One round, at most so many bytes of it.
fn round(load: &mut JobLoad, bytes: u64) -> Vec<JobRequest> {
    let mut requests = Vec::new();
    let mut sum = 0;
    while sum < bytes {
        let direction = load.direction();
        let Some(next) = load.next(direction) else { break };
        sum += u64::from(next.len);
        requests.push(next);
    }
    requests
}

/// How often each byte of each file was visited, in units of `unit` bytes.
fn visits(requests: &[JobRequest], unit: u64) -> HashMap<(u16, u64), u32> {
    let mut visits = HashMap::new();
    for next in requests {
        for block in next.offset / unit..(next.offset + u64::from(next.len)).div_ceil(unit) {
            *visits.entry((next.file, block)).or_insert(0) += 1;
        }
    }
    visits
}

fn assert_each_once(requests: &[JobRequest], files: &[Extent], unit: u64, what: &str) {
    let visits = visits(requests, unit);
    assert!(visits.values().all(|count| *count == 1), "{what}: a block came twice");
    for (file, extent) in (0..).zip(files) {
        for block in extent.start / unit..(extent.start / unit + extent.length / unit) {
            assert!(visits.contains_key(&(file, block)), "{what}: block {block} of file {file} is missing");
        }
    }
    let blocks: u64 = files.iter().map(|extent| extent.length / unit).sum();
    assert_eq!(visits.len() as u64, blocks, "{what}: no other block");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_block_of_each_file_comes_exactly_once(
        lengths in proptest::collection::vec(1_u64..400_000, 1..5),
        start in 0_u64..100,
        bs in prop_oneof![Just(512_u64), Just(1000), Just(4096), Just(3000)],
        generator in prop_oneof![Just("tausworthe"), Just("lfsr"), Just("tausworthe64")],
        rw in prop_oneof![Just("randread"), Just("randwrite"), Just("randrw"), Just("randtrim")],
        service in prop_oneof![Just("roundrobin:3"), Just("random"), Just("sequential")],
        window in 0_u32..4,
        seed in any::<u64>(),
    ) {
        let files: Vec<_> = lengths.iter().map(|length| Extent { start: start * bs, length: *length }).collect();
        let options = format!(
            "rw={rw} bs={bs} random_generator={generator} file_service_type={service} nrfiles={} openfiles={window}",
            files.len(),
        );
        let requests = round(&mut load(&options, &files, seed), u64::MAX);
        assert_each_once(&requests, &files, bs, &options);
        let inside = |next: &JobRequest| {
            let extent = files[usize::from(next.file)];
            next.offset >= extent.start && next.offset + u64::from(next.len) <= extent.start + extent.length
        };
        prop_assert!(requests.iter().all(inside));
    }

    #[test]
    fn blocks_of_several_sizes_cover_all_and_none_twice(
        length in 16_384_u64..2_000_000,
        sizes in prop_oneof![
            Just("bsrange=4k-16k"), Just("bsrange=4k-10k"), Just("bssplit=4k/20:8k/30:64k/50"),
        ],
        seed in any::<u64>(),
    ) {
        let files = extents(2, length);
        let requests = round(&mut load(&format!("rw=randrw nrfiles=2 {sizes}"), &files, seed), u64::MAX);
        assert_each_once(&requests, &files, 4096, sizes);
    }

    /// A fifth of the writes of `bs=8k,16k` had 8 KiB.
    #[test]
    fn no_block_is_shorter_than_the_least_of_its_direction(
        blocks in 1_u64..100,
        (sizes, least) in prop_oneof![
            Just(("bs=8k,16k", [8192_u64, 16384])), Just(("bs=16k,4k", [16384, 4096])),
            Just(("bsrange=4k-64k,8k-8k", [4096, 8192])),
        ],
        seed in any::<u64>(),
    ) {
        let files = extents(2, blocks * 16384);
        let requests = round(&mut load(&format!("rw=randrw nrfiles=2 {sizes}"), &files, seed), u64::MAX);
        for next in &requests {
            let least = least[next.direction];
            assert!(u64::from(next.len) >= least && next.offset % least == 0, "{sizes}: {next:?}");
        }
        let visited = visits(&requests, 4096);
        assert_eq!(visited.len() as u64, 2 * blocks * 4, "{sizes}: all blocks");
    }

    #[test]
    fn no_request_lies_outside_its_extent_or_off_the_grid(
        length in 4096_u64..500_000,
        start in 0_u64..10,
        options in prop_oneof![
            Just("rw=randrw norandommap bsrange=4k-16k"), Just("rw=randread bs=8k ba=4k"),
            Just("rw=randread random_distribution=zipf:1.1 bsrange=4k-32k"),
            Just("rw=randread random_distribution=pareto:0.3:0.9"), Just("rw=randwrite random_distribution=normal:40"),
            Just("rw=randread random_distribution=zoned:60/10:40/90"),
            Just("rw=randread random_distribution=zoned_abs:60/8k:30/40k:10/10m"),
            Just("rw=randread zonemode=strided zonesize=12k zonerange=36k zoneskip=8k"),
            Just("rw=rw zonemode=strided zonesize=12k zonerange=8k zoneskip=8k"), Just("rw=write:-8k"),
            Just("rw=randread:5 percentage_random=30"), Just("rw=randtrimwrite norandommap"), Just("rw=trimwrite:12k"),
            Just("rw=randread random_generator=lfsr bsrange=4k-32k"),
        ],
        seed in any::<u64>(),
    ) {
        let (start, end) = (start * 4096, start * 4096 + length);
        let mut load = load(options, &[Extent { start, length }], seed);
        for next in round(&mut load, 4 * length) {
            prop_assert!(next.len > 0 && next.offset >= start && next.offset + u64::from(next.len) <= end, "{next:?}");
            // Backwards, blocks are counted from the end.
            prop_assert!(options.contains(":-") || next.offset % 4096 == 0, "{next:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_requests(seed in any::<u64>()) {
        for options in ["rw=randrw", "rw=randread random_generator=lfsr", "rw=randread random_distribution=zipf:1.2",
            "rw=randwrite bsrange=4k-16k", "rw=randread norandommap"] {
            let files = extents(1, 4 << 20);
            let draw = |seed| round(&mut load(options, &files, seed), 4 << 20);
            prop_assert!(draw(seed) == draw(seed), "{}", options);
            prop_assert!(draw(seed) != draw(seed ^ 1), "{}", options);
        }
    }
}

#[test]
fn a_round_repeats_with_randrepeat_and_differs_without() {
    let files = extents(2, 1 << 20);
    for options in ["rw=randrw nrfiles=2", "rw=randwrite nrfiles=2 bsrange=4k-16k", "rw=randread:4 nrfiles=2"] {
        for (repeat, same) in [("randrepeat=1", true), ("randrepeat=0", false)] {
            let mut load = load(&format!("{options} {repeat}"), &files, 7);
            let first = round(&mut load, 2 << 20);
            load.restart();
            assert_eq!(round(&mut load, 2 << 20) == first, same, "{options} {repeat}");
        }
    }
}

#[test]
fn a_round_that_was_left_half_way_starts_from_nothing_visited() {
    for options in ["rw=randread", "rw=randread bsrange=4k-16k", "rw=randread random_generator=lfsr", "rw=read"] {
        let files = extents(3, 300_000);
        let mut load = load(&format!("{options} nrfiles=3 randrepeat=0 openfiles=2"), &files, 1);
        round(&mut load, 350_000);
        load.restart();
        assert_each_once(&round(&mut load, u64::MAX), &files, 4096, options);
    }
}

/// Only the first of five files was written.
#[test]
fn time_based_goes_through_all_files_in_turn() {
    let files = extents(3, 16384);
    let mut load = load("rw=write bs=4k time_based runtime=10 nrfiles=3 file_service_type=sequential", &files, 1);
    for _ in 0..2 {
        let files: Vec<u16> = round(&mut load, u64::MAX).iter().map(|next| next.file).collect();
        assert_eq!(files, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        load.restart();
    }
}

#[test]
fn time_based_starts_a_file_again_where_it_ends() {
    for options in ["rw=randread", "rw=randread bsrange=4k-16k", "rw=randread random_generator=lfsr", "rw=read"] {
        let files = extents(1, 64 << 12);
        let mut load = load(&format!("{options} time_based runtime=10"), &files, 1);
        for turn in 0..5 {
            assert_each_once(&round(&mut load, 64 << 12), &files, 4096, &format!("{options}, turn {turn}"));
        }
    }
}

#[test]
fn runs_follow_a_random_start() {
    let mut load = load("rw=randread:8", &extents(1, 64 << 20), 3);
    let requests = round(&mut load, 16 << 20);
    assert_eq!(requests.len(), 4096);
    let follows = |pair: &[JobRequest]| pair[1].offset == pair[0].offset + 4096;
    let broken = requests.chunks(8).filter(|run| !run.windows(2).all(follows)).count();
    // A run that meets the end of the file goes on at random.
    assert!(broken <= 2, "{broken} of 512 runs are broken");
    let starts: std::collections::HashSet<u64> = requests.iter().step_by(8).map(|next| next.offset).collect();
    assert_eq!(starts.len(), 512, "a start comes once");
}

#[test]
fn trims_and_writes_alternate_on_the_same_block() {
    // A sequential write took a size of its own (fio's t0024).
    for options in [
        "rw=trimwrite",
        "rw=trimwrite bsrange=4k-16k",
        "rw=trimwrite bssplit=4k/20:8k/30:16k/50",
        "rw=randtrimwrite",
        "rw=randtrimwrite bsrange=4k-16k",
        "rw=randtrimwrite norandommap",
    ] {
        let files = extents(1, 1 << 20);
        let mut load = load(options, &files, 5);
        assert_eq!(load.round_bytes(), 2 << 20);
        let requests = round(&mut load, 2 << 20);
        for pair in requests.chunks_exact(2) {
            assert_eq!((pair[0].direction, pair[1].direction), (TRIM, WRITE), "{options}");
            assert_eq!((pair[0].offset, pair[0].len), (pair[1].offset, pair[1].len), "{options}");
        }
        if !options.contains("norandommap") {
            let trims: Vec<_> = requests.into_iter().filter(|next| next.direction == TRIM).collect();
            assert_each_once(&trims, &files, 4096, options);
        }
    }
}

#[test]
fn a_random_zone_is_filled_before_the_next() {
    let files = extents(1, 320 << 10);
    let mut load = load("rw=randread zonemode=strided zonesize=32k zonerange=64k zoneskip=16k", &files, 9);
    let requests = round(&mut load, 160 << 10);
    for (zone, requests) in requests.chunks(8).enumerate() {
        let base = (zone as u64 % 4) * (80 << 10);
        assert!(requests.iter().all(|next| (base..base + (64 << 10)).contains(&next.offset)), "zone {zone}");
        assert!(visits(requests, 4096).values().all(|count| *count == 1), "zone {zone}: a block came twice");
    }
}

#[test]
fn asking_for_the_direction_uses_up_no_offset() {
    for options in ["rw=randrw", "rw=randtrimwrite", "rw=trimwrite", "rw=randread bsrange=4k-8k"] {
        let files = extents(1, 1 << 20);
        let (mut once, mut often) = (load(options, &files, 2), load(options, &files, 2));
        for _ in 0..100 {
            let direction = once.direction();
            (0..3).for_each(|_| _ = often.direction());
            let (first, second) = (once.next(direction).unwrap(), often.next(direction).unwrap());
            assert_eq!((first.offset, first.len), (second.offset, second.len), "{options}");
        }
    }
}

#[test]
fn files_that_hold_no_block_are_passed_over() {
    for options in [
        "rw=read",
        "rw=randread",
        "rw=randread norandommap",
        "rw=randread random_distribution=zipf:1.2",
        "rw=randread random_generator=lfsr",
        "rw=randread time_based runtime=1",
        "rw=write:-8k",
        "rw=randwrite bsrange=4k-8k",
        "rw=read zonemode=strided zonesize=4k",
        "rw=read file_service_type=zipf:1.2",
        "rw=randtrimwrite",
    ] {
        let lengths = [0, 4095, 8192, 100];
        let files: Vec<_> = lengths.iter().map(|length| Extent { start: 4096, length: *length }).collect();
        let requests = round(&mut load(&format!("{options} nrfiles=4"), &files, 4), 8192);
        assert!(!requests.is_empty() && requests.iter().all(|next| next.file == 2), "{options}: {requests:?}");
        let none = [Extent { start: 0, length: 100 }];
        assert_eq!(load(options, &none, 4).next(READ), None, "{options}");
        assert_eq!(load(options, &[], 4).next(READ), None, "{options}");
    }
}
