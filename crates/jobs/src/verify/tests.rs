//! What is found, and that nothing is invented.

use std::sync::Arc;

use proptest::prelude::*;
use qd1_fio::FioJob;
use qd1_fio::types::{Pattern, PatternPart, Range, Verify};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

fn job(verify: Verify, min: u64, max: u64) -> FioJob {
    let mut job = FioJob::new("v");
    job.verify = verify;
    job.bs[1] = min;
    if min != max {
        job.bsrange[1] = Some(Range { min, max });
    }
    job
}

fn kinds() -> impl Iterator<Item = Verify> {
    Verify::WORDS.iter().map(|(_, verify, _)| *verify)
}

fn with_header() -> impl Iterator<Item = Verify> {
    kinds().filter(|verify| header_bytes(*verify) > 0)
}

/// Turns a block of ours into one that fio might have written: a time where the mark was.
fn unmark(block: &mut [u8]) {
    let bytes: &mut [u8; header::BYTES] = block.first_chunk_mut().unwrap();
    let (header, ..) = Header::decode(bytes);
    *bytes = Header { written: 0x06cd_06e0 << 32, ..header }.encode();
}

#[test]
fn nothing_is_verified_unless_asked() {
    assert!(Verifier::new(&job(Verify::None, 4096, 4096), 1, 1).is_none());
}

#[test]
fn what_was_written_is_accepted_for_every_type_and_size() {
    for verify in kinds().filter(|verify| *verify != Verify::None) {
        for (min, max, len) in [(4096, 4096, 4096), (512, 512, 512), (512, 8192, 3072), (512, 8192, 1700), (64, 64, 64)]
        {
            let mut verifier = Verifier::new(&job(verify, min, max), 3, 9).unwrap();
            let mut buf = vec![0; len];
            for turn in 0..4u64 {
                let expected = verifier.fill(&mut buf, 2, turn * 8192);
                assert_eq!((expected.file, expected.sequence, expected.len), (2, turn, len as u32));
                assert_eq!(verifier.check(&buf, turn * 8192, Some(&expected)), Ok(()), "{verify:?} {len}");
                assert_eq!(verifier.check(&buf, turn * 8192, None), Ok(()), "{verify:?} {len}");
            }
        }
    }
}

#[test]
fn every_single_bit_flip_is_found_without_knowing_the_write() {
    for verify in with_header() {
        let mut verifier = Verifier::new(&job(verify, 256, 256), 1, 5).unwrap();
        let mut buf = vec![0; 256];
        verifier.fill(&mut buf, 0, 4096);
        for bit in 0..256 * 8 {
            buf[bit / 8] ^= 1 << (bit % 8);
            let found = verifier.check(&buf, 4096, None);
            assert_eq!(found.map_err(|mismatch| mismatch.offset), Err(4096), "{verify:?}, bit {bit}");
            buf[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(verifier.check(&buf, 4096, None), Ok(()), "{verify:?}");
    }
}

/// What fio's layout leaves uncovered by itself, which the mark is for: nothing else.
#[test]
fn in_fios_blocks_only_meta_and_sha512_leave_data_uncovered() {
    for verify in with_header() {
        let mut verifier = Verifier::new(&job(verify, 512, 512), 1, 5).unwrap();
        let mut buf = vec![0; 512];
        verifier.fill(&mut buf, 0, 0);
        unmark(&mut buf);
        let missed: Vec<usize> = (0..512)
            .filter(|at| {
                buf[*at] ^= 0x10;
                let found = verifier.check(&buf, 0, None);
                buf[*at] ^= 0x10;
                found.is_ok()
            })
            .collect();
        let wanted: Vec<usize> = match verify {
            Verify::Meta => (40..512).collect(),
            // 344 bytes of data: the buffer holds the last 88 over the first 128.
            Verify::Sha512 => (168..168 + 88).chain(168 + 128..168 + 256).collect(),
            _ => Vec::new(),
        };
        assert_eq!(missed, wanted, "{verify:?}");
    }
}

#[test]
fn an_older_write_of_a_block_is_found_where_it_is_known() {
    for verify in with_header() {
        let mut verifier = Verifier::new(&job(verify, 512, 512), 1, 5).unwrap();
        let (mut old, mut new) = (vec![0; 512], vec![0; 512]);
        let older = verifier.fill(&mut old, 0, 0);
        let newer = verifier.fill(&mut new, 0, 0);
        let lost = verifier.check(&old, 0, Some(&newer)).unwrap_err();
        assert_eq!(lost.what, "the block comes from write 0, expected 1", "{verify:?}");
        assert_eq!(verifier.check(&old, 0, Some(&older)), Ok(()));
        assert_eq!(verifier.check(&old, 0, None), Ok(()), "fio's rule, for another run's data");
        // 65,536 writes later fio's number is the same again; the seed is not.
        let wrapped = Expected { sequence: older.sequence + (1 << 16), ..older };
        assert!(verifier.check(&old, 0, Some(&wrapped)).unwrap_err().what.starts_with("the header's seed"));
    }
}

#[test]
fn messages_tell_what_was_found_and_what_was_wanted() {
    let mut verifier = Verifier::new(&job(Verify::Crc32c, 512, 4096), 1, 5).unwrap();
    let mut buf = vec![0; 2048];
    let expected = verifier.fill(&mut buf, 0, 8192);
    let message = |buf: &[u8], offset| verifier.check(buf, offset, Some(&expected)).unwrap_err().to_string();
    let zeros = [&buf[..1024], &[0; 1024]].concat();
    assert_eq!(message(&zeros, 8192), "verify: at offset 9216, length 512: the header starts with 0, expected acca");
    let elsewhere = "verify: at offset 0, length 512: the header's offset is 8192, expected 0";
    assert_eq!(message(&buf, 0), elsewhere);
    let other = Verifier::new(&job(Verify::Md5, 512, 4096), 1, 5).unwrap();
    let message = other.check(&buf, 8192, None).unwrap_err();
    assert!(message.what.starts_with("the header was made with verify=crc32c"), "{message}");
    let longer = Verifier::new(&job(Verify::Crc32c, 2048, 2048), 1, 5).unwrap();
    assert_eq!(longer.check(&buf, 8192, None).unwrap_err().what, "the header's length is 512, expected 2048");
}

#[test]
fn a_pattern_fills_the_request_with_headers_over_it() {
    let mut job = job(Verify::Crc16, 512, 4096);
    job.verify_pattern = Arc::new(Pattern(vec![PatternPart::Bytes(vec![0xde, 0xad, 0xbe, 0xef]), PatternPart::Offset]));
    let mut plain = job.clone();
    plain.verify = Verify::Pattern;
    let mut verifier = Verifier::new(&job, 1, 5).unwrap();
    let mut pattern = Verifier::new(&plain, 1, 5).unwrap();
    let (mut with, mut without) = (vec![0; 1024], vec![0; 1024]);
    let expected = verifier.fill(&mut with, 0, 0x2000);
    pattern.fill(&mut without, 0, 0x2000);
    assert_eq!(without[..24], *b"\xde\xad\xbe\xef\x00\x20\0\0\0\0\0\0\xde\xad\xbe\xef\x00\x20\0\0\0\0\0\0");
    assert_eq!(with[42..512], without[42..512]);
    assert_eq!(with[512 + 42..], without[512 + 42..]);
    assert_eq!(verifier.check(&with, 0x2000, Some(&expected)), Ok(()));
    assert_eq!(pattern.check(&without, 0x2000, None), Ok(()));
    without[700] ^= 1;
    let mismatch = pattern.check(&without, 0x2000, None).unwrap_err();
    assert_eq!((mismatch.offset, mismatch.what.as_str()), (0x2000, "byte 700 is 01, expected 00"));
    assert!(pattern.check(&without, 0x3000, None).is_err(), "the offset is part of it");
}

#[test]
fn blocks_too_small_for_a_header_are_made_again_and_compared() {
    let mut verifier = Verifier::new(&job(Verify::Md5, 32, 32), 1, 5).unwrap();
    let mut buf = vec![0; 32];
    let expected = verifier.fill(&mut buf, 0, 0);
    assert_eq!(verifier.check(&buf, 0, Some(&expected)), Ok(()));
    buf[31] ^= 0x80;
    assert!(verifier.check(&buf, 0, Some(&expected)).unwrap_err().what.starts_with("byte 31 is "));
}

#[test]
fn verify_only_accepts_the_data_of_an_earlier_run() {
    let job = job(Verify::Xxhash, 512, 512);
    let mut writer = Verifier::new(&job, 1, 5).unwrap();
    let mut reader = Verifier::new(&job, 2, 6).unwrap();
    let mut buf = vec![0; 512];
    let wrote = writer.fill(&mut buf, 0, 1024);
    let expects = reader.expect(0, 1024, 512);
    assert_eq!((expects.offset, expects.len, expects.sequence), (wrote.offset, wrote.len, wrote.sequence));
    assert_eq!(reader.check(&buf, 1024, Some(&expects)), Ok(()));
    assert!(reader.check(&buf, 1024, Some(&wrote)).is_err(), "but not as its own");
}

#[test]
fn data_is_compressible_as_asked_under_verification_too() {
    let mut job = job(Verify::Crc32c, 4096, 4096);
    job.buffer_compress_percentage = 50;
    let mut buf = vec![0; 4096];
    Verifier::new(&job, 1, 5).unwrap().fill(&mut buf, 0, 0);
    let zeros = buf.iter().filter(|byte| **byte == 0).count();
    assert!((2000..2100).contains(&zeros), "{zeros}");
}

/// A disk in memory; writes overlap in all ways, some are lost or torn. What the history still holds is what was
/// written unless the disk broke it, and then it is found.
#[test]
fn overlapping_writes_are_neither_invented_nor_missed() {
    const SIZE: usize = 1 << 18;
    let mut verifier = Verifier::new(&job(Verify::Crc32c, 512, 2048), 1, 77).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(41);
    let mut disk = vec![0u8; SIZE];
    let mut broken = vec![false; SIZE / 512];
    let mut history = History::default();
    let (mut checked, mut found, mut dropped) = (0, 0, 0);
    for turn in 1..=100_000 {
        let len = 512 * (1 + (rng.next_u64() % 4) as usize);
        let at = 512 * (rng.next_u64() as usize % ((SIZE - len) / 512));
        let mut buf = vec![0; len];
        let expected = verifier.fill(&mut buf, 0, at as u64);
        let fault = rng.next_u64() % 200;
        let durable = match fault {
            0 => 0,
            1 => len / 2,
            _ => len,
        };
        disk[at..at + durable].copy_from_slice(&buf[..durable]);
        for sector in 0..len / 512 {
            broken[at / 512 + sector] = (sector + 1) * 512 > durable;
        }
        dropped += history.add(expected);
        if turn % 1000 != 0 {
            continue;
        }
        while let Some(expected) = history.take_next() {
            let (at, len) = (expected.offset as usize, expected.len as usize);
            let result = verifier.check(&disk[at..at + len], expected.offset, Some(&expected));
            let wrong = broken[at / 512..(at + len) / 512].contains(&true);
            assert_eq!(result.is_err(), wrong, "write {}: {result:?}", expected.sequence);
            checked += 1;
            found += usize::from(wrong);
        }
    }
    println!("{checked} blocks checked, {found} broken ones found, {dropped} overwritten before they could be");
    assert!(checked > 10_000 && found > 100 && dropped > 10_000, "{checked} {found} {dropped}");
    assert_eq!(checked + dropped, 100_000);
}

/// What the history has to be: each byte belongs to its last writer, and only blocks that own all of theirs are kept.
#[derive(Default)]
struct Model {
    owner: std::collections::HashMap<(u16, u64), u64>,
    written: Vec<Expected>,
}

impl Model {
    fn live(&self) -> Vec<Expected> {
        let owns = |block: &&Expected| {
            let bytes = block.offset..block.offset + u64::from(block.len);
            bytes.into_iter().all(|at| self.owner.get(&(block.file, at)) == Some(&block.sequence))
        };
        self.written.iter().filter(owns).copied().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_history_holds_whole_blocks_in_the_order_of_their_writes(
        steps in prop::collection::vec((0u8..10, 0u16..2, 0u64..60, 0u32..12), 0..120),
    ) {
        let mut history = History::default();
        let mut model = Model::default();
        for (sequence, (what, file, offset, len)) in steps.into_iter().enumerate() {
            let sequence = sequence as u64;
            let bytes = (offset..offset + u64::from(len)).map(|at| (file, at));
            match what {
                0..=6 => {
                    let block = Expected { file, written: true, len, offset, sequence };
                    bytes.for_each(|at| { model.owner.insert(at, sequence); });
                    if len > 0 {
                        model.written.push(block);
                    }
                    history.add(block);
                }
                7 => {
                    bytes.for_each(|at| { model.owner.remove(&at); });
                    history.remove(file, offset, u64::from(len));
                }
                _ => {
                    let first = model.live().first().copied();
                    prop_assert_eq!(history.take_next(), first);
                    model.written.retain(|block| Some(*block) != first);
                }
            }
            prop_assert_eq!(history.iter().copied().collect::<Vec<_>>(), model.live());
            prop_assert_eq!(history.len(), model.live().len());
        }
    }

    #[test]
    fn random_damage_is_found_in_blocks_of_all_sizes(
        kind in 0usize..16, sectors in 1usize..9, at in any::<prop::sample::Index>(),
        damage in prop::collection::vec(1u8.., 1..20), seed in any::<u64>(),
    ) {
        let verify = with_header().nth(kind).unwrap();
        let mut verifier = Verifier::new(&job(verify, 1024, 8192), 1, seed).unwrap();
        let mut buf = vec![0; 1024 * sectors];
        verifier.fill(&mut buf, 0, 1 << 40);
        let start = at.index(buf.len());
        for (byte, damage) in buf[start..].iter_mut().zip(damage) {
            *byte ^= damage;
        }
        let found = verifier.check(&buf, 1 << 40, None);
        let block = (1 << 40) + (start / 1024 * 1024) as u64;
        prop_assert_eq!(found.map_err(|mismatch| mismatch.offset), Err(block), "{:?}", verify);
    }
}

#[test]
fn the_history_of_an_endless_job_stays_bounded() {
    let mut history = History::default();
    for sequence in 0..300_000u64 {
        // The same 64 blocks again and again, but for one that is never overwritten and blocks the queue's front.
        let offset = if sequence == 0 { 1 << 30 } else { sequence % 64 * 4096 };
        history.add(Expected { file: 0, written: true, len: 4096, offset, sequence });
    }
    assert_eq!(history.len(), 65);
    assert!(history.held() <= 65 * 2 + 1024 + 1, "{}", history.held());
    assert_eq!(history.take_next().map(|block| block.sequence), Some(0));
    assert_eq!(history.take_next().map(|block| block.sequence), Some(300_000 - 64));
}
