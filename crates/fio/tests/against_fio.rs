//! Side by side with the fio that is installed: names, values, whole job files. Skipped aloud where there is none.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use common::{line, skip};
use qd1_fio::options;

/// What fio prints and how it ends, or nothing where there is no fio.
fn fio(args: &[&str]) -> Option<(String, bool)> {
    let output = Command::new("fio").args(args).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some((String::from_utf8_lossy(&text).into_owned(), output.status.success()))
}

/// Options that fio takes without listing them: some for experts, some that have no effect any more.
const UNLISTED: [&str; 7] =
    ["threads", "softrandommap", "iomem_align", "verify_async_cpus", "flow_watermark", "verifysort", "verifysort_nr"];

#[test]
fn every_option_that_fio_lists_is_in_our_table() {
    let Some((listed, _)) = fio(&["--cmdhelp=all"]) else {
        return skip("every_option_that_fio_lists_is_in_our_table", "no fio here");
    };
    let listed: BTreeSet<&str> =
        listed.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect();
    assert!(listed.len() > 150, "fio lists its options");
    let missing: Vec<_> = listed.iter().filter(|name| options::find(name).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let main: Vec<_> = listed.iter().filter(|name| options::all().all(|option| option.name != **name)).collect();
    assert!(main.is_empty(), "fio's main names must be ours: {main:?}");
    let ours = options::all().filter(|option| option.engines.is_empty() && option.is_here() && option.is_fios());
    let ours = ours.map(|option| option.name).filter(|name| !UNLISTED.contains(name));
    let extra: Vec<_> = ours.filter(|name| !listed.contains(name)).collect();
    assert!(extra.is_empty(), "fio {extra:?} does not know");
}

#[test]
fn every_option_of_the_engines_here_is_in_our_table() {
    for (engine, ..) in qd1_fio::engines::ENGINES {
        let Some((listed, _)) = fio(&[&format!("--enghelp={engine}")]) else {
            return skip("every_option_of_the_engines_here_is_in_our_table", "no fio here");
        };
        for name in listed.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()) {
            let option = options::find(name);
            assert!(option.is_some_and(|option| option.engines.contains(engine)), "{engine} {name}");
        }
    }
}

#[test]
fn aliases_and_defaults_are_those_of_fio() {
    if fio(&["--version"]).is_none() {
        return skip("aliases_and_defaults_are_those_of_fio", "no fio here");
    }
    for option in options::all().filter(|option| option.engines.is_empty() && option.is_here() && option.is_fios()) {
        let (text, _) = fio(&[&format!("--cmdhelp={}", option.name)]).unwrap();
        let field = |title: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(name, _)| name.trim() == title).map(|(_, value)| value.trim().to_owned())
        };
        if let Some(alias) = field("alias") {
            assert_eq!(option.aliases, [alias], "{}", option.name);
        }
        let default = field("default").filter(|default| default != "no default");
        // Zero is our way of having none; a seed and a criterion that take effect only when given have none either.
        let same = match (default.as_deref(), option.default) {
            (Some("100,100,100"), Some("100")) | (Some("0"), None) | (None, _) => true,
            (Some(_), None) => matches!(option.name, "randseed" | "steadystate"),
            (Some(fio), Some(ours)) => fio == ours,
        };
        assert!(same, "{}: fio {default:?}, ours {:?}", option.name, option.default);
    }
}

#[test]
fn every_flag_that_fio_lists_is_taken_or_refused_by_name() {
    let Some((listed, _)) = fio(&["--help"]) else {
        return skip("every_flag_that_fio_lists_is_taken_or_refused_by_name", "no fio here");
    };
    let flags = listed.lines().filter_map(|line| line.strip_prefix("  --")?.split(['=', '\t', ' ']).next());
    let flags: BTreeSet<&str> = flags.collect();
    assert!(flags.len() > 25, "{listed}");
    let ours = qd1_fio::markdown_table();
    let missing: Vec<_> = flags.iter().filter(|flag| !ours.contains(&format!("| `--{flag}` |"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Values that both take or both refuse.
const SAME: &[&str] = &[
    "direct=2",
    "direct=on",
    "direct=0",
    "time_based=1",
    "time_based=x",
    "iodepth=0",
    "iodepth=1k",
    "rwmixread=101",
    "bs=0",
    "bs=4k",
    "bs=4k,8k",
    "bs=4k,,16k",
    "bs=,8k",
    "bs=0x1000",
    "bs=k",
    "bs=99999999999999999999",
    "bsrange=4k-64k",
    "bsrange=64k-4k",
    "bsrange=4k",
    "bsrange=4k-8k,1k-2k,3k-6k",
    "bssplit=4k/10:64k/50:32k/40",
    "bssplit=4k:64k",
    "bssplit=4k/50:64k/",
    "bssplit=/50",
    "rw=randread:8",
    "rw=read:512k",
    "rw=foo",
    "rw=READ",
    "rw=trimwrite",
    "rw=read:",
    "random_distribution=zipf:1.1",
    "random_distribution=zipf",
    "random_distribution=zipf:1",
    "random_distribution=zipf:1.1:0.5",
    "random_distribution=pareto:0.2",
    "random_distribution=pareto:1.2",
    "random_distribution=normal:50",
    "random_distribution=normal:150",
    "random_distribution=foo",
    "random_distribution=zoned:60/10:30/20:8/30:2/40",
    "random_distribution=zoned_abs:60/10g:40/20g",
    "percentile_list=99:99.9",
    "percentile_list=101",
    "sync=1",
    "sync=dsync",
    "sync=2",
    "verify=md5",
    "verify=foo",
    "verify=1",
    "verify=sha3-512",
    "fallocate=none",
    "fallocate=2",
    "fallocate=keep",
    "ioengine=libaio",
    "ioengine=foo",
    "unified_rw_reporting=2",
    "unified_rw_reporting=3",
    "rate=10m,5m",
    "rate=1,,3",
    "percentage_random=50,60",
    "cpus_allowed=0-1",
    "cpus_allowed=0,1",
    "steadystate=iops:2%",
    "steadystate=iops_slope:0.3%",
    "steadystate=iops",
    "steadystate=2%",
    "steadystate=iops:foo",
    "ss=iops:10%",
    "steadystate=bw:50m",
    "file_service_type=random:8",
    "file_service_type=zipf:1.2",
    "file_service_type=foo",
    "file_service_type=pareto:2",
    "buffer_pattern=0xdeadbeef",
    "buffer_pattern=\"abcd\"",
    "buffer_pattern=-12",
    "buffer_pattern=\"abcd\"-120xdeadface",
    "buffer_pattern=abc",
    "buffer_pattern=0x",
    "buffer_pattern='filename'",
    "verify_pattern=%o",
    "verify_pattern=0xff%o\"abcd\"-21",
    "continue_on_error=all",
    "continue_on_error=foo",
    "randseed=0x89",
    "randseed=abc",
    "offset=50%",
    "offset_increment=10%",
    "io_size=200%",
    "io_size=50%",
    "filesize=4k-64k",
    "filesize=1m",
    "filesize=0",
    "runtime=10m",
    "runtime=500ms",
    "thinktime=10ms",
    "startdelay=5-10",
    "max_latency=10ms,20ms",
    "flow=2000",
    "flow=5",
    "log_compression=10",
    "log_compression=64k",
    "sync_file_range=write:32",
    "sync_file_range=wait_before,write:4",
    "size=50%",
    "size=abc",
    "size=%5",
    "exitall=x",
    "stonewall=0",
    "number_ios=10k",
    "latency_percentile=99.9",
    "zonemode=strided",
    "zonemode=foo",
    "clocksource=cpu",
    "clocksource=sundial",
    "kb_base=1000",
    "kb_base=10",
    "unit_base=8",
    "unit_base=4",
    "name=b",
    "iodepth_batch=5",
    "nrfiles=4",
    "openfiles=0",
    "loops=3",
    "numjobs=4",
    "cpus_allowed_policy=split",
    "cpus_allowed_policy=foo",
    "rate_process=poisson",
    "rate_process=foo",
    "random_generator=lfsr",
    "verify_async=2",
    "dedupe_percentage=101",
    "buffer_compress_percentage=50",
    "thinktime_blocks=1k",
    "thinktime_blocks_type=issue",
    "thinktime_blocks_type=x",
    "thinktime_iotime=5",
    "rate_iops_min=10,20",
    "ratecycle=2000",
    "exit_what=stonewall",
    "exit_what=foo",
    "bwavgtime=100",
    "log_hist_coarseness=6",
    "verify_interval=79",
    "verify_interval=512",
    "verify_offset=40",
    "verify_offset=10",
    "trim_percentage=101",
    "trim_backlog=10",
    "trim_backlog=x",
    "trim_backlog_batch=10",
    "nice=-20",
    "nice=-21",
    "nice=20",
    "prio=7",
    "prio=8",
    "prioclass=3",
    "prioclass=4",
    "fadvise_hint=random",
    "fadvise_hint=2",
    "cpumask=0x3",
    "cpumask=x",
    "significant_figures=11",
    "ignore_error=5:6,ENOSPC:122,EILSEQ",
    "mem=mmaphuge",
    "mem=mmaphuge:/x",
    "iomem=foo",
    "hugepage-size=4m",
    "io_submit_mode=offload",
    "io_submit_mode=x",
    "gtod_cpu=0",
    "gtod_cpu=x",
    "log_entries=10",
    "log_entries=4096",
    "dedupe_mode=repeat",
    "dedupe_working_set_percentage=5",
    "stats=0",
    "disk_util=2",
    "create_fsync=x",
    "unique_filename=0",
    "fill_device=0",
    "serialize_overlap=0",
    "lockfile=none",
    "write_hint=none",
    "allow_mounted_write=0",
];

#[test]
fn values_are_taken_and_refused_as_fio_does() {
    if fio(&["--version"]).is_none() {
        return skip("values_are_taken_and_refused_as_fio_does", "no fio here");
    }
    let mut differing = Vec::new();
    for option in SAME {
        let option = format!("--{option}");
        let (text, taken) = fio(&["--parse-only", "--name=a", "--size=1g", &option]).unwrap();
        let ours = line(&["--parse-only", "--name=a", "--size=1g", &option, "--zonesize=4k", "--zonemode=strided"]);
        let ours = if option.starts_with("--zone") {
            line(&["--parse-only", "--name=a", &option, "--zonesize=4k"])
        } else {
            ours
        };
        if taken != ours.is_ok() {
            differing.push(format!("{option}: fio {taken} ({}), ours {ours:?}", text.trim()));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn sizes_are_the_numbers_that_fio_reads() {
    if fio(&["--version"]).is_none() {
        return skip("sizes_are_the_numbers_that_fio_reads", "no fio here");
    }
    for base in ["1024", "1000"] {
        for value in
            ["4k", "4ki", "4kb", "4kib", "4K", "4KiB", "1m", "1mi", "1mib", "1mb", "1g", "1gib", "1t", "7b", "0x10"]
        {
            let option = format!("--bs={value}");
            let base = format!("--kb_base={base}");
            let (text, _) = fio(&["--parse-only", "--debug=parse", "--name=a", &base, &option]).unwrap();
            let read =
                text.lines().rev().find_map(|line| line.rsplit_once("out=").map(|(_, read)| read.trim().to_owned()));
            let ours = line(&["--parse-only", "--name=a", &base, &option]).unwrap().jobs[0].bs[0];
            assert_eq!(read, Some(ours.to_string()), "{base} {option}");
        }
    }
}

/// Jobs on the null engine, which fio runs in no time.
const JOBS: &str = "[global]\nioengine=null\nsize=256k\nblocksize=8k\nthread\nkb_base=1024\n\
    [plain]\n\
    [triple]\nbs=4k,16k\nrw=rw\n\
    [reads]\nbs=16k,\nrw=rw\n\
    [middle]\nbs=,2k,\nrw=rw\n\
    [range]\nbs=64k,4k\nbsrange=1k-2k\n\
    [ranges]\nbsrange=4k-8k,1k-2k,3k-6k\nrw=randrw\n\
    [split]\nbssplit=4k/10:64k/50:32k/40\nreadwrite=randread\n\
    [splits]\nbssplit=2k/50:4k/50,4k/90:8k/10\nrw=randrw\n\
    [deep]\niodepth=32\niodepth_batch_submit=4\nrw=randwrite:8\n\
    [depth16]\niodepth=0x10\nbs=4kib\nnumjobs=2\nstonewall\ngroup_reporting\n\
    [words]\ndescription=a b  c ; not this\ntimeout=1\nnr_files=3\n\
    [sums]\nsize=64*$pagesize\nio_size=$ncpusm\nfilename=${NOWHERE}x\n";

/// A size as fio's banner has it: `4096B`, `64.0KiB`.
fn banner_size(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
    let scale = [("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0)];
    let scale = scale.iter().find(|(unit, _)| *unit == &text[end..]).unwrap().1;
    (text[..end].parse::<f64>().unwrap() * scale) as u64
}

#[test]
fn jobs_start_with_the_blocks_and_depths_of_fio() {
    let directory = std::env::temp_dir().join(format!("qd1-fio-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("j.fio"), JOBS).unwrap();
    let run = |args: &[&str]| Command::new("fio").args(args).current_dir(&directory).output();
    let (Ok(normal), Ok(json)) = (run(&["j.fio"]), run(&["j.fio", "--output-format=json"])) else {
        fs::remove_dir_all(&directory).unwrap();
        return skip("jobs_start_with_the_blocks_and_depths_of_fio", "no fio here");
    };
    fs::remove_dir_all(&directory).unwrap();
    let ours = common::file(JOBS).unwrap();
    let banner = String::from_utf8(normal.stdout).unwrap();
    for job in &ours.jobs {
        let start = format!("{}: (g=", job.name);
        let line = banner.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{start}: {banner}"));
        assert!(line.contains(&format!("rw={},", job.rw.kind.name())), "{line}");
        assert!(line.ends_with(&format!("ioengine={}, iodepth={}", job.ioengine.name(), job.iodepth)), "{line}");
        for (direction, letter) in ["(R) ", "(W) ", "(T) "].iter().enumerate() {
            let sizes = line.split_once(letter).unwrap().1.split(',').next().unwrap();
            let (min, max) = sizes.split_once('-').unwrap();
            let range = job.block_range(direction);
            assert_eq!((banner_size(min), banner_size(max)), (range.min, range.max), "{line}");
        }
    }
    let json = String::from_utf8(json.stdout).unwrap();
    for job in &ours.jobs {
        // Clones beyond the first have options like the first.
        let entry = json.split("\"jobname\" : ").find(|entry| entry.starts_with(&format!("\"{}\"", job.name))).unwrap();
        let options = entry.split_once("\"job options\" : {").and_then(|(_, options)| options.split_once('}'));
        let options = options.map_or("", |(options, _)| options);
        let theirs: BTreeSet<&str> = options.lines().map(|line| line.trim().trim_end_matches(',')).collect();
        let ours = job.given.iter().filter_map(|given| Some((given.name, given.value.as_deref()?)));
        let ours: BTreeSet<String> = ours.map(|(name, value)| format!("\"{name}\" : \"{value}\"")).collect();
        let theirs: BTreeSet<String> =
            theirs.iter().filter(|line| !line.is_empty()).map(|line| (*line).to_owned()).collect();
        // The machine of our tests is another than the one that fio runs on.
        if job.name != "sums" {
            assert_eq!(ours, theirs, "{}", job.name);
        }
    }
}
