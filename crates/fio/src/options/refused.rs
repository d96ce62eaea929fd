//! fio options that qd1 does not have, each with the reason or what to use instead.

use super::FioOption;

const RARE: &str = "no job seen in the field uses it; please open an issue if yours does";
const FILES: &str = "give jobs separate files if they must not overlap";
const STATE: &str = "verification starts from scratch each time";
const TRIM_ERRORS: &str = "errors of trims are counted with the others";
const REPLAY: &str = "traces are neither written nor replayed; describe the load with rw, bs and rate_iops";
const EXEC: &str = "qd1 does not start other programs from a job; run them before or after qd1";
const ZBD: &str = "zoned block devices are not supported";
const PRIO: &str = "a job has one priority; see prio and prioclass";
const CGROUP: &str = "start qd1 within the cgroup, for example with systemd-run";
const USER: &str = "start qd1 as that user, for example with setpriv or sudo";
const GPU: &str = "I/O to graphics memory is not supported";
const DEDUPE: &str = "with dedupe_percentage, duplicates always repeat earlier blocks";
const PROFILE: &str = "it belongs to one of fio's built-in sets of jobs; use a suite instead (`qd1 suites` lists them)";

/// An option that is refused.
const fn no(name: &'static str, takes: &'static str, help: &'static str, why: &'static str) -> FioOption {
    FioOption::refused(name, takes, help, why)
}

pub(super) const OPTIONS: &[FioOption] = &[
    no("lockfile", "none, exclusive or readwrite", "Lock files during I/O", FILES).plain(&["none"]),
    no("opendir", "a directory", "Use all files below a directory", "name the files with filename"),
    no(
        "bs_unaligned",
        "no value, or 0 or 1",
        "Allow block sizes of any number of bytes",
        "use block sizes that the target supports",
    )
    .aliases(&["blocksize_unaligned"])
    .plain(&["0"]),
    no("rw_sequencer", "sequential or identical", "How offsets continue between new random offsets", RARE)
        .plain(&["sequential"]),
    no("serialize_overlap", "0 or 1", "Hold back requests that overlap others in flight", RARE).plain(&["0"]),
    no("fill_device", "0 or 1", "Write until the device is full", "qd1 leaves space free; give a size")
        .aliases(&["fill_fs"])
        .plain(&["0"]),
    no(
        "write_barrier",
        "a number",
        "A barrier after this many writes",
        "Linux no longer has write barriers; use fsync or fdatasync",
    )
    .plain(&["0"]),
    no("atomic", "0 or 1", "Atomic writes", "it needs a device feature that qd1 does not support").plain(&["0"]),
    no("verify_state_load", "0 or 1", "Continue from a saved state of verification", STATE).plain(&["0"]),
    no("write_iolog", "a file", "Write each request to a file", REPLAY),
    no("read_iolog", "a file", "Replay requests from a file", REPLAY),
    no("read_iolog_chunked", "0 or 1", "Read the trace in pieces", REPLAY).plain(&["0"]),
    no("replay_no_stall", "0 or 1", "Replay without the trace's pauses", REPLAY).plain(&["0"]),
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
        "jobs do not change system settings; use qd1 experiment",
    ),
    no("zonecapacity", "a size", "Usable part of a zone", ZBD).plain(&["0"]),
    no("read_beyond_wp", "0 or 1", "Read past the write pointer", ZBD).plain(&["0"]),
    no("max_open_zones", "a number", "Zones open at the same time", ZBD).plain(&["0"]),
    no("job_max_open_zones", "a number", "Zones open at the same time in a clone", ZBD).plain(&["0"]),
    no("ignore_zone_limits", "0 or 1", "Ignore the device's limits", ZBD).plain(&["0"]),
    no("zone_reset_threshold", "numbers", "When zones are reset", ZBD),
    no("zone_reset_frequency", "numbers", "How often zones are reset", ZBD),
    no("lockmem", "a size", "Lock memory so that it cannot be used", "limit memory with a cgroup instead")
        .plain(&["0"]),
    no("rate_ignore_thinktime", "0 or 1", "Catch up with the rate after pauses", RARE).plain(&["0"]),
    no("write_hint", "none, short, medium, long or extreme", "Expected lifetime of the data", RARE).plain(&["none"]),
    no(
        "allow_mounted_write",
        "0 or 1",
        "Write to devices with a mounted filesystem",
        "qd1 never writes to a mounted device",
    )
    .plain(&["0"]),
    no("numa_cpu_nodes", "node numbers", "Nodes whose processors to use", "use numactl, or cpus_allowed"),
    no("numa_mem_policy", "a policy", "Nodes whose memory to use", "use numactl"),
    no("log_prio", "0 or 1", "Log each request's priority", PRIO).plain(&["0"]),
    no("log_store_compressed", "0 or 1", "Leave logs compressed on disk", "compress the files afterwards")
        .plain(&["0"]),
    no("block_error_percentiles", "0 or 1", "Percentiles of trim errors", TRIM_ERRORS).plain(&["0"]),
    no("dedupe_mode", "repeat or working_set", "Which blocks are identical", DEDUPE).plain(&["repeat"]),
    no("dedupe_working_set_percentage", "a number from 0 to 100", "Size of the set of identical blocks", DEDUPE)
        .plain(&["5"]),
    no("dedupe_global", "0 or 1", "Identical blocks across jobs", DEDUPE).plain(&["0"]),
    no("profile", "tiobench or act", "A built-in set of jobs", "use a suite instead (`qd1 suites` lists them)"),
    no("cgroup", "a name", "Run in this cgroup", CGROUP),
    no("cgroup_nodelete", "0 or 1", "Leave the cgroup", CGROUP).plain(&["0"]),
    no("cgroup_weight", "a number from 100 to 1000", "Weight of the cgroup", CGROUP),
    no("uid", "a number", "Run as this user", USER),
    no("gid", "a number", "Run as this group", USER),
    no("cmdprio_percentage", "a number from 0 to 100", "Share of requests with a high priority", PRIO)
        .of(&["libaio", "io_uring"])
        .plain(&["0"]),
    no("cmdprio_class", "a number from 1 to 3", "Class of that priority", PRIO).of(&["libaio", "io_uring"]),
    no("cmdprio", "a number from 0 to 7", "Level of that priority", PRIO).of(&["libaio", "io_uring"]),
    no("cmdprio_bssplit", "a list", "Priorities by block size", PRIO).of(&["libaio", "io_uring"]),
    no("sqthread_poll_cpu", "a processor", "Where the kernel's thread runs", RARE).of(&["io_uring"]),
    no(
        "hipri_percentage",
        "a number from 0 to 100",
        "Share of requests that are polled for",
        "use hipri, which applies to all requests",
    )
    .of(&["pvsync2"])
    .plain(&["100"]),
    no("uncached", "a number", "Drop pages after buffered I/O", "use direct=1")
        .of(&["io_uring", "pvsync2"])
        .plain(&["0"]),
    no("nowait", "0 or 1", "Fail instead of waiting", RARE).of(&["libaio", "io_uring", "pvsync2"]).plain(&["0"]),
    no("force_async", "a number", "Hand requests to the kernel's workers", RARE).of(&["io_uring"]).plain(&["0"]),
    no("cmd_type", "nvme", "Which commands io_uring_cmd sends", "commands past the block layer are not supported")
        .of(&["io_uring"]),
    no("thp", "a number", "Huge pages for the mapping", RARE).of(&["mmap"]).plain(&["0"]),
    no("gpu_dev_ids", "numbers", "Graphics processors", GPU),
    no("gpu_dev_id", "a number", "Graphics processor", GPU),
    no("numruns", "a value", "For profile=tiobench: how often it runs", PROFILE),
    no("block", "a value", "For profile=tiobench: block size", PROFILE),
    no("dir", "a value", "For profile=tiobench: directory", PROFILE),
    no("device-names", "a value", "For profile=act: devices", PROFILE),
    no("load", "a value", "For profile=act: load factor", PROFILE),
    no("test-duration", "a value", "For profile=act: time", PROFILE),
    no("threads-per-queue", "a value", "For profile=act: threads", PROFILE),
    no("read-req-num-512-blocks", "a value", "For profile=act: size of reads", PROFILE),
    no("large-block-op-kbytes", "a value", "For profile=act: size of large blocks", PROFILE),
    no("prep", "a value", "For profile=act: fill the devices", PROFILE),
];
