//! Flipped bits are found, all of them and no others, where they are.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use qd1_fio::types::Verify;

use crate::common::fio::{Side, for_each};
use crate::common::{Place, int, random, said};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 256;
/// Bits flipped in each file, each in a block of its own.
const FLIPS: usize = 7;

/// Every way of verifying, with what else it needs.
fn kinds() -> Vec<String> {
    // `null` pretends to verify, which shows its cost.
    let finds = |verify: Verify| !matches!(verify, Verify::None | Verify::Null);
    let named = Verify::WORDS.iter().filter(|(_, verify, _)| finds(*verify));
    named
        .map(|(name, verify, _)| match verify {
            // Patterns of an odd length, so that a block shifted by one is not like its neighbour.
            Verify::Pattern => format!("--verify={name} --verify_pattern=0xdeadbe%o"),
            _ => format!("--verify={name}"),
        })
        .collect()
}

/// Flips a bit in each of some random blocks; their offsets.
fn flip(path: &Path, seed: u64) -> BTreeSet<u64> {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut random = random(seed);
    let mut offsets = BTreeSet::new();
    while offsets.len() < FLIPS {
        let block = (random() * BLOCKS as f64) as u64 * BLOCK;
        if offsets.insert(block) {
            let at = block + (random() * BLOCK as f64) as u64;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << ((random() * 8.0) as u32);
            file.write_all_at(&byte, at).unwrap();
        }
    }
    offsets
}

/// The blocks that messages name by an offset inside of them.
fn named(stderr: &str) -> Vec<u64> {
    let after =
        stderr.lines().filter(|line| line.contains("verify: ")).filter_map(|line| line.split("at offset ").nth(1));
    let offset = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u64>().unwrap();
    after.map(|rest| offset(rest) / BLOCK * BLOCK).collect()
}

#[test]
fn every_flipped_bit_is_found_and_none_is_invented() {
    for_each(&kinds(), 3, |kind| {
        let place = Place::new();
        let line = format!("--name=j --filename=f --size=1m --bs=4k {kind}");
        let report = Side::Ours.report(place.dir(), &format!("{line} --rw=randwrite"));
        let back = int(&report["jobs"][0]["read"]["total_ios"]);
        if back != BLOCKS {
            return Err(format!("{kind}: {back} blocks were read back in the same job"));
        }
        // Untouched, a job of its own finds nothing wrong; `report` fails if it does.
        Side::Ours.report(place.dir(), &format!("{line} --rw=read"));
        let wanted = flip(&place.dir().join("f"), 0xF11B + kind.len() as u64);
        for how in ["--rw=read", "--rw=randread --ioengine=libaio --iodepth=8", "--rw=randwrite --verify_only"] {
            let output = Side::Ours.run(place.dir(), &format!("{line} {how}"));
            let (stderr, all) = (said(&output.stderr), named(&said(&output.stderr)));
            let got: BTreeSet<u64> = all.iter().copied().collect();
            if got != wanted || all.len() != FLIPS || output.status.code() != Some(1) {
                return Err(format!("{kind} {how}: {got:?}, wanted {wanted:?}, {:?}: {stderr}", output.status));
            }
        }
        Ok(())
    });
}

#[test]
fn verify_fatal_stops_at_the_first_wrong_block() {
    let place = Place::new();
    let line = "--name=j --filename=f --size=1m --bs=4k --verify=crc32c";
    Side::Ours.report(place.dir(), &format!("{line} --rw=write"));
    let wanted = flip(&place.dir().join("f"), 5);
    let output = Side::Ours.run(place.dir(), &format!("{line} --rw=read --verify_fatal=1 --output-format=json"));
    assert_eq!(named(&said(&output.stderr)), [*wanted.first().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let reads = int(&report["jobs"][0]["read"]["total_ios"]);
    assert_eq!(reads, wanted.first().unwrap() / BLOCK + 1, "nothing is read after it");
    assert_eq!(report["jobs"][0]["error"], 84, "EILSEQ");
}

#[test]
fn a_backlog_reads_back_each_block_once_as_well() {
    let place = Place::new();
    let line = "--name=j --filename=f --size=1m --bs=4k --rw=randwrite --verify=xxhash --verify_backlog=13";
    for more in ["", "--verify_backlog_batch=5", "--ioengine=libaio --iodepth=8"] {
        let report = Side::Ours.report(place.dir(), &format!("{line} {more}"));
        assert_eq!(int(&report["jobs"][0]["read"]["total_ios"]), BLOCKS, "{more}");
    }
}

#[test]
fn do_verify_0_reads_nothing_back() {
    let place = Place::new();
    let line = "--name=j --filename=f --size=1m --bs=4k --rw=write --verify=md5 --do_verify=0";
    assert_eq!(int(&Side::Ours.report(place.dir(), line)["jobs"][0]["read"]["total_ios"]), 0);
}
