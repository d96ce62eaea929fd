//! Side by side with fio: the same requests where its order is fixed, and who keeps to the parameter where it is not.
//!
//! fio's requests come from `write_iolog` with its `null` engine, so nothing is read or written but that log.

use std::process::Command;

use super::shares::{moments, popularity, top_share, zipf_exponent};
use super::{job, load};
use qd1_jobs::load::{Extent, JobRequest, READ, TRIM, WRITE};

/// HACKING.md, "Tests": neither green nor red.
fn skip(name: &str, why: &str) {
    println!("SKIPPED: {why}");
    if let Some(log) = std::env::var_os("QD1_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).expect("QD1_SKIP_LOG opens");
        std::io::Write::write_all(&mut log, format!("{name}: {why}\n").as_bytes()).expect("QD1_SKIP_LOG takes a line");
    }
}

fn fio_is_missing(name: &str) -> bool {
    let missing = !Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success());
    if missing {
        skip(name, "no fio to compare with");
    }
    missing
}

/// What fio requests, with the options of a job separated by spaces.
fn fio(options: &str) -> Vec<JobRequest> {
    let dir = tempfile::tempdir().expect("a temp directory");
    let output = Command::new("fio")
        .current_dir(dir.path())
        .args(["--name=t", "--ioengine=null", "--write_iolog=log"])
        .args(options.split(' ').map(|option| format!("--{option}")))
        .output()
        .expect("fio runs");
    assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(dir.path().join("log")).expect("fio wrote its log");
    let request = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let file = words.next()?.rsplit('.').next()?.parse().ok()?;
        let direction = match words.next()? {
            "read" => READ,
            "write" => WRITE,
            "trim" => TRIM,
            _ => return None,
        };
        Some(JobRequest { direction, file, offset: words.next()?.parse().ok()?, len: words.next()?.parse().ok()? })
    };
    // Under time_based the log has what fits into a second.
    let most = if options.contains("time_based") { 200 } else { usize::MAX };
    log.lines().filter_map(request).take(most).collect()
}

/// The same options here: files of equal size, rounds until the bytes of `io_size` (else of one round) are reached.
/// Directions are asked for as `fio` had them, as it draws them at random.
fn ours(options: &str, fio: &[JobRequest]) -> Vec<JobRequest> {
    let job = job(options);
    let bytes = |amount: qd1_fio::types::Amount| match amount {
        qd1_fio::types::Amount::Bytes(bytes) => Some(bytes),
        _ => None,
    };
    let length = bytes(job.size).expect("each case has a size") / u64::from(job.nrfiles);
    let start = bytes(job.offset).unwrap_or(0);
    let files: Vec<_> = (0..job.nrfiles).map(|_| Extent { start, length }).collect();
    let mut load = load(options, &files, 1);
    let limit = match bytes(job.io_size) {
        Some(bytes) => bytes,
        None if job.time_based => u64::MAX,
        None => load.round_bytes(),
    };
    let mixed = job.rw.kind.reads() && job.rw.kind.writes();
    let (mut requests, mut sum, mut rounds) = (Vec::new(), 0, 0);
    while sum < limit && (!job.time_based || requests.len() < fio.len()) {
        let direction = match fio.get(requests.len()) {
            Some(next) if mixed => next.direction,
            _ => load.direction(),
        };
        match load.next(direction) {
            Some(next) => {
                sum += u64::from(next.len);
                requests.push(next);
            }
            // Without io_size one round is all.
            None if limit == load.round_bytes() || rounds > 1000 => break,
            None => {
                rounds += 1;
                load.restart();
            }
        }
    }
    requests
}

/// Jobs whose requests are fixed but for the directions of a mix.
const FIXED: &[&str] = &[
    "rw=read bs=4k size=64k",
    "rw=write bs=4k size=18k",
    "rw=read bs=12k size=40k nrfiles=2 file_service_type=sequential",
    "rw=trim bs=8k size=64k",
    "rw=read bs=4k size=18k io_size=48k",
    "rw=read bs=4k size=16k io_size=52k",
    "rw=read bs=3000 size=64k",
    "rw=write bs=4k size=64k offset=32k",
    // Holes and backwards.
    "rw=read:8k bs=4k size=64k",
    "rw=read:10k bs=4k size=64k",
    "rw=read:4k bs=4k size=18k io_size=80k",
    "rw=read:4k bs=4k size=36k nrfiles=2 io_size=80k",
    "rw=read:512k bs=4k size=4m",
    "rw=write:8k bs=4k size=64k offset=32k io_size=128k",
    "rw=read:-8k bs=4k size=64k",
    "rw=read:-4k bs=4k size=64k",
    "rw=write:-6k bs=4k size=66k",
    "rw=write:-12k bs=4k size=256k",
    "rw=trim:4k bs=4k size=32k",
    "rw=write:10k bs=4k size=64k offset=32k",
    "rw=write:20k bs=4k size=64k offset=16k",
    "rw=read:512k bs=4k size=64k",
    "rw=write:-4k bs=4k size=66k",
    "rw=write:-200k bs=4k size=66k",
    // Files.
    "rw=read bs=4k size=48k nrfiles=3",
    "rw=read bs=4k size=50k nrfiles=3 file_service_type=sequential",
    "rw=read bs=4k size=50k nrfiles=3 file_service_type=roundrobin:2",
    "rw=read bs=4k size=80k nrfiles=5 openfiles=2",
    "rw=read bs=4k size=80k nrfiles=5 openfiles=3 file_service_type=roundrobin:3",
    "rw=write bs=4k size=140k nrfiles=7 openfiles=3 file_service_type=roundrobin:4",
    "rw=read bs=4k size=36k nrfiles=3 io_size=60k",
    // Zones.
    "rw=read bs=4k size=256k zonemode=strided zonesize=16k zoneskip=16k",
    "rw=read bs=4k size=128k zonemode=strided zonesize=16k zonerange=32k zoneskip=16k",
    "rw=read bs=4k size=128k zonemode=strided zonesize=16k zonerange=8k zoneskip=16k",
    "rw=read bs=4k size=124k zonemode=strided zonesize=16k zonerange=16k zoneskip=8k",
    "rw=read bs=4k size=124k zonemode=strided zonesize=16k zonerange=16k zoneskip=9k",
    "rw=read bs=4k size=128k zonemode=strided zonesize=6k zonerange=10k zoneskip=8k",
    "rw=read bs=4k size=128k nrfiles=2 zonemode=strided zonesize=8k zonerange=8k zoneskip=8k",
    "rw=read bs=4k size=128k nrfiles=2 zonemode=strided zonesize=12k zonerange=16k zoneskip=8k",
    "rw=write bs=4k size=64k offset=32k zonemode=strided zonesize=16k zonerange=16k zoneskip=16k",
    "rw=read:4k bs=4k size=256k zonemode=strided zonesize=16k zonerange=32k zoneskip=16k",
    "rw=trimwrite bs=4k size=128k zonemode=strided zonesize=16k zonerange=16k zoneskip=16k",
    // Mixes: each direction has its own positions.
    "rw=rw bs=4k size=256k",
    "rw=rw bs=4k,8k size=256k",
    "rw=rw bs=4k size=16k io_size=64k",
    "rw=rw bs=4k size=120k nrfiles=3 file_service_type=roundrobin:2",
    "rw=rw:8k bs=4k size=128k",
    "rw=rw:-8k bs=4k size=128k",
    "rw=rw bs=4k size=128k zonemode=strided zonesize=16k zonerange=16k zoneskip=16k",
    "rw=rw bs=4k size=256k nrfiles=2 zonemode=strided zonesize=16k zonerange=24k zoneskip=8k",
    "rw=trimwrite bs=4k size=64k",
    "rw=trimwrite bs=4k size=64k nrfiles=2",
    "rw=trimwrite:4k bs=4k size=32k",
    "rw=trimwrite bs=4k,4k,8k size=32k",
    // Random kinds that draw nothing.
    "rw=randread percentage_random=0 bs=4k size=64k",
    // Files that start again.
    "rw=read bs=4k size=32k time_based runtime=1",
    "rw=read bs=4k size=96k nrfiles=3 time_based runtime=1",
    "rw=read:4k bs=4k size=66k nrfiles=2 time_based runtime=1",
    "rw=rw bs=4k size=64k time_based runtime=1",
    "rw=trimwrite bs=4k size=32k time_based runtime=1",
    "rw=read bs=4k size=256k zonemode=strided zonesize=16k zonerange=16k zoneskip=16k time_based runtime=1",
];

#[test]
fn fixed_orders_are_those_of_fio_request_by_request() {
    if fio_is_missing("load::fixed_orders") {
        return;
    }
    let mut requests = 0;
    let mut wrong = Vec::new();
    // Most of fio's time is waiting, so several run at once.
    let all_theirs: Vec<_> = FIXED
        .chunks(8)
        .flat_map(|some| {
            std::thread::scope(|scope| {
                let running: Vec<_> = some.iter().map(|options| scope.spawn(|| fio(options))).collect();
                running.into_iter().map(|one| one.join().expect("fio ran")).collect::<Vec<_>>()
            })
        })
        .collect();
    for (options, theirs) in FIXED.iter().zip(all_theirs) {
        let found = ours(options, &theirs);
        requests += theirs.len();
        assert!(!theirs.is_empty(), "{options}: fio made no request");
        if found != theirs {
            let at = found.iter().zip(&theirs).position(|(a, b)| a != b).unwrap_or(found.len().min(theirs.len()));
            wrong.push(format!(
                "{options}: {} requests, fio {}; at {at}: {:?}, fio {:?}",
                found.len(),
                theirs.len(),
                found.get(at),
                theirs.get(at),
            ));
        }
    }
    println!("{} jobs, {requests} requests compared", FIXED.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn random_orders_cover_what_fio_covers() {
    if fio_is_missing("load::random_orders") {
        return;
    }
    let sorted = |mut requests: Vec<JobRequest>| {
        requests.sort_unstable_by_key(|next| (next.file, next.offset, next.direction));
        requests
    };
    for options in [
        "rw=randread bs=4k size=1000k",
        "rw=randread bs=4k size=1001k random_generator=lfsr",
        "rw=randwrite bs=4k size=300k nrfiles=3 file_service_type=random",
        "rw=randread bs=4k size=64k io_size=128k",
        "rw=randtrimwrite bs=4k size=64k",
        "rw=randtrim bs=3000 size=100k",
        "rw=randread bs=4k size=1m offset=64k random_generator=tausworthe64",
    ] {
        let theirs = fio(options);
        assert_eq!(sorted(ours(options, &theirs)), sorted(theirs), "{options}");
    }
}

/// Block numbers of both, with many draws of one distribution.
fn both(distribution: &str, blocks: u64) -> [Vec<u64>; 2] {
    let options = format!(
        "rw=randread bs=4k size={} io_size={} random_distribution={distribution}",
        blocks * 4096,
        200_000_u64 * 4096,
    );
    let theirs = fio(&options);
    let found = ours(&options, &theirs);
    assert_eq!(found.len(), theirs.len());
    [found, theirs].map(|requests| requests.iter().map(|next| next.offset / 4096).collect())
}

#[test]
fn parameters_are_kept_at_least_as_well_as_fio_keeps_them() {
    if fio_is_missing("load::parameters") {
        return;
    }
    let figure = |what: &str, asked: f64, [ours, theirs]: [f64; 2]| {
        let off = |found: f64| (found / asked - 1.0) * 100.0;
        println!("{what}: asked {asked}, qd1 {ours:.4} ({:+.2} %), fio {theirs:.4} ({:+.2} %)", off(ours), off(theirs));
        // Within the noise of the draws, and no worse than fio beyond it.
        assert!(off(ours).abs() < 2.0 && off(ours).abs() < off(theirs).abs() + 0.5, "{what}");
    };
    for theta in [0.8, 1.1, 1.2, 1.5] {
        let found = both(&format!("zipf:{theta}"), 10_240).map(|blocks| zipf_exponent(&popularity(blocks.into_iter())));
        figure(&format!("zipf:{theta}, exponent"), theta, found);
    }
    for h in [0.1, 0.2, 0.4] {
        let found =
            both(&format!("pareto:{h}"), 1000).map(|blocks| top_share(&popularity(blocks.into_iter()), 1000.0, h));
        figure(&format!("pareto:{h}, share of the most popular part"), 1.0 - h, found);
    }
    let found = both("normal:10", 10_240).map(|blocks| {
        let places: Vec<f64> = blocks.iter().map(|block| *block as f64 / 102.4).collect();
        moments(&places).1
    });
    figure("normal:10, deviation in percent", 10.0, found);
    let found = both("zoned:60/10:30/20:10/70", 10_240)
        .map(|blocks| blocks.iter().filter(|block| **block < 1024).count() as f64 / blocks.len() as f64);
    figure("zoned:60/10:..., share of the first zone", 0.6, found);
}
