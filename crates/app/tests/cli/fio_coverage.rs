//! Random jobs visit each block exactly once, as a log of every offset shows.

use std::collections::BTreeMap;

use crate::common::Place;
use crate::common::fio::Side;

/// How often each offset is in the log of a job in blocks of `bs` bytes, and how many lines it has.
fn visits(line: &str) -> BTreeMap<u64, u32> {
    let place = Place::new();
    let line = format!("--name=j --write_lat_log=x --log_offset=1 {line}");
    Side::Ours.report(place.dir(), &line);
    let mut visits = BTreeMap::new();
    for line in std::fs::read_to_string(place.dir().join("x_lat.1.log")).unwrap().lines() {
        let offset = line.split(", ").nth(4).unwrap().parse().unwrap();
        *visits.entry(offset).or_insert(0) += 1;
    }
    visits
}

#[test]
fn every_block_is_written_once_whatever_draws_the_offsets() {
    // Options, block, blocks, first offset, visits of each.
    let cases = [
        ("--size=1m --bs=4k", 4096, 256, 0, 1),
        ("--size=1m --bs=4k --random_generator=tausworthe64", 4096, 256, 0, 1),
        ("--size=1m --bs=4k --random_generator=lfsr", 4096, 256, 0, 1),
        ("--size=1000001 --bs=4k", 4096, 244, 0, 1),
        ("--size=1000001 --bs=4k --random_generator=lfsr", 4096, 244, 0, 1),
        ("--size=3m --bs=3k", 3072, 1024, 0, 1),
        ("--size=3m --bs=4k --nrfiles=3", 4096, 256, 0, 3),
        ("--size=3m --bs=4k --nrfiles=3 --random_generator=lfsr --file_service_type=random", 4096, 256, 0, 3),
        ("--size=1m --bs=4k --offset=256k", 4096, 256, 262_144, 1),
        ("--size=1m --bs=4k --loops=2", 4096, 256, 0, 2),
        ("--size=1m --bs=4k --randrepeat=0", 4096, 256, 0, 1),
        ("--size=1m --bs=4k --ioengine=libaio --iodepth=16 --direct=1", 4096, 256, 0, 1),
        ("--size=512m --bs=4k --ioengine=null", 4096, 131_072, 0, 1),
    ];
    for (options, bs, blocks, first, each) in cases {
        let wanted: BTreeMap<u64, u32> = (0..blocks).map(|block| (first + block * bs, each)).collect();
        let got = visits(&format!("--rw=randwrite {options}"));
        assert!(got == wanted, "{options}: {} offsets, wanted {}", got.len(), wanted.len());
    }
}

#[test]
fn part_of_a_round_visits_no_block_twice() {
    let got = visits("--rw=randwrite --size=4m --bs=4k --io_size=1m");
    assert_eq!((got.len(), got.values().max()), (256, Some(&1)));
}

#[test]
fn without_a_map_some_blocks_are_visited_twice_and_some_never() {
    let got = visits("--rw=randwrite --size=4m --bs=4k --norandommap");
    assert_eq!(got.values().sum::<u32>(), 1024);
    // Of 1,024 draws from 1,024 blocks 1/e stay away: 377, give or take 15.
    assert!((587..707).contains(&got.len()), "{}", got.len());
}

#[test]
fn a_random_job_is_not_a_sequential_one() {
    let place = Place::new();
    Side::Ours.report(place.dir(), "--name=j --rw=randwrite --size=1m --bs=4k --write_lat_log=x --log_offset=1");
    let log = std::fs::read_to_string(place.dir().join("x_lat.1.log")).unwrap();
    let offsets: Vec<i64> = log.lines().map(|line| line.split(", ").nth(4).unwrap().parse().unwrap()).collect();
    let follows = offsets.windows(2).filter(|pair| pair[1] - pair[0] == 4096).count();
    assert!(follows < 8, "{follows} of 255 requests follow the one before");
}
