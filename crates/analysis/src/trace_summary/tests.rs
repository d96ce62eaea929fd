//! Loads whose properties are known are summarised as such.

use qd1_model::order::Order as _;
use qd1_model::requests::Asker;
use qd1_model::trace_summary::Shape;
use qd1_model::units::Bytes;
use qd1_stats::random::Random;

use super::*;

fn asker(name: &str, pid: u32) -> Asker {
    let mut asker = Asker { pid, tid: pid, ..Asker::default() };
    asker.comm[..name.len()].copy_from_slice(name.as_bytes());
    asker
}

fn request(op: Op, arrived_us: u64, device_us: u64, sector: u64, bytes: u32, asker: Asker) -> Request {
    Request {
        complete_ns: (arrived_us + device_us) * 1000,
        queue_ns: Some(0),
        device_ns: device_us * 1000,
        sector,
        bytes,
        device: (7, 0),
        flags: op.flags(),
        asker,
        blkcg: 0,
        errno: 0,
    }
}

/// Summarises requests in the order of their completion, with steps of two suites.
fn summary(mut requests: Vec<Request>, syncs: &[Sync]) -> TraceSummary {
    requests.order_by_key(|request| request.complete_ns);
    let mut summarizer =
        Summarizer::new(Known { queue: true, device: true, syncs: !syncs.is_empty(), positions: true, files: false });
    requests.iter().for_each(|request| summarizer.push(request));
    syncs.iter().for_each(|sync| summarizer.push_sync(sync));
    let step = |name: &str, read_share, random_share, bs, depth, writes_per_sync| Resemblance {
        suite: "suite".into(),
        step: name.into(),
        title: String::new(),
        shape: Shape { read_share, random_share, bs: Bytes(bs), depth, writes_per_sync },
        distance: 0.0,
    };
    let steps = vec![
        step("reads1", 1.0, 1.0, 4096, 1.0, None),
        step("reads32", 1.0, 1.0, 4096, 32.0, None),
        step("commits", 0.0, 0.0, 4096, 1.0, Some(1.0)),
        step("stream", 1.0, 0.0, 1 << 20, 8.0, None),
    ];
    summarizer.end(|_| String::new(), steps)
}

#[test]
fn a_sequential_stream_is_one_and_its_depth_is_littles() {
    // Two requests of 1 MiB at a time, each 2 ms, without a pause.
    let requests = (0..1000).map(|at| request(Op::Read, 2000 * (at / 2), 2000, at * 2048, 1 << 20, asker("dd", 1)));
    let found = summary(requests.collect(), &[]);
    assert!(found.all.sequential_share > 0.99, "{found:?}");
    let depth = found.all.depth.unwrap();
    assert!((depth.mean - 2.0).abs() < 0.01 && depth.max == 2, "{depth:?}");
    assert_eq!((found.all.touched_bytes, found.all.reread_share), (1000 << 20, 0.0));
    assert_eq!(found.operations[0].sizes, [(1 << 20, 1000)]);
    assert!(found.fio_job.contains("[dd]\nrw=read\nbs=1M\nsize=1000m\niodepth=2\n"), "{}", found.fio_job);
    assert_eq!(found.resembles.iter().map(|step| step.step.as_str()).collect::<Vec<_>>(), ["stream"]);
}

#[test]
fn direct_calls_are_not_syncs() {
    let requests = (0..200).map(|at| request(Op::Write, 1000 * at, 500, at * 8, 4096, asker("fio", 1)));
    let call = |call, at: u64| Sync {
        complete_ns: 1_000_000 * at,
        took_ns: 400_000,
        run_delay_ns: 0,
        inode: 1,
        bytes: 4096,
        device: (7, 0),
        call,
        blkcg: 0,
        asker: asker("fio", 1),
        errno: 0,
    };
    let calls = (0..200).map(|at| call(if at % 20 == 0 { "fsync" } else { Sync::DIRECT_WRITE }, at + 1));
    let found = summary(requests.collect(), &calls.collect::<Vec<_>>());
    assert_eq!(found.syncs.iter().map(|of| (of.call.as_str(), of.syncs)).collect::<Vec<_>>(), [("fsync", 10)]);
    assert!(found.fio_job.contains("fsync=20\n"), "{}", found.fio_job);
}

#[test]
fn independent_arrivals_are_told_from_a_clock_and_from_bursts() {
    let mut random = Random::new(5);
    let mut now = 0.0;
    let mut arrivals = |pause: &mut dyn FnMut(&mut Random, usize) -> f64| {
        let requests = (0..20_000).map(|at| {
            now += pause(&mut random, at);
            request(
                Op::Read,
                now as u64,
                100,
                ((random.uniform() * f64::from(1 << 20)) as u64) * 8,
                4096,
                asker("a", 1),
            )
        });
        summary(requests.collect(), &[])
    };
    let poisson = arrivals(&mut |random, _| -1000.0 * random.uniform().max(1e-9).ln());
    let clock = arrivals(&mut |_, _| 1000.0);
    let bursts = arrivals(&mut |_, at| if at % 100 == 0 { 100_000.0 } else { 0.0 });
    let variation = |of: &TraceSummary| of.all.arrivals.unwrap().variation;
    assert!((variation(&poisson) - 1.0).abs() < 0.05, "{}", variation(&poisson));
    assert!(variation(&clock) < 0.01 && variation(&bursts) > 5.0);
    assert!(poisson.fio_job.contains("rate_iops=996\nrate_process=poisson\n"), "{}", poisson.fio_job);
    // Positions were drawn from 4 GiB; 20,000 of a million blocks repeat 190 times.
    let size = |of: &TraceSummary| {
        of.fio_job.split_once("size=").unwrap().1.split_once('m').unwrap().0.parse::<f64>().unwrap()
    };
    assert!((size(&poisson) / 4096.0 - 1.0).abs() < 0.2, "{}", poisson.fio_job);
    assert!(clock.fio_job.contains("rate_iops=1000\n") && !clock.fio_job.contains("poisson"), "{}", clock.fio_job);
    assert_eq!(poisson.resembles[0].step, "reads1");
}

#[test]
fn repeated_blocks_sizes_and_programs_are_counted() {
    let one = (0..600).map(|at| request(Op::Read, at * 100, 10, (at % 100) * 8, 4096, asker("postgres", 10)));
    let other =
        (0..300).map(|at| request(Op::Write, at * 200 + 50, 10, (1000 + at * 3) * 8, 8192, asker("kworker/0:1", 2)));
    let more =
        (0..100).map(|at| request(Op::Write, at * 600 + 70, 10, (9000 + at * 40) * 8, 16_384, asker("kworker/1:0", 3)));
    let found = summary(one.chain(other).chain(more).collect(), &[]);
    assert!((found.all.reread_share - 500.0 / 600.0).abs() < 1e-9, "{found:?}");
    assert!((found.all.read_share - 0.6).abs() < 1e-9);
    assert_eq!(found.all.touched_bytes, (100 + 600 + 400) * 4096);
    let programs: Vec<_> = found.programs.iter().map(|of| (of.name.as_str(), of.processes, of.requests)).collect();
    assert_eq!(programs, [("postgres", 1, 600), ("kworker", 2, 400)]);
    assert!(
        found.fio_job.contains("[kworker]\nrw=randwrite\nnorandommap\nbssplit=8k/75:16k/25\n"),
        "{}",
        found.fio_job
    );
}

/// Each of these made a job that crashed fio, or this program, or that was not the load.
#[test]
fn jobs_are_those_of_the_load() {
    let mixed = |at: u64| {
        let op = if at % 10 < 7 { Op::Read } else { Op::Write };
        let burst = at / 10 * 10_000 + at % 10;
        request(op, burst, 50, (at * 7919 % 100_000) * 8, 4096, asker("db", 1))
    };
    let sync = |at: u64| Sync { took_ns: 1000, ..sync_at(at * 50_000) };
    let syncs: Vec<Sync> = (0..100).map(sync).collect();
    let journal = (0..200).map(|at| request(Op::Write, at * 1000, 20, 1 << 30, 4096, asker("jbd2/vda1-8", 9)));
    let requests: Vec<Request> = (0..2000).map(mixed).chain(journal).collect();
    let job = summary(requests, &syncs).fio_job;
    assert!(job.contains("[db-reads]\nrw=randread\n") && job.contains("[db-writes]\nrw=randwrite\n"), "{job}");
    let writes = job.split_once("[db-writes]").unwrap().1;
    assert!(writes.contains("fsync=6\n") && !writes.contains("poisson") && !job.contains("[jbd2"), "{job}");
    assert!(job.contains("\n# Left out, because they did little or belong to the filesystem: jbd2_vda1-8\n"), "{job}");
    // Sizes whose shares add up to more than 100 when rounded, and two reads among a thousand writes.
    let sizes = [4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 12, 12, 12, 12, 12, 16, 20, 24, 28, 32];
    let odd = |at: u64| {
        let bytes = sizes[at as usize % sizes.len()] * 1024;
        let op = if at % 500 == 3 { Op::Read } else { Op::Write };
        request(op, at * 100, 90, (at * 7919 % 100_000) * 8, bytes, asker("odd", 1))
    };
    let job = summary((0..1000).map(odd).collect(), &[]).fio_job;
    assert!(job.contains("rw=randwrite\n") && !job.contains("rwmixread"), "{job}");
    let split = job.split_once("bssplit=").unwrap().1.lines().next().unwrap();
    let shares: u64 = split.split(':').map(|part| part.split_once('/').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(shares, 100, "{job}");
}

fn sync_at(end_us: u64) -> Sync {
    Sync {
        complete_ns: end_us * 1000,
        took_ns: 350_000,
        run_delay_ns: 0,
        inode: 5,
        bytes: 0,
        device: (7, 0),
        call: "fdatasync",
        blkcg: 0,
        asker: asker("db", 7),
        errno: 0,
    }
}

#[test]
fn commits_resemble_commits() {
    let writes: Vec<Request> =
        (0..500).map(|at| request(Op::Write, at * 1000, 50, 5000 + at * 8, 4096, asker("etcd", 7))).collect();
    let sync = |at: u64| Sync { asker: asker("etcd", 7), ..sync_at(at * 1000 + 400) };
    let syncs: Vec<Sync> = (0..500).map(sync).collect();
    let found = summary(writes, &syncs);
    assert_eq!(found.resembles[0].step, "commits", "{found:?}");
    assert!(found.fio_job.contains("fsync=1\n"), "{}", found.fio_job);
    assert_eq!((found.syncs[0].call.as_str(), found.syncs[0].syncs, found.syncs[0].files), ("fdatasync", 500, 1));
    assert!((found.syncs[0].took.p99_ns as f64 / 350_000.0 - 1.0).abs() < 0.01);
}

#[test]
fn nothing_is_summarised_as_nothing() {
    let found = summary(Vec::new(), &[]);
    assert_eq!((found.all.requests, found.fio_job.as_str(), found.resembles.len()), (0, "", 0));
    // Values at the limits do not overflow.
    let extreme = Request {
        complete_ns: u64::MAX,
        device_ns: u64::MAX,
        ..request(Op::Write, 0, 0, u64::MAX, u32::MAX, asker("x", 1))
    };
    assert_eq!(summary(vec![extreme; 3], &[]).all.requests, 3);
}
