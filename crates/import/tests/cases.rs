//! Inputs of kinds that were read wrongly: written anew after what people posted and attached to public reports, with invented
//! numbers. Each test names what was said of it.

mod common;

use common::value;
use qd1_model::OpClass;
use qd1_model::measured::{Measured, MeasuredStep};

fn only(name: &str) -> Measured {
    common::only(&format!("cases/{name}"))
}

#[track_caller]
fn step<'a>(run: &'a Measured, name: &str) -> &'a MeasuredStep {
    let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
    run.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("{name}: {names:?}"))
}

fn title(step: &MeasuredStep) -> String {
    step.does.map_or_else(|| "not known".to_owned(), |does| does.title())
}

/// They were repeats, and a quarter as fast as the same job with `--group_reporting`.
#[test]
fn processes_of_one_run_are_added_up() {
    let (grouped, separate) = (only("numjobs-grouped.terse"), only("numjobs-separate.terse"));
    let iops = |run: &Measured| value(step(run, "db"), OpClass::Read, "iops");
    assert_eq!((iops(&grouped), iops(&separate)), (10_006.0, 10_006.0));
    assert_eq!(value(step(&separate, "db"), OpClass::Read, "lat_p99_ns"), 600e3);
    let block = |pid: u32, iops: u32, p99: u32| {
        format!(
            "db: (groupid=0, jobs=1): err= 0: pid={pid}: Thu Nov 26 20:18:02 2026\n  read: IOPS={iops}, BW={}KiB/s \
             (1kB/s)(9MiB/30001msec)\n     lat (usec): min=1, max=9, avg=400.00, stdev=1.00\n    clat percentiles (usec):\n     \
             |  50.00th=[  390], 99.00th=[  {p99}]\n     issued rwts: total={},0,0,0 short=0,0,0,0\n",
            iops * 4,
            iops * 30
        )
    };
    let head = "db: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, \
                iodepth=8\n...\nfio-3.33\nStarting 2 processes\n";
    let text = format!("{head}{}{}", block(11, 1000, 600), block(12, 3000, 900));
    let runs = qd1_import::read("x", text.as_bytes()).unwrap();
    let db = step(&runs[0], "db");
    assert_eq!((runs.len(), runs[0].steps.len(), title(db).as_str()), (1, 1, "randread 4 KiB, 16 in flight"));
    assert_eq!(value(db, OpClass::Read, "iops"), 4000.0);
    assert_eq!(value(db, OpClass::Read, "lat_p50_ns"), 390e3);
    assert_eq!(db.streams[0].figure("lat_p99_ns"), None, "the p99 of both lies anywhere between theirs");
    assert!(runs[0].missing.iter().any(|what| what.contains("cannot be combined")), "{:?}", runs[0].missing);
    // The same command once more is a repeat.
    assert_eq!(qd1_import::read("x", text.repeat(2).as_bytes()).unwrap().len(), 2);
    let job = |iops: u32| {
        format!(
            "{{\"jobname\": \"db\", \"groupid\": 0, \"error\": 0, \"job options\": {{\"rw\": \"randread\", \"numjobs\": \"2\", \
             \"ioengine\": \"libaio\", \"iodepth\": \"8\"}}, \"read\": {{\"total_ios\": {}, \"iops\": {iops}, \"runtime\": \
             30000, \"bw_bytes\": {}}}}}",
            30 * iops,
            4096 * iops
        )
    };
    let json = format!("{{\"fio version\": \"fio-3.33\", \"jobs\": [{}, {}]}}", job(1000), job(3000));
    let run = qd1_import::read("x", json.as_bytes()).unwrap().remove(0);
    let db = step(&run, "db");
    assert_eq!((run.steps.len(), title(db).as_str()), (1, "randread 4 KiB, 16 in flight"));
    assert_eq!(value(db, OpClass::Read, "iops"), 4000.0);
}

/// It was four runs.
#[test]
fn reports_along_the_way_are_one_run_and_the_last_counts() {
    let run = only("status-interval.terse");
    assert_eq!(value(step(&run, "db"), OpClass::Read, "iops"), 10_006.0);
    assert_eq!(step(&run, "db").streams[0].figure("iops").unwrap().n, 300_180);
    assert!(run.missing.iter().any(|what| what.contains("several reports")), "{:?}", run.missing);
    let block = |seconds: u32| {
        format!(
            "db: (groupid=0, jobs=1): err= 0: pid=7: Thu Nov 26 20:18:02 2026\n  read: IOPS=1000, BW=4000KiB/s (1kB/s)(9MiB/{}msec)\n     \
             issued rwts: total={},0,0,0 short=0,0,0,0\n\nRun status group 0 (all jobs):\n",
            1000 * seconds,
            1000 * seconds
        )
    };
    let text = format!("fio-3.33\nStarting 1 process\n{}{}{}", block(10), block(20), block(30));
    let runs = qd1_import::read("x", text.as_bytes()).unwrap();
    assert_eq!((runs.len(), runs[0].steps[0].streams[0].figure("iops").unwrap().n), (1, 30_000));
}

/// Hosts were repeats, and the JSON of clients no result.
#[test]
fn hosts_measure_at_the_same_time() {
    let run = only("client-two-hosts.txt");
    assert_eq!(value(step(&run, "readers"), OpClass::Read, "iops"), 40_600.0);
    assert_eq!(title(step(&run, "readers")), "randread 4 KiB, 4 in flight");
    // Both have the same name here.
    assert_eq!(value(step(&run, "readers on vm"), OpClass::Read, "iops"), 40_800.0);
    let run = only("client-stats.json");
    let iops = ["db", "db on a", "db on b"].map(|name| value(step(&run, name), OpClass::Read, "iops"));
    assert_eq!(iops, [3000.0, 1000.0, 2000.0]);
    assert_eq!(title(step(&run, "db")), "randread 4 KiB, 32 in flight");
    assert_eq!(title(step(&run, "db on b")), "randread 4 KiB, 16 in flight");
    assert_eq!(value(step(&run, "db on b"), OpClass::Read, "lat_p99_ns"), 1e6);
}

/// The second was taken for a repeat of the first, and lost.
#[test]
fn tests_of_one_name_that_do_different_things_are_different_tests() {
    for (name, iops) in
        [("same-name-two-jobs-a.txt", [16_000.0, 4000.0]), ("same-name-two-jobs-b.txt", [15_000.0, 3000.0])]
    {
        let run = only(name);
        assert_eq!(
            run.steps.iter().map(title).collect::<Vec<_>>(),
            ["randwrite 4 KiB, 32 in flight", "randwrite 64 KiB, 32 in flight"]
        );
        assert_eq!(["test", "test#2"].map(|name| value(step(&run, name), OpClass::Write, "iops")), iops, "{name}");
    }
}

/// 10.0k from the text, and nothing from the JSON of 2022.
#[test]
fn yabs_of_all_years_has_the_same_units() {
    for name in ["yabs-before-2026-07.txt", "yabs-before-2026-07.json", "yabs-json-2022.json"] {
        let run = only(name);
        for class in [OpClass::Read, OpClass::Write] {
            let (iops, rate) =
                (value(step(&run, "4k"), class, "iops"), value(step(&run, "4k"), class, "bytes_per_second"));
            assert!((iops - 10_240.0).abs() < 1e-6, "{name}: {iops}");
            assert!((rate - 41_943_040.0).abs() < 1e-6, "{name}: {rate}");
        }
    }
    // As forums keep it.
    let text = "> Block  Size | 4k(IOPS) | 64k  (IOPS)\n\u{a0}Read|40.96MB/s(10.2k)|640.00 MB/s ( 10.0k )\n>Write | 40.96 MB/s \
                (10.2k) | 640.00 MB/s (10.0k)\n";
    let run = qd1_import::read("x", text.as_bytes()).unwrap().remove(0);
    assert!((value(step(&run, "4k"), OpClass::Read, "iops") - 10_240.0).abs() < 1e-6);
    assert!((value(step(&run, "64k"), OpClass::Read, "iops") - 10_000.0).abs() < 1e-6);
}

/// They had no figures, and two of them were "the same run".
#[test]
fn directions_that_were_reported_as_one_are_one() {
    let (json, text, half) = (only("unified-mixed.json"), only("unified-mixed.txt"), only("unified-mixed-half.txt"));
    assert_eq!(value(&json.steps[0], OpClass::Mixed, "iops"), 1000.0);
    assert_eq!(value(&json.steps[0], OpClass::Mixed, "lat_p50_ns"), 900e3);
    assert_eq!(value(&text.steps[0], OpClass::Mixed, "iops"), 165e3);
    assert_eq!(value(&text.steps[0], OpClass::Mixed, "lat_p99_ns"), 2933e3);
    assert_eq!(value(&half.steps[0], OpClass::Mixed, "iops"), 82e3);
}

/// "No step in common."
#[test]
fn global_options_count() {
    let (less, with) = (only("option-less-section.json"), only("with-options.json"));
    assert_eq!(title(&less.steps[0]), "randread 4 KiB, 8 in flight");
    assert_eq!(less.steps[0].does, with.steps[0].does);
}

/// They were compared as 4 KiB.
#[test]
fn a_group_of_unlike_jobs_is_not_one_thing() {
    let run = only("group-of-two-jobs.txt");
    assert_eq!(title(step(&run, "test1")), "randread 4 KiB, 4 in flight");
    assert_eq!(title(step(&run, "test2")), "not known");
    assert!(
        run.missing.iter().any(|what| what.contains("a group of jobs that do different things")),
        "{:?}",
        run.missing
    );
    assert_eq!(title(step(&only("group-of-two-jobs-pure.txt"), "test2")), "randread 4 KiB, 8 in flight");
    // JSON has the options of the first alone; the size of what was done says the rest.
    let json = "{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"g\", \"job options\": {\"rw\": \"randread\", \"bs\": \
                \"4k\"}, \"read\": {\"total_ios\": 600, \"iops\": 20.0, \"bw_bytes\": 700000, \"runtime\": 30000}}]}";
    assert_eq!(title(&qd1_import::read("x", json.as_bytes()).unwrap()[0].steps[0]), "not known");
}

/// 67.0 MB/s, and 8.65.
#[test]
fn bits_and_thousands_are_what_they_are() {
    let bits = only("unit-base-bits.txt");
    assert!((value(&bits.steps[0], OpClass::Read, "bytes_per_second") / 8.376e6 - 1.0).abs() < 1e-3);
    let thousands = only("kb-base-1000.txt");
    assert_eq!(value(&thousands.steps[0], OpClass::Read, "bytes_per_second"), 8.446e6);
    for run in [bits, thousands] {
        assert_eq!(title(&run.steps[0]), "read 64 KiB, 1 in flight");
    }
}

/// 0 [0..0], 64 in flight.
#[test]
fn less_than_one_a_second_is_not_none() {
    let run = only("iops-zero.txt");
    let slow = &run.steps[0];
    assert_eq!((value(slow, OpClass::Read, "iops"), value(slow, OpClass::Write, "iops")), (0.5, 3.9));
    assert_eq!(title(slow), "randrw 10 % reads 4 KiB, 1 in flight");
}

/// 1600 [1596..1604].
#[test]
fn samples_of_a_group_are_those_of_its_processes() {
    let iops = only("grouped-interval.json").steps[0].streams[0].figure("iops").unwrap();
    let (low, high) = (iops.low.unwrap(), iops.high.unwrap());
    assert!((1525.0..1535.0).contains(&low) && (1665.0..1680.0).contains(&high), "{low}..{high}");
}

/// psync at 32 was like libaio at 32, 4KiB 4096 bytes, buffered=0 the page cache, rwmixwrite=30 half of each.
#[test]
fn options_mean_what_they_mean_to_fio() {
    for (name, what, direct) in [
        ("opt-psync-qd32.json", "randread 4 KiB, 1 in flight", true),
        ("opt-libaio-qd32.json", "randread 4 KiB, 32 in flight", true),
        ("opt-bs-4KiB.json", "randread 4000 B, 32 in flight", true),
        ("opt-buffered0.json", "randread 4 KiB, 32 in flight", true),
        ("opt-buffered.json", "randread 4 KiB, 32 in flight", false),
        ("opt-rwmixread70.json", "randrw 70 % reads 4 KiB, 32 in flight", true),
        ("opt-rwmixwrite30.json", "randrw 70 % reads 4 KiB, 32 in flight", true),
    ] {
        let does = only(name).steps[0].does;
        assert_eq!(
            (does.map(|does| does.title()).as_deref(), does.and_then(|does| does.direct)),
            (Some(what), Some(direct)),
            "{name}"
        );
    }
}

/// It was exact.
#[test]
fn a_percentile_beyond_what_fio_counts_is_at_least_that() {
    let json = "{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"g\", \"read\": {\"total_ios\": 60000, \"iops\": 20.0, \
                \"runtime\": 30000, \"clat_ns\": {\"percentile\": {\"50.000000\": 900000, \"99.000000\": 17112760320}}}}]}";
    let run = qd1_import::read("x", json.as_bytes()).unwrap().remove(0);
    let p99 = run.steps[0].streams[0].figure("lat_p99_ns").unwrap();
    assert_eq!((p99.value, p99.low), (None, Some(17_112_760_320.0)));
}

/// A report of one job, as fio 3 prints it.
fn report(iops: u32) -> String {
    format!(
        "job: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=8\nfio-3.33\n\
         Starting 1 process\n\njob: (groupid=0, jobs=1): err= 0: pid=7: Fri Nov 27 18:20:00 2026\n  read: IOPS={iops}, \
         BW={}KiB/s (1kB/s)(9MiB/30000msec)\n    slat (usec): min=1, max=9, avg=3.00, stdev=1.00\n     lat (usec): min=1, max=9, \
         avg=400.00, stdev=1.00\n    slat percentiles (usec):\n     |  50.00th=[   30], 99.00th=[   50]\n    clat percentiles \
         (usec):\n     |  50.00th=[  390], 99.00th=[  600]\n    lat percentiles (usec):\n     |  50.00th=[  393], 99.00th=[  610]\n  \
         cpu          : usr=1%\n     issued rwts: total={},0,0,0 short=0,0,0,0\n\nRun status group 0 (all jobs):\n",
        iops * 4,
        iops * 30
    )
}

fn read(text: &str) -> Vec<Measured> {
    qd1_import::read("x", text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// An indented report had no end, and the next run in the file was added to it: 144,291 IOPS of 79,090 and 65,201.
#[test]
fn a_report_in_a_list_or_quotation_is_the_same_report() {
    let twice = format!("{}and again\n{}", report(3000), report(2000));
    let indented: String = twice.lines().map(|line| format!("        {line}\n")).collect();
    let quoted: String = twice.lines().map(|line| format!("> {line}\n")).collect();
    let logged: String = twice.lines().map(|line| format!("20:22:23 DEBUG| [stdout] {line}\n")).collect();
    // fio before 2.1 has its version without its name, and people leave out what it sums up.
    let old = twice.replace("fio-3.33", "2.0.8").replace("Run status group 0 (all jobs):", "");
    let lower = old.replace("(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B", "4k-4k/4k-4k");
    for (what, text) in
        [("as it is", &twice), ("indented", &indented), ("quoted", &quoted), ("a log", &logged), ("old", &lower)]
    {
        let runs = read(text);
        let iops: Vec<f64> = runs.iter().map(|run| value(step(run, "job"), OpClass::Read, "iops")).collect();
        assert_eq!(iops, [3000.0, 2000.0], "{what}");
        assert_eq!(title(step(&runs[0], "job")), "randread 4 KiB, 8 in flight", "{what}");
    }
    assert_eq!(read(&old)[0].tool, "fio-2.0.8");
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(report(3000).encode_utf16().flat_map(u16::to_le_bytes)).collect();
    assert_eq!(value(step(&qd1_import::read("x", &wide).unwrap()[0], "job"), OpClass::Read, "iops"), 3000.0);
}

/// Of the percentiles that fio was asked for the first list counted: 30 us of submission alone.
#[test]
fn percentiles_are_those_of_the_whole_latency_where_fio_has_them() {
    let run = read(&report(3000)).remove(0);
    let p50 = |text: &str| value(step(&read(text)[0], "job"), OpClass::Read, "lat_p50_ns");
    assert_eq!(value(step(&run, "job"), OpClass::Read, "lat_p99_ns"), 610e3);
    let without: String =
        report(3000).replace("    lat percentiles (usec):\n     |  50.00th=[  393], 99.00th=[  610]\n", "");
    assert_eq!(p50(&without), 390e3);
}

/// Any two such files were "the same run".
#[test]
fn a_report_that_is_cut_off_has_what_is_left_of_it() {
    let cut = report(3000).split("     issued").next().unwrap().to_owned();
    let job = read(&cut).remove(0);
    assert_eq!(value(step(&job, "job"), OpClass::Read, "iops"), 3000.0);
    let nothing = report(3000).replace("  read: IOPS", "  [read] IOPS");
    let refused = qd1_import::read("x", nothing.as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("no figures for them"), "{refused}");
}

/// A mean latency of 0 ns was compared where fio had been told to measure none.
#[test]
fn a_latency_that_was_not_measured_has_no_mean() {
    let json = "{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"job\", \"groupid\": 0, \"error\": 0, \"job options\": \
                {\"rw\": \"randrw\"}, \"read\": {\"total_ios\": 90, \"iops\": 3, \"runtime\": 30000, \"bw_bytes\": 12288, \"lat_ns\": \
                {\"mean\": 0.0}}, \"mixed\": {\"total_ios\": 180, \"iops\": 6, \"runtime\": 30000, \"bw_bytes\": 24576}}]}";
    let run = read(json).remove(0);
    let job = step(&run, "job");
    assert_eq!(job.streams.len(), 1, "what is mixed is counted in its directions already");
    assert_eq!(job.streams[0].figure("lat_mean_ns"), None);
}

/// A terse line: `fields` before the directions, and how many of them.
fn terse(head: &str, directions: &[u32]) -> String {
    let direction = |iops: &u32| {
        let (before, after) = (";0".repeat(8), ";0".repeat(9));
        format!("4096;{};{iops};30000{before}{}{after}", iops * 4, ";0%=0".repeat(20))
    };
    let parts: Vec<String> = directions.iter().map(direction).collect();
    format!("{head};{}{}\n", parts.join(";"), ";0".repeat(34 + 9))
}

/// Of a unified line what follows its one direction was a write, and version 2 had an error where its figures begin.
#[test]
fn terse_lines_have_the_directions_that_they_have() {
    let unified = read(&terse("3;fio-3.33;job;0;0", &[12_641])).remove(0);
    assert_eq!(value(step(&unified, "job"), OpClass::Mixed, "iops"), 12_641.0);
    assert_eq!(step(&unified, "job").streams.len(), 1);
    // Whatever stands at its end.
    let described = read(&terse("3;fio-3.33;job;0;0", &[12_641]).replace('\n', ";hello\n")).remove(0);
    assert_eq!(value(step(&described, "job"), OpClass::Mixed, "iops"), 12_641.0);
    let of_2 = read(&terse("2;fiotest;0;0", &[500, 300])).remove(0);
    assert_eq!(value(step(&of_2, "fiotest"), OpClass::Write, "iops"), 300.0);
    let trims = read(&terse("4;fio-3.33;job;0;0", &[0, 0, 700])).remove(0);
    assert_eq!(value(step(&trims, "job"), OpClass::Trim, "iops"), 700.0);
}

/// 64k's rate stood for 4k, and a text without its version had 2.4 % more than it shows.
#[test]
fn cells_of_yabs_stand_where_they_stand() {
    let table = "Block Size | 4k            (IOPS) | 64k           (IOPS)\n  ------   | ---            ----  | ----           ---- \n\
                 Read       |                      | 1.96 GB/s    (30.0k)\nWrite      |                      | 1.97 GB/s    (30.1k)\n";
    let run = read(table).remove(0);
    let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["64k"]);
    let of = |table: &str| value(&read(table)[0].steps[0], OpClass::Read, "bytes_per_second");
    assert_eq!(of(table), 1.96e9, "30.0k of 64 KiB are 1.966 GB");
    assert_eq!(of(&table.replace("1.96 GB/s", "1.92 GB/s").replace("1.97 GB/s", "1.93 GB/s")), 1.92e9 * 1.024);
}

/// Shares of the processor passed for files per second.
#[test]
fn bonnie_without_a_large_file_has_its_file_operations() {
    let line = "1.96,1.96,host,1,1374655110,,,,,,,,,,,,,,60,32,32,,,1702,14,2025,12,1332,4,1873,16,2047,13,1266,3,,,,,,,\
                3874ms,6645ms,8659ms,505ms,7257ms,9627ms\n";
    let run = read(line).remove(0);
    assert_eq!(value(step(&run, "seq-create"), OpClass::Create, "iops"), 1702.0);
    assert_eq!(value(step(&run, "rand-delete"), OpClass::Delete, "iops"), 1266.0);
    let with_sizes = "host,4000M,42879,98,105436,19,41081,11,46277,96,87845,15,639.2,1,16:100000:16/64,380,4,29642,99,2990,18,469,\
                      5,11784,40,1712,12\n";
    let run = read(with_sizes).remove(0);
    assert_eq!(value(step(&run, "block-write"), OpClass::Write, "bytes_per_second"), 105_436.0 * 1024.0);
    assert_eq!(value(step(&run, "seq-create"), OpClass::Create, "iops"), 380.0);
}
