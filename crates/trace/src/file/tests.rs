//! Traces are read as they were written, and up to where they are damaged.

use std::io::BufReader;

use qd1_model::requests::{Asker, COMM, Op, Request, Sync};

use super::*;
use crate::capture::Counts;
use crate::entry::Entry;
use crate::split::{Other, Part, Split};

const COUNTS: Counts = Counts { completed: 9, lost: 1, unseen: 2, in_flight: 3, lost_other: 4 };

fn asker(name: &str, pid: u32) -> Asker {
    let mut comm = [0; COMM];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    Asker { pid, tid: pid + 1, comm, cgroup: 77, is_kernels: pid == 2 }
}

/// Random 4 KiB requests on a disk of 1 TiB, 200,000 a second, as a fast disk serves them.
fn random_requests(count: usize) -> Vec<Entry> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut now_ns = 5_000_000_000;
    let mut some = |mean_ns: f64| (-mean_ns * random.f64().max(1e-12).ln()) as u64;
    let waits: Vec<(u64, u64, u64)> =
        (0..count).map(|_| (some(5_000.0), some(1_500.0), 20_000 + some(60_000.0))).collect();
    waits
        .into_iter()
        .map(|(pause_ns, queue_ns, device_ns)| {
            now_ns += pause_ns;
            Entry::Request(Request {
                complete_ns: now_ns,
                queue_ns: Some(queue_ns),
                device_ns,
                sector: random.u64(..1 << 28) * 8,
                bytes: 4096,
                device: (259, 0),
                flags: if random.bool() {
                    Op::Read.flags()
                } else {
                    Op::Write.flags() | Request::flags(true, false, false, false)
                },
                asker: asker("postgres", 4000 + random.u32(..4)),
                blkcg: 1,
                errno: 0,
            })
        })
        .collect()
}

fn varied_entries() -> Vec<Entry> {
    let request = |complete_ns, queue_ns, sector, bytes, flags| {
        let asker = asker("kworker/0:1", 2);
        let device = (7, 3);
        Entry::Request(Request {
            complete_ns,
            queue_ns,
            device_ns: 9,
            sector,
            bytes,
            device,
            flags,
            asker,
            blkcg: 0,
            errno: 5,
        })
    };
    let split = Split {
        parts_ns: std::array::from_fn(|part| part as u64 * 1000),
        others: vec![Other {
            asker: asker("dd", 9),
            threads: 3,
            requests: 2,
            bytes: u64::MAX,
            written_back: 1,
            syncs: 0,
        }],
    };
    let sync = |complete_ns, call| Sync {
        complete_ns,
        took_ns: 30_000_000_000,
        run_delay_ns: 4,
        inode: u64::MAX,
        bytes: u32::MAX,
        device: (0, 0),
        call,
        blkcg: 3,
        asker: asker("etcd", 1),
        errno: 28,
    };
    assert_eq!(split.parts_ns.len(), Part::ALL.len());
    vec![
        request(6_000_000_000, None, u64::MAX, u32::MAX, 2),
        Entry::Sync(sync(6_000_000_001, "fsync"), Box::new(split.clone())),
        request(6_000_000_002, Some(u64::MAX), 0, 0, 0xffff_ffff),
        request(6_000_000_002, Some(0), 1, 512, 1),
        Entry::Sync(sync(9_000_000_000, "write"), Box::new(Split { others: Vec::new(), ..split })),
    ]
}

fn written(entries: &[Entry], hashing: Option<Hashing>) -> Vec<u8> {
    let mut file = Vec::new();
    let about = About { target: "vda".into(), sees_queue: true, sees_device: true, ..About::default() };
    let mut writer = Writer::new(&mut file, &about, 5_000_000_000, hashing).unwrap();
    for entry in entries {
        writer.push(entry.clone(), |(major, minor)| format!("disk{major}-{minor}")).unwrap();
    }
    let length = writer.end(Some(COUNTS)).unwrap();
    assert_eq!(length, file.len() as u64);
    file
}

/// What is read: entries with times since the begin, and how it ended.
fn read(file: &[u8]) -> Option<(Vec<Entry>, Ending)> {
    let mut recording = Recording::open(vec![BufReader::new(file)]).ok()?;
    let entries = recording.by_ref().collect();
    Some((entries, recording.ending()))
}

fn since_begin(entries: &[Entry]) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        match entry {
            Entry::Request(request) => request.complete_ns -= 5_000_000_000,
            Entry::Sync(sync, _) => sync.complete_ns -= 5_000_000_000,
        }
    }
    entries
}

#[test]
fn entries_are_read_as_written() {
    for entries in [varied_entries(), random_requests(40_000), Vec::new()] {
        let file = written(&entries, None);
        let (read, ending) = read(&file).unwrap();
        assert!(read == since_begin(&entries));
        assert_eq!(ending, Ending::Whole(COUNTS));
    }
    let file = written(&varied_entries(), None);
    let mut recording = Recording::open(vec![&file[..]]).unwrap();
    assert_eq!((recording.about().target.as_str(), recording.kind()), ("vda", Kind::Compact));
    assert_eq!(recording.by_ref().count(), 5);
    assert_eq!(recording.name((7, 3)), Some("disk7-3"));
}

#[test]
fn a_random_request_takes_at_most_twelve_bytes() {
    let entries = random_requests(100_000);
    let bytes = written(&entries, None).len() as f64 / entries.len() as f64;
    println!("{bytes:.2} bytes a request");
    assert!(bytes <= 12.0, "{bytes}");
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_there() {
    let entries = random_requests(16_384 + 300);
    let file = written(&entries, None);
    let expected = since_begin(&entries);
    let mut counts = std::collections::BTreeSet::new();
    for end in (0..file.len()).step_by(997).chain(file.len() - 100..file.len()) {
        let Some((found, ending)) = read(&file[..end]) else {
            assert!(end < 300, "the first block is whole");
            continue;
        };
        assert!(found == expected[..found.len()]);
        let Ending::Incomplete { read, .. } = ending else { panic!("{ending:?}") };
        assert!(read <= end as u64);
        counts.insert(found.len());
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [0, 16_384, 16_684], "block by block");
}

#[test]
fn a_flipped_bit_is_noticed() {
    let entries = varied_entries();
    let file = written(&entries, None);
    let expected = since_begin(&entries);
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            if let Some((found, ending)) = read(&damaged) {
                // The version may be an earlier one.
                assert!(matches!(ending, Ending::Incomplete { .. }) || (8..12).contains(&at), "byte {at}, bit {bit}");
                assert!(found == expected[..found.len()]);
            }
        }
    }
}

#[test]
fn hashes_hide_names_and_keep_sequences() {
    let request = |sector: u64| match random_requests(1).remove(0) {
        Entry::Request(request) => Entry::Request(Request { sector, ..request }),
        Entry::Sync(..) => unreachable!("only requests"),
    };
    let entries: Vec<Entry> = [0, 8, 16, 1 << 20, 8].into_iter().map(request).chain(varied_entries()).collect();
    let file = written(&entries, Some(Hashing::default()));
    let (read, _) = read(&file).unwrap();
    let sectors: Vec<u64> = read
        .iter()
        .filter_map(|entry| if let Entry::Request(request) = entry { Some(request.sector) } else { None })
        .collect();
    assert_eq!((sectors[1] - sectors[0], sectors[2] - sectors[1], sectors[4]), (8, 8, sectors[1]));
    assert_ne!(sectors[0], 0);
    for entry in &read {
        let asker = match entry {
            Entry::Request(request) => request.asker,
            Entry::Sync(sync, split) => {
                assert_ne!(sync.inode, u64::MAX);
                assert!(split.others.iter().all(|other| !other.asker.is_named("dd")));
                sync.asker
            }
        };
        let is_kept = asker.is_named("kworker/0:1");
        assert!(is_kept || asker.name().starts_with('h') && asker.cgroup != 77, "{asker:?}");
    }
}

#[test]
fn a_strange_file_is_refused() {
    for strange in [&b""[..], b"qd1trace", b"hello, world, this is not a trace", &[0; 100]] {
        assert!(read(strange).is_none());
    }
    let mut later = written(&[], None);
    later[8] = 9;
    let error = Recording::open(vec![&later[..]]).err().unwrap();
    assert!(error.to_string().contains("version 9"), "{error:#}");
    let file = written(&[], None);
    assert!(Recording::open(vec![&file[..], &file[..]]).is_err(), "only blktrace has several files");
}
