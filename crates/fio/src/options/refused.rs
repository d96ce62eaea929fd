//! Options of fio that are not here, each with the reason, or what to use instead.

use super::FioOption;

const RARE: &str = "no job seen in the field uses it; please open an issue where yours does";
const FILES: &str = "use files of their own for jobs that must not meet";
const NET: &str = "qd1 runs on one machine";
const HEADER: &str = "each block has one header at its start";
const STATE: &str = "verification starts afresh each time";
const TRIM: &str = "trims are measured by rw=trim, and not mixed into other jobs";
const REPLAY: &str = "traces are neither written nor replayed; qd1 trace shows the requests of others";
const EXEC: &str = "qd1 starts no other programs from a job; run them around it";
const ZBD: &str = "zoned block devices are not supported";
const PRIO: &str = "priorities are set outside: use nice and ionice";
const THINK: &str = "thinktime pauses after each request";
const EPOCH: &str = "logs count from the start of the run, which the JSON report gives in wall-clock time";
const CGROUP: &str = "start qd1 within the cgroup, as with systemd-run";
const USER: &str = "start qd1 as that user, as with setpriv or sudo";
const GPU: &str = "I/O to graphics memory is not supported";
const PROFILE: &str = "it is for a built-in set of jobs; use a suite of qd1, see qd1 suites";

/// An option that is refused.
const fn no(name: &'static str, takes: &'static str, help: &'static str, why: &'static str) -> FioOption {
    FioOption::refused(name, takes, help, why)
}

pub(super) const OPTIONS: &[FioOption] = &[
    no("lockfile", "none, exclusive or readwrite", "Lock files during I/O", FILES),
    no("unique_filename", "0 or 1", "Put the client's address into file names", NET),
    no("opendir", "a directory", "Use all files below a directory", "name the files with filename"),
    no(
        "bs_unaligned",
        "no value, or 0 or 1",
        "Block sizes of any number of bytes",
        "give block sizes that the target can do",
    )
    .aliases(&["blocksize_unaligned"]),
    no("ignore_error", "error lists", "Errors that count for nothing", "use continue_on_error, which counts them"),
    no("rw_sequencer", "sequential or identical", "How offsets go on after a run", RARE),
    no("serialize_overlap", "0 or 1", "Hold back requests that overlap others in flight", RARE),
    no(
        "io_submit_mode",
        "inline or offload",
        "Threads that hand over the requests",
        "latency counts from when a request was due in any case; leave it out",
    ),
    no("fill_device", "0 or 1", "Write until the device is full", "qd1 leaves space free; give a size")
        .aliases(&["fill_fs"]),
    no("file_append", "0 or 1", "Start at the end of the file", RARE),
    no("offset_align", "a size", "Alignment of the starting offset", "give an aligned offset"),
    no("allrandrepeat", "0 or 1", "All random numbers the same in each run", "use randrepeat or randseed"),
    no(
        "fadvise_hint",
        "0, 1, random or sequential",
        "Tell the kernel the pattern",
        "the hint is left to the kernel; use direct=1 to be free of read-ahead",
    ),
    no(
        "write_barrier",
        "a number",
        "Each so many writes a barrier",
        "Linux has no write barriers any more; use fsync or fdatasync",
    ),
    no("atomic", "0 or 1", "Atomic writes", "it needs a device feature that is not supported"),
    no("verify_interval", "a size", "Distance of verification headers", HEADER),
    no("verify_offset", "a size", "Place of the header in its block", HEADER),
    no("verify_dump", "0 or 1", "Write wrong blocks to files", "the report tells the offset of each wrong block"),
    no("verify_backlog_batch", "a number", "Blocks to check in one go", "use verify_backlog"),
    no("experimental_verify", "0 or 1", "Check without keeping a list of what was written", RARE),
    no("verify_state_load", "0 or 1", "Go on from a saved state of verification", STATE),
    no("verify_state_save", "0 or 1", "Save the state of verification", STATE),
    no("trim_percentage", "a number from 0 to 100", "Blocks to trim after they were written", TRIM),
    no("trim_verify_zero", "0 or 1", "Check that trimmed blocks read as zero", TRIM),
    no("trim_backlog", "a number", "Trim after this many writes", TRIM),
    no("trim_backlog_batch", "a number", "Trims in one go", TRIM),
    no("write_iolog", "a file", "Write each request to a file", REPLAY),
    no("read_iolog", "a file", "Replay requests from a file", REPLAY),
    no("read_iolog_chunked", "0 or 1", "Read the trace in pieces", REPLAY),
    no("replay_no_stall", "0 or 1", "Replay without the trace's pauses", REPLAY),
    no("replay_redirect", "a device", "Replay onto another device", REPLAY),
    no("replay_scale", "a number", "Divide the trace's offsets", REPLAY),
    no("replay_align", "a size", "Align the trace's offsets", REPLAY),
    no("replay_time_scale", "a number", "Stretch the trace's time", REPLAY),
    no("replay_skip", "read, write, trim, flush", "Leave out requests of the trace", REPLAY),
    no("merge_blktrace_file", "a file", "Merge traces", REPLAY),
    no("merge_blktrace_scalars", "numbers", "Stretch merged traces", REPLAY),
    no("merge_blktrace_iters", "numbers", "Repeat merged traces", REPLAY),
    no("exec_prerun", "a command", "Run a program before the job", EXEC),
    no("exec_postrun", "a command", "Run a program after the job", EXEC),
    no(
        "ioscheduler",
        "a scheduler",
        "Set the device's I/O scheduler",
        "a job changes nothing of the system; use qd1 experiment",
    ),
    no("zonecapacity", "a size", "Usable part of a zone", ZBD),
    no("read_beyond_wp", "0 or 1", "Read past the write pointer", ZBD),
    no("max_open_zones", "a number", "Zones open at the same time", ZBD),
    no("job_max_open_zones", "a number", "Zones open at the same time in a clone", ZBD),
    no("ignore_zone_limits", "0 or 1", "Do not heed the device's limits", ZBD),
    no("zone_reset_threshold", "numbers", "When zones are reset", ZBD),
    no("zone_reset_frequency", "numbers", "How often zones are reset", ZBD),
    no(
        "mem",
        "malloc, shm, shmhuge, mmap, mmapshared or mmaphuge",
        "Where buffers are allocated",
        "buffers are aligned pages in any case",
    )
    .aliases(&["iomem"]),
    no("hugepage-size", "a size", "Size of huge pages for buffers", "buffers are aligned pages in any case"),
    no("lockmem", "a size", "Lock memory away", "limit memory with a cgroup instead"),
    no("nice", "a number", "Priority of the process", PRIO),
    no("prio", "a number from 0 to 7", "I/O priority", PRIO),
    no("prioclass", "a number from 0 to 3", "I/O priority class", PRIO),
    no("thinktime_spin", "a time", "Part of thinktime to spend spinning", THINK),
    no("thinktime_blocks", "a number", "Requests between pauses", THINK),
    no("thinktime_blocks_type", "complete or issue", "What counts for thinktime_blocks", THINK),
    no("thinktime_iotime", "a time", "Time between pauses", THINK),
    no("rate_cycle", "milliseconds", "Time over which rate_min is looked at", "it is one second; leave it out")
        .aliases(&["ratecycle"]),
    no("rate_ignore_thinktime", "0 or 1", "Make up for pauses", RARE),
    no("rate_iops_min", "a number", "The job ends where its IOPS stay below this", "use rate_min"),
    no("write_hint", "none, short, medium, long or extreme", "Expected lifetime of the data", RARE),
    no(
        "create_serialize",
        "0 or 1",
        "Make the files of one job after another",
        "files are made one after another in any case",
    ),
    no(
        "create_fsync",
        "0 or 1",
        "fsync() files after they were made",
        "files are synced after they were made in any case",
    ),
    no(
        "allow_mounted_write",
        "0 or 1",
        "Write to devices with a mounted filesystem",
        "qd1 never writes to a mounted device",
    ),
    no(
        "pre_read",
        "0 or 1",
        "Read the files before the job starts",
        "run a job with rw=read and a stonewall before it",
    ),
    no("cpumask", "a bit mask", "Processors that the job may use", "use cpus_allowed"),
    no("numa_cpu_nodes", "node numbers", "Nodes whose processors to use", "use numactl, or cpus_allowed"),
    no("numa_mem_policy", "a policy", "Nodes whose memory to use", "use numactl"),
    no(
        "unlink_each_loop",
        "0 or 1",
        "Delete the files after each loop",
        "use unlink, which deletes them when the job ends",
    ),
    no("exit_what", "group, stonewall or all", "What exitall ends", "exitall ends all jobs that run"),
    no("bwavgtime", "milliseconds", "Time of a bandwidth sample", "use log_avg_msec"),
    no("iopsavgtime", "milliseconds", "Time of an IOPS sample", "use log_avg_msec"),
    no("log_entries", "a number", "Entries of a log at its start", "logs grow by themselves"),
    no("log_hist_coarseness", "a number from 0 to 6", "Join bins of logged histograms", "all bins are logged"),
    no(
        "log_max_value",
        "0 or 1",
        "Log the largest value of a window",
        "averages are logged; leave log_avg_msec out to have each request",
    ),
    no("log_prio", "0 or 1", "Log each request's priority", PRIO),
    no("log_compression_cpus", "processor numbers", "Processors that compress logs", RARE),
    no("log_store_compressed", "0 or 1", "Leave logs compressed on disk", "compress the files afterwards"),
    no("log_unix_epoch", "0 or 1", "Wall-clock times in logs", EPOCH),
    no("log_alternate_epoch", "0 or 1", "Times of another clock in logs", EPOCH),
    no("log_alternate_epoch_clock_id", "a number", "Which clock", EPOCH),
    no("block_error_percentiles", "0 or 1", "Percentiles of trim errors", TRIM),
    no("stats", "0 or 1", "Whether anything is measured", "a job that measures nothing is of no use here"),
    no(
        "scramble_buffers",
        "0 or 1",
        "Change a few bytes of each buffer",
        "every block is unique in any case; use refill_buffers, zero_buffers or buffer_pattern",
    ),
    no("buffer_compress_chunk", "a size", "Length of the compressible part", RARE),
    no("dedupe_mode", "repeat or working_set", "Which blocks are alike", "dedupe_percentage repeats earlier blocks"),
    no(
        "dedupe_working_set_percentage",
        "a number from 0 to 100",
        "Size of the set of like blocks",
        "dedupe_percentage repeats earlier blocks",
    ),
    no("dedupe_global", "0 or 1", "Like blocks across jobs", "dedupe_percentage repeats earlier blocks"),
    no("significant_figures", "a number from 1 to 10", "Figures of numbers in the report", "the report has fio's four"),
    no("disk_util", "0 or 1", "Report the disk's utilisation", "it is always reported"),
    no(
        "disable_bw_measurement",
        "0 or 1",
        "Do not log bandwidth",
        "bandwidth costs nothing to measure here; leave it out",
    )
    .aliases(&["disable_bw"]),
    no(
        "gtod_cpu",
        "a processor",
        "A thread of its own that reads the clock",
        "reading the clock takes some 20 ns here; leave it out",
    ),
    no("profile", "tiobench or act", "A built-in set of jobs", "use a suite of qd1, see qd1 suites"),
    no("cgroup", "a name", "Run in this cgroup", CGROUP),
    no("cgroup_nodelete", "0 or 1", "Leave the cgroup", CGROUP),
    no("cgroup_weight", "a number from 100 to 1000", "Weight of the cgroup", CGROUP),
    no("uid", "a number", "Run as this user", USER),
    no("gid", "a number", "Run as this group", USER),
    no("flow_id", "a number", "Which flow the job belongs to", "there is one flow; leave it out"),
    no("flow_sleep", "microseconds", "Pause of a job that is ahead of its flow", RARE),
    no(
        "userspace_reap",
        "no value, or 0 or 1",
        "Take completions from the ring without a call",
        "completions are taken by io_getevents(); use io_uring",
    )
    .of(&["libaio"]),
    no("cmdprio_percentage", "a number from 0 to 100", "Requests with a high priority", PRIO)
        .of(&["libaio", "io_uring"]),
    no("cmdprio_class", "a number from 1 to 3", "Class of that priority", PRIO).of(&["libaio", "io_uring"]),
    no("cmdprio", "a number from 0 to 7", "Level of that priority", PRIO).of(&["libaio", "io_uring"]),
    no("cmdprio_bssplit", "a list", "Priorities by block size", PRIO).of(&["libaio", "io_uring"]),
    no("sqthread_poll_cpu", "a processor", "Where the kernel's thread runs", RARE).of(&["io_uring"]),
    no(
        "hipri_percentage",
        "a number from 0 to 100",
        "Requests that are polled for",
        "use hipri, which is for all requests",
    )
    .of(&["pvsync2"]),
    no("uncached", "a number", "Drop pages after buffered I/O", "use direct=1").of(&["io_uring", "pvsync2"]),
    no("nowait", "0 or 1", "Fail instead of waiting", RARE).of(&["libaio", "io_uring", "pvsync2"]),
    no("force_async", "a number", "Hand requests to the kernel's workers", RARE).of(&["io_uring"]),
    no("cmd_type", "nvme", "Which commands io_uring_cmd sends", "commands past the block layer are not supported")
        .of(&["io_uring"]),
    no("thp", "a number", "Huge pages for the mapping", RARE).of(&["mmap"]),
    no("stat_type", "stat, lstat or statx", "Which call is measured", "it is stat()").of(&["filestat"]),
    no("gpu_dev_ids", "numbers", "Graphics processors", GPU),
    no("gpu_dev_id", "a number", "Graphics processor", GPU),
    no("numruns", "a value", "Of profile=tiobench: how often it runs", PROFILE),
    no("block", "a value", "Of profile=tiobench: block size", PROFILE),
    no("dir", "a value", "Of profile=tiobench: directory", PROFILE),
    no("device-names", "a value", "Of profile=act: devices", PROFILE),
    no("load", "a value", "Of profile=act: load factor", PROFILE),
    no("test-duration", "a value", "Of profile=act: time", PROFILE),
    no("threads-per-queue", "a value", "Of profile=act: threads", PROFILE),
    no("read-req-num-512-blocks", "a value", "Of profile=act: size of reads", PROFILE),
    no("large-block-op-kbytes", "a value", "Of profile=act: size of large blocks", PROFILE),
    no("prep", "a value", "Of profile=act: fill the devices", PROFILE),
];
