//! What job files and command lines mean: each claim was seen with fio 3.33, unless it says otherwise.

mod common;

use std::time::Duration;

use common::{Table, file, line, line_with, one, shell_words, table};
use qd1_fio::types::{
    Amount, CpuRange, Distribution, ExitWhat, FadviseHint, KbBase, Range, Rw, RwKind, Sequence, SubmitMode, SyncMode,
    ThinkBlocks,
};
use qd1_fio::{Format, Place, Request, parse_args};

#[test]
fn a_global_section_counts_for_the_jobs_after_it_only() {
    let jobs =
        file("[a]\nsize=1g\n[global]\nbs=8k\n[b]\nsize=1g\n[global]\niodepth=4\nioengine=libaio\n[c]\n").unwrap();
    let seen: Vec<_> = jobs.jobs.iter().map(|job| (job.name.as_str(), job.bs[0], job.iodepth, job.globals)).collect();
    assert_eq!(seen, [("a", 4096, 1, 0), ("b", 8192, 1, 1), ("c", 8192, 4, 3)]);
    assert_eq!(jobs.globals.iter().map(|given| given.name).collect::<Vec<_>>(), ["bs", "iodepth", "ioengine"]);
}

#[test]
fn options_as_given_have_fios_main_names_and_put_in_values() {
    let mut world = table("[a]\nblocksize=8k\nsize=2*$pagesize\nstonewall\nfilename=${WHERE}/x\n");
    world.env.insert("WHERE".into(), "/tmp".into());
    let job = line_with(&["j.fio"], &world).unwrap().jobs.remove(0);
    let given: Vec<_> = job.given.iter().map(|given| (given.name, given.value.as_deref())).collect();
    assert_eq!(given, [("bs", Some("8k")), ("size", Some("8192")), ("stonewall", None), ("filename", Some("/tmp/x"))]);
}

#[test]
fn a_section_is_renamed_by_its_own_name_and_not_by_a_global_one() {
    let jobs = file("[global]\nname=zz\nsize=1m\n[a]\n[b]\nname=q\n").unwrap().jobs;
    assert_eq!(jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["a", "q"]);
}

#[test]
fn file_names_add_up_over_lines_and_sections() {
    let job = one("[global]\nfilename=g1\n[a]\nfilename=f1:f2\nfilename=f\\:3\nsize=12k\n");
    let names: Vec<&str> = job.filename.iter().map(|name| &**name).collect();
    assert_eq!(names, ["g1", "f1", "f2", "f:3"]);
    assert_eq!((job.nrfiles, job.openfiles), (4, 4));
}

#[test]
fn block_sizes_come_from_bssplit_then_bsrange_then_bs() {
    let job = one("[a]\nsize=1m\nbs=64k,4k\nbsrange=1k-2k\n");
    assert_eq!(job.block_range(0), Range { min: 1024, max: 2048 });
    assert_eq!(job.ba, [1024; 3]);
    let job = one("[a]\nsize=1m\nbssplit=4k/50:8k/\nbs=64k\n");
    assert_eq!(job.block_range(2), Range { min: 4096, max: 8192 });
    assert_eq!(one("[a]\nsize=1m\nbs=8k,\nrw=rw\n").bs, [8192, 4096, 4096]);
}

#[test]
fn rw_says_how_offsets_go_on() {
    let rw = |text: &str| one(&format!("[a]\nsize=1m\nrw={text}\n")).rw;
    assert_eq!(rw("randread:8"), Rw { kind: RwKind::Randread, sequence: Sequence::Run(8) });
    assert_eq!(rw("read:512k"), Rw { kind: RwKind::Read, sequence: Sequence::Skip(512 << 10) });
    assert_eq!(rw("write:-8k"), Rw { kind: RwKind::Write, sequence: Sequence::Skip(-8192) });
    assert_eq!(rw("readwrite").kind, RwKind::Rw);
}

#[test]
fn of_two_opposites_the_later_counts() {
    assert!(!one("[a]\nsize=1m\ndirect=1\nbuffered=1\n").direct);
    assert!(one("[a]\nsize=1m\nbuffered=0\n").direct);
    let job = one("[a]\nsize=1m\nrwmixread=70\nrwmixwrite=60\n");
    assert_eq!((job.rwmixread, job.rwmixwrite), (40, 60));
}

#[test]
fn kb_base_counts_for_the_whole_section_wherever_it_stands() {
    let job = one("[a]\nsize=1m\nkb_base=1000\n");
    assert_eq!((job.size, job.kb_base), (Amount::Bytes(1_000_000), KbBase::Decimal));
}

#[test]
fn times_have_their_options_units() {
    let job = one("[a]\nsize=1m\nruntime=10\nthinktime=10\nlog_avg_msec=10\nlatency_target=10ms\nstartdelay=5-10\n");
    assert_eq!(job.runtime, Duration::from_secs(10));
    assert_eq!(job.thinktime, Duration::from_micros(10));
    assert_eq!(job.log_avg_msec, Duration::from_millis(10));
    assert_eq!(job.latency_target, Duration::from_millis(10));
    assert_eq!((job.startdelay.min, job.startdelay.max), (Duration::from_secs(5), Duration::from_secs(10)));
}

#[test]
fn flags_may_be_bare_and_yes_or_no_may_not() {
    let job = one("[a]\nsize=1m\nruntime=1\ntime_based\ngroup_reporting=0\nnorandommap=1\nwrite_bw_log\nsync=1\n");
    assert!(job.time_based && !job.group_reporting && job.norandommap);
    assert_eq!((job.write_bw_log.as_deref(), job.sync), (Some(""), SyncMode::Sync));
    assert!(file("[a]\ndirect\n").unwrap_err().contains("`direct` needs a value: it takes 0 or 1"));
}

#[test]
fn a_reduced_clock_takes_all_latencies_with_it() {
    let job = one("[a]\nsize=1m\ngtod_reduce=1\ndisable_clat=0\n");
    assert!(job.disable_lat && job.disable_slat && !job.disable_clat);
}

#[test]
fn the_queue_stays_within_its_depth() {
    let job =
        one("[a]\nsize=1m\nioengine=libaio\niodepth=4\niodepth_batch=8\niodepth_low=9\niodepth_batch_complete=8\n");
    assert_eq!((job.iodepth_batch, job.iodepth_low), (4, 4));
    assert_eq!((job.iodepth_batch_complete_min, job.iodepth_batch_complete_max), (4, 4));
    let jobs = file("[a]\nsize=1m\niodepth=32\n").unwrap();
    assert_eq!(jobs.jobs[0].iodepth, 1);
    assert_eq!(
        jobs.notes[0].to_string(),
        "j.fio:3:1: job `a`: psync does one request at a time, so iodepth=32 is treated as 1"
    );
}

#[test]
fn time_based_without_runtime_is_said_and_has_no_effect() {
    let jobs = file("[a]\nsize=1m\ntime_based\n").unwrap();
    assert!(!jobs.jobs[0].time_based);
    assert!(jobs.notes[0].text.contains("time_based"), "{:?}", jobs.notes);
}

#[test]
fn errors_name_place_text_and_what_would_be_right() {
    for (content, expected) in [
        ("[a]\nsize=1g\niodeph=3\n", "j.fio:3:1: unknown option `iodeph`: did you mean `iodepth`?"),
        (
            "[a]\n  cgroup=web\n",
            "j.fio:2:3: `cgroup` is a fio option that qd1 does not have: start qd1 within the cgroup",
        ),
        (
            "[a]\nfill_device=1\n",
            "j.fio:2:13: `fill_device=1` is valid in fio, but qd1 does not support it: qd1 leaves space free",
        ),
        ("[a]\nioengine = rbd\n", "j.fio:2:12: `ioengine=rbd` is valid in fio, but qd1 does not support it"),
        ("[a]\nport=1\n", "`port` is a fio option that qd1 does not have: it belongs to ioengine=net"),
        (
            "[a]\niodepth=0\n",
            "j.fio:2:9: invalid value `0` for `iodepth`: it is less than 1; expected a number from 1 to",
        ),
        ("[a]\nrw=randraed\n", "did you mean `randread`?"),
        ("[a]\nsize=1.5g\n", "fio would read 1"),
        ("[a]\nfixedbufs=1\nsize=1m\n", "`fixedbufs` belongs to ioengine=io_uring, but this job uses psync"),
        ("[a]\nzonemode=zbd\n", "zoned block devices are not supported"),
    ] {
        let errors = file(content).unwrap_err();
        assert!(errors.contains(expected), "{content}: {errors}");
    }
}

#[test]
fn all_errors_of_a_file_are_reported_at_once() {
    let errors = file("[a]\nbogus=1\nbs=x\n[b]\nuid=0\n").unwrap_err();
    assert_eq!(errors.lines().count(), 3, "{errors}");
}

#[test]
fn jobs_that_cannot_be_are_refused() {
    for (content, expected) in [
        ("[a]\nsize=10\n", "smaller than one block"),
        ("[a]\nsize=1m\nbs=2m\n", "smaller than one block"),
        ("[a]\nsize=1m\nrate=1m\nrate_iops=10\n", "j.fio:4:1: rate and rate_iops cannot be used together"),
        ("[a]\nsize=1m\nrate=1m\nrate_min=2m\n", "rate_min is higher than rate"),
        ("[a]\nsize=1m\nzonemode=strided\n", "requires zonesize"),
        ("[a]\nsize=1m\nzonesize=4k\n", "zonesize requires zonemode=strided"),
        ("[a]\nsize=1m\nwait_for=b\n", "no earlier job has that name"),
        ("[a]\nsize=1m\nnumjobs=5000\n", "at most 4096 are allowed"),
        ("[a]\nsize=1m\nnumjobs=0\n", "it is less than 1"),
    ] {
        let errors = file(content).unwrap_err();
        assert!(errors.contains(expected), "{content}: {errors}");
    }
}

#[test]
fn a_global_engine_option_is_for_the_jobs_of_that_engine() {
    let jobs = file("[global]\nhipri\nsize=1m\nioengine=io_uring\n[a]\n[b]\nioengine=libaio\n").unwrap();
    assert!(jobs.jobs[0].hipri);
    assert!(jobs.notes.iter().any(|note| note.text.contains("job `b`")), "{:?}", jobs.notes);
}

#[test]
fn on_the_command_line_each_name_starts_a_job() {
    let run = line(&["--bs=8k", "--name=a", "--size", "1m", "-name", "b", "--size=2m", "--norandommap"]).unwrap();
    let seen: Vec<_> = run.jobs.iter().map(|job| (job.name.as_str(), job.bs[0], job.size, job.norandommap)).collect();
    assert_eq!(seen, [("a", 8192, Amount::Bytes(1 << 20), false), ("b", 8192, Amount::Bytes(2 << 20), true)]);
    assert_eq!(run.jobs[0].given[0].name, "name");
    assert_eq!(run.jobs[0].place, Some(Place::Argument { position: 2, column: 1 }));
}

#[test]
fn global_options_of_the_command_line_count_for_files() {
    let world = table("[f]\nsize=1m\n");
    for args in [["j.fio", "--bs=16k"], ["--bs=16k", "j.fio"]] {
        assert_eq!(line_with(&args, &world).unwrap().jobs[0].bs, [16384; 3]);
    }
    let run = line_with(&["--name=x", "--size=1m", "--bs=8k", "j.fio", "j.fio"], &world).unwrap();
    let seen: Vec<_> = run.jobs.iter().map(|job| (job.name.as_str(), job.bs[0], job.stonewall)).collect();
    assert_eq!(seen, [("x", 8192, false), ("f", 4096, false), ("f", 4096, true)]);
    let run = line(&["--name=a", "--size=1m", "--name=global", "--bs=8k", "--name=b", "--size=1m"]).unwrap();
    assert_eq!(run.jobs.iter().map(|job| job.bs[0]).collect::<Vec<_>>(), [4096, 8192]);
}

#[test]
fn names_may_be_cut_while_they_are_unique() {
    assert_eq!(line(&["--descr=x", "--name=x", "--size=1m", "--ioeng=null"]).unwrap().jobs[0].description, "x");
    let errors = line(&["--name=x", "--si=1m"]).unwrap_err();
    assert!(errors.contains("size, significant_figures"), "{errors}");
}

#[test]
fn fios_own_flags_are_read() {
    let world = table("[a]\nsize=1m\n[b]\nsize=2m\n");
    let args = [
        "--output-format=json,normal",
        "--append-terse",
        "--terse-version=5",
        "--status-interval=500ms",
        "--eta=never",
        "--section=b",
        "--output",
        "x.json",
        "--max-jobs=10",
        "--parse-only",
        "j.fio",
    ];
    let run = line_with(&args, &world).unwrap();
    assert_eq!(run.flags.output_format, [Format::Json, Format::Normal, Format::Terse]);
    assert_eq!((run.flags.terse_version, run.flags.output.as_deref()), (5, Some("x.json")));
    assert_eq!(run.flags.status_interval, Some(Duration::from_millis(500)));
    assert_eq!(run.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn flags_are_refused_by_name_and_with_what_they_take() {
    for (args, expected) in [
        (&["--client=h", "--name=a"][..], "argument 1:1: `--client` is a fio flag that qd1 does not have"),
        (&["--output-format=xml"], "argument 1:17: invalid value `xml` for `--output-format`"),
        (&["--terse-version=7"], "2, 3, 4 or 5"),
        (&["--name=x", "--iodeph=3"], "argument 2:1: unknown option `iodeph`: did you mean `iodepth`?"),
        (&["--name"], "`name` needs a value"),
        (&["--parse-only=1"], "the flag takes no value"),
        (&["no.fio"], "argument 1:1: cannot read no.fio"),
        (&["--size=1m"], "no job"),
        (&["--readonly", "--name=x", "--size=1m", "--rw=write"], "argument 4:1: --readonly"),
        (&["--name=x", "--direct"], "`direct` needs a value"),
    ] {
        let errors = line(args).unwrap_err();
        assert!(errors.contains(expected), "{args:?}: {errors}");
    }
}

#[test]
fn questions_are_answered_before_jobs_are_read() {
    let ask = |args: &[&str]| parse_args(args, &Table::default()).unwrap();
    assert_eq!(ask(&["--version", "--nonsense"]), Request::Version);
    assert_eq!(ask(&["-h"]), Request::Help);
    assert_eq!(ask(&["--cmdhelp=rw"]), Request::CmdHelp("rw".into()));
    assert_eq!(ask(&["--enghelp"]), Request::EngHelp(String::new()));
}

#[test]
fn a_shown_command_line_means_the_same_jobs() {
    let content = "[global]\nbs=4k\nioengine=null\n[a]\nsize=8k\nrw=randread:4\nwrite_bw_log\n[global]\nbs=8k\nthread\n\
                   [c 'd]\nsize=64k\ndescription=hello $big world\nrandom_distribution=zipf:1.2\nfilename=a\\:b\nstonewall\n";
    let jobs = file(content).unwrap();
    let shown = qd1_fio::help::showcmd(&jobs.globals, &jobs.jobs);
    let args = shell_words(shown.trim_end());
    let again = line(&args[1..].iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!(again.jobs.len(), jobs.jobs.len());
    for (mut again, mut first) in again.jobs.into_iter().zip(jobs.jobs) {
        // What was given, and where, is all that may differ.
        for job in [&mut again, &mut first] {
            (job.given, job.place) = (Vec::new(), None);
        }
        assert_eq!(again, first, "{shown}");
    }
}

#[test]
fn distributions_splits_and_lists_reach_the_job() {
    let job = one("[a]\nsize=1g\nrandom_distribution=zoned:60/10:30/20:8/30:2/40\npercentile_list=99.9:50\n\
                   cpus_allowed=0-3,8\nsteadystate=bw:10m\nsync_file_range=write,wait_after:8\nverify_pattern=0xff%o\n");
    assert!(matches!(&*job.random_distribution, Distribution::Zoned([read, ..]) if read.len() == 4));
    assert_eq!(*job.percentile_list, [50.0, 99.9]);
    assert_eq!(job.cpus_allowed.len(), 2);
    assert_eq!(job.steadystate.map(|state| state.limit), Some(10.0 * 1_048_576.0));
    assert_eq!((job.sync_file_range.every, job.sync_file_range.wait_before), (8, false));
    assert_eq!(job.verify_pattern.0.len(), 2);
}

#[test]
fn pauses_and_least_rates_reach_the_job() {
    let job = one("[a]\nsize=1m\n");
    assert_eq!((job.thinktime_blocks, job.thinktime_blocks_type), (1, ThinkBlocks::Complete));
    assert_eq!(job.rate_cycle, Duration::from_secs(1));
    let job = one("[a]\nsize=1m\nthinktime=1ms\nthinktime_spin=10\nthinktime_blocks=1k\nthinktime_blocks_type=issue\n\
                   thinktime_iotime=9\nrate_iops_min=10,20\nratecycle=250\nflow=2\nflow_id=3\nflow_sleep=40\n");
    assert_eq!((job.thinktime_blocks, job.thinktime_blocks_type), (1024, ThinkBlocks::Issue));
    assert_eq!((job.thinktime_spin, job.thinktime_iotime), (Duration::from_micros(10), Duration::from_secs(9)));
    assert_eq!((job.rate_iops_min, job.rate_cycle), ([10, 20, 20], Duration::from_millis(250)));
    assert_eq!((job.flow, job.flow_id, job.flow_sleep), (2, 3, Duration::from_micros(40)));
}

#[test]
fn ends_errors_and_priorities_reach_the_job() {
    let job = one("[a]\nsize=1m\n");
    assert_eq!((job.exit_what, job.nice, job.prio, job.prioclass), (ExitWhat::Group, 0, None, None));
    assert!(job.stats && job.disk_util && job.ignore_error.iter().all(Vec::is_empty));
    let job = one("[a]\nsize=1m\nexitall\nexit_what=all\nignore_error=,ENOSPC:EDQUOT\nnice=-5\nprio=0\nprioclass=3\n\
                   stats=0\ndisk_util=0\ncpumask=0x5\n");
    assert_eq!((job.exit_what, job.nice, job.prio, job.prioclass), (ExitWhat::All, -5, Some(0), Some(3)));
    assert_eq!(*job.ignore_error, [vec![], vec![28, 122], vec![]]);
    assert!(!job.stats && !job.disk_util);
    let cpu = |cpu| CpuRange { first: cpu, last: cpu };
    assert_eq!(*job.cpus_allowed, [cpu(0), cpu(2)]);
}

#[test]
fn what_happens_to_files_reaches_the_job() {
    let job = one("[a]\nsize=1m\n");
    assert!(job.create_serialize && job.create_fsync && !job.pre_read && !job.unlink_each_loop && !job.file_append);
    assert_eq!((job.fadvise_hint, job.offset_align), (FadviseHint::Pattern, 0));
    let job = one("[a]\nsize=1m\ncreate_serialize=0\ncreate_fsync=0\npre_read=1\nunlink_each_loop=1\nfile_append=1\n\
                   fadvise_hint=random\noffset_align=1m\nallrandrepeat=1\nscramble_buffers=0\nio_submit_mode=offload\n");
    assert!(!job.create_serialize && !job.create_fsync && job.pre_read && job.unlink_each_loop && job.file_append);
    assert_eq!((job.fadvise_hint, job.offset_align), (FadviseHint::Random, 1 << 20));
    assert!(job.allrandrepeat && !job.scramble_buffers && job.io_submit_mode == SubmitMode::Offload);
}

#[test]
fn logs_and_samples_reach_the_job() {
    let job = one("[a]\nsize=1m\n");
    assert_eq!((job.bwavgtime, job.iopsavgtime), (Duration::from_millis(500), Duration::from_millis(500)));
    let job = one("[a]\nsize=1m\nbwavgtime=100\niopsavgtime=200\nlog_max_value=1\nlog_alternate_epoch=1\n\
                   log_hist_coarseness=3\ndisable_bw=1\n");
    assert_eq!((job.bwavgtime, job.iopsavgtime), (Duration::from_millis(100), Duration::from_millis(200)));
    assert!(job.log_max_value && job.log_unix_epoch && job.disable_bw_measurement && job.log_hist_coarseness == 3);
}

#[test]
fn trims_among_verified_writes_reach_the_job() {
    let job = one("[a]\nsize=1m\nrw=write\nverify=crc32c\n");
    assert_eq!((job.trim_percentage, job.trim_verify_zero, job.trim_backlog), (0, true, 0));
    let job = one("[a]\nsize=1m\nrw=write\nverify=crc32c\ntrim_percentage=10\ntrim_verify_zero=0\ntrim_backlog=1k\n\
                   trim_backlog_batch=8\nverify_backlog=64\nverify_backlog_batch=16\n");
    assert_eq!((job.trim_percentage, job.trim_verify_zero, job.trim_backlog), (10, false, 1024));
    assert_eq!((job.trim_backlog_batch, job.verify_backlog, job.verify_backlog_batch), (8, 64, 16));
}

#[test]
fn headers_of_verification_divide_every_block() {
    let interval = |text: &str| one(&format!("[a]\nsize=1m\nrw=write\nverify=md5\n{text}\n")).verify_interval;
    assert_eq!(interval("bs=8k"), 8192);
    assert_eq!(interval("bs=8k\nverify_interval=512"), 512);
    assert_eq!(interval("bs=8k\nverify_interval=64k"), 8192);
    assert_eq!(interval("bs=8k\nverify_interval=100"), 8192);
    assert_eq!(interval("bssplit=4k/50:6k/50"), 2048);
    let errors = file("[a]\nsize=1m\nrw=write\nverify=md5\nverify_offset=4000\n").unwrap_err();
    assert!(errors.contains("j.fio:5:1: with verify_offset=4000, an interval of 4096 bytes has no room"), "{errors}");
}

#[test]
fn what_can_change_no_figure_is_taken_without_a_word() {
    let quiet = "[a]\nsize=1m\nthread\nmem=mmap\nhugepage-size=2m\ngtod_cpu=0\nlog_entries=4096\nclocksource=cpu\n\
                 random_generator=tausworthe64\nrandseed=1\nunique_filename=0\nexperimental_verify=1\nverify_dump=0\n\
                 kb_base=1024\nunit_base=8\nsignificant_figures=4\nserialize_overlap=0\natomic=0\nlockfile=none\n\
                 nrfiles=4\nopenfiles=4\nio_submit_mode=inline\ndedupe_mode=repeat\n";
    let jobs = file(quiet).unwrap();
    assert_eq!(jobs.notes, []);
    assert_eq!(jobs.jobs[0].given.len(), quiet.lines().count() - 1);
    for (text, expected) in [
        ("nrfiles=4\nopenfiles=2", "all 4 files stay open"),
        ("verify_dump=1", "no files are written"),
        ("mem=mmaphuge", "never huge pages"),
        ("significant_figures=6", "always has four"),
    ] {
        let notes = file(&format!("[a]\nsize=1m\n{text}\n")).unwrap().notes;
        assert!(notes.len() == 1 && notes[0].text.contains(expected), "{text}: {notes:?}");
    }
}
