//! One job with every default filled in: a field for each option that takes effect, under fio's name.

use std::sync::Arc;
use std::time::Duration;

use crate::engines::EngineName;
use crate::error::Place;
use crate::types::{
    Amount, BlockShare, ContinueOnError, CpuPolicy, CpuRange, Distribution, ExitWhat, FadviseHint, Fallocate,
    FileService, KbBase, Pattern, RandomGenerator, Range, RateProcess, Rw, StatType, SteadyState, SubmitMode,
    SyncFileRange, SyncMode, ThinkBlocks, TimeRange, UnifiedReporting, Verify, ZoneMode,
};

/// An option as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// fio's main name for it, whichever alias was used; fio's JSON repeats this name.
    pub name: &'static str,
    /// Its value, with variables expanded; `None` for a bare flag, which fio's JSON leaves out.
    pub value: Option<String>,
    /// Where.
    pub place: Place,
}

/// A job. Triples are for reads, writes and trims.
///
/// `FioJob::default()` is all zero; [`FioJob::new`] has fio's defaults, taken from the table of options.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "each field is the option of its name, described in the table of options")]
pub struct FioJob {
    /// The section's name, unless `name` says otherwise.
    pub name: String,
    /// Where the job starts.
    pub place: Option<Place>,
    /// The job's own options in the order given: fio's "job options".
    pub given: Vec<Given>,
    /// How many of [`crate::Jobs::globals`] apply to it.
    pub globals: usize,

    pub description: String,
    pub wait_for: String,
    /// Names that were given; empty if names are generated, see [`FioJob::file_names`].
    pub filename: Arc<Vec<Arc<str>>>,
    pub directory: Arc<Vec<String>>,
    pub filename_format: String,
    pub nrfiles: u32,
    /// After the checks: between 1 and [`FioJob::file_count`].
    pub openfiles: u32,
    pub file_service_type: FileService,
    pub filesize: Option<Range>,
    pub size: Amount,
    pub io_size: Amount,
    pub offset: Amount,
    pub offset_increment: Amount,
    /// If not 0, the first offset of a clone is a multiple of this.
    pub offset_align: u64,
    /// The I/O starts at the current end of the file.
    pub file_append: bool,
    pub number_ios: u64,
    pub fallocate: Fallocate,
    pub overwrite: bool,
    pub create_only: bool,
    pub create_on_open: bool,
    pub allow_file_create: bool,
    pub create_serialize: bool,
    pub create_fsync: bool,
    pub unlink: bool,
    pub unlink_each_loop: bool,
    pub pre_read: bool,
    pub invalidate: bool,
    pub fadvise_hint: FadviseHint,

    pub rw: Rw,
    pub rwmixread: u32,
    pub rwmixwrite: u32,
    pub bs: [u64; 3],
    pub bsrange: [Option<Range>; 3],
    pub bssplit: [Arc<Vec<BlockShare>>; 3],
    /// Alignment of random offsets; after the checks, defaults to the smallest block.
    pub ba: [u64; 3],
    pub randrepeat: bool,
    pub allrandrepeat: bool,
    /// `None` leaves it to `randrepeat`.
    pub randseed: Option<u64>,
    pub norandommap: bool,
    pub random_generator: RandomGenerator,
    pub random_distribution: Arc<Distribution>,
    pub percentage_random: [u32; 3],
    pub zonemode: ZoneMode,
    pub zonesize: u64,
    pub zonerange: u64,
    pub zoneskip: u64,

    pub ioengine: EngineName,
    pub iodepth: u32,
    /// Maximum number of requests submitted in one go; 0 means as many as there are.
    pub iodepth_batch: u32,
    pub iodepth_batch_complete_min: u32,
    pub iodepth_batch_complete_max: u32,
    pub iodepth_low: u32,
    pub direct: bool,
    pub hipri: bool,
    pub fixedbufs: bool,
    pub registerfiles: bool,
    pub sqthread_poll: bool,
    /// `None` leaves it to the engine.
    pub nonvectored: Option<bool>,
    pub io_submit_mode: SubmitMode,
    pub stat_type: StatType,
    /// Accepted and without effect.
    pub userspace_reap: bool,

    pub rate: [u64; 3],
    pub rate_min: [u64; 3],
    pub rate_iops: [u32; 3],
    pub rate_iops_min: [u32; 3],
    /// The time over which the minimum rates are checked.
    pub rate_cycle: Duration,
    pub rate_process: RateProcess,
    pub thinktime: Duration,
    /// How much of thinktime is spent spinning, at its start.
    pub thinktime_spin: Duration,
    /// Requests between two pauses.
    pub thinktime_blocks: u32,
    pub thinktime_blocks_type: ThinkBlocks,
    /// Time of I/O between two pauses; if not 0, it applies in addition to `thinktime_blocks`.
    pub thinktime_iotime: Duration,
    pub flow: u32,
    /// Jobs of one flow have the same number.
    pub flow_id: u32,
    /// How long a job waits when it is ahead of its flow.
    pub flow_sleep: Duration,
    pub max_latency: [Duration; 3],
    pub latency_target: Duration,
    pub latency_window: Duration,
    pub latency_percentile: f64,
    pub latency_run: bool,
    pub steadystate: Option<SteadyState>,
    pub steadystate_duration: Duration,
    pub steadystate_ramp_time: Duration,

    pub numjobs: u32,
    pub loops: u64,
    pub runtime: Duration,
    pub time_based: bool,
    pub ramp_time: Duration,
    pub startdelay: TimeRange,
    pub stonewall: bool,
    pub new_group: bool,
    pub thread: bool,
    pub exitall: bool,
    pub exitall_on_error: bool,
    pub exit_what: ExitWhat,
    pub continue_on_error: ContinueOnError,
    /// Error numbers of reads, writes and verification that do not end the job. A list applies even if
    /// `continue_on_error` leaves its kind out; for an empty list, `continue_on_error` means EIO and EILSEQ.
    pub ignore_error: Arc<[Vec<i32>; 3]>,
    pub error_dump: bool,
    pub cpus_allowed: Arc<Vec<CpuRange>>,
    pub cpus_allowed_policy: CpuPolicy,
    /// 0 leaves it as it is.
    pub nice: i32,
    /// I/O priority, 0 to 7; `None` leaves it as it is, unless there is a class.
    pub prio: Option<u32>,
    /// I/O priority class, 0 to 3, as ionice has them.
    pub prioclass: Option<u32>,

    pub fsync: u32,
    pub fdatasync: u32,
    pub sync: SyncMode,
    pub sync_file_range: SyncFileRange,
    pub end_fsync: bool,
    pub fsync_on_close: bool,
    pub refill_buffers: bool,
    pub zero_buffers: bool,
    pub scramble_buffers: bool,
    pub buffer_pattern: Arc<Pattern>,
    pub buffer_compress_percentage: u32,
    /// Length of the pieces compressed to that percentage; 0 means the whole block.
    pub buffer_compress_chunk: u32,
    pub dedupe_percentage: u32,

    pub verify: Verify,
    pub do_verify: bool,
    pub verify_pattern: Arc<Pattern>,
    pub verify_fatal: bool,
    pub verify_async: u32,
    pub verify_backlog: u64,
    /// Blocks to check in one go; 0 for all of the backlog.
    pub verify_backlog_batch: u32,
    pub verify_only: bool,
    /// Bytes from one header to the next; after the checks a divisor of each block that is written.
    pub verify_interval: u64,
    /// Where the header lies in its interval, in bytes.
    pub verify_offset: u64,
    /// Percentage of the written blocks that are trimmed.
    pub trim_percentage: u32,
    /// Whether trimmed blocks must read back as zero.
    pub trim_verify_zero: bool,
    /// Trim after this many writes.
    pub trim_backlog: u64,
    /// Blocks to trim in one go; 0 for all of the backlog.
    pub trim_backlog_batch: u32,

    pub group_reporting: bool,
    pub unified_rw_reporting: UnifiedReporting,
    pub clat_percentiles: bool,
    pub lat_percentiles: bool,
    pub slat_percentiles: bool,
    pub percentile_list: Arc<Vec<f64>>,
    /// 0 leaves the job out of the report.
    pub stats: bool,
    /// 0 leaves the section on disks out of the report.
    pub disk_util: bool,
    pub gtod_reduce: bool,
    pub disable_lat: bool,
    pub disable_clat: bool,
    pub disable_slat: bool,
    /// A log of each request's bandwidth stays empty; averages and the report are unaffected.
    pub disable_bw_measurement: bool,
    /// The length of a bandwidth sample; the report gives the minimum, maximum and mean of the samples.
    pub bwavgtime: Duration,
    /// The same for IOPS.
    pub iopsavgtime: Duration,
    /// Prefix of the log's name; empty for the job's name. The same goes for the next three.
    pub write_bw_log: Option<String>,
    pub write_lat_log: Option<String>,
    pub write_iops_log: Option<String>,
    pub write_hist_log: Option<String>,
    /// Zero logs each request.
    pub log_avg_msec: Duration,
    pub log_hist_msec: Duration,
    /// 0 to 6: each step joins two neighbouring bins.
    pub log_hist_coarseness: u32,
    /// The largest value within each `log_avg_msec`, not the average.
    pub log_max_value: bool,
    /// Log times count from 1970.
    pub log_unix_epoch: bool,
    pub log_offset: bool,
    /// Syncs appear in the latency logs. fio does not have this option.
    pub log_syncs: bool,
    /// Bytes of a chunk; 0 where logs are not compressed.
    pub log_compression: u64,
    pub per_job_logs: bool,

    pub clocksource: String,
    pub kb_base: KbBase,
    /// 0 means automatic, 8 bytes, 1 bits.
    pub unit_base: u32,
}

impl FioJob {
    /// Whether the job itself, not a global section, gave this option. The name is fio's main one.
    pub fn gave(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.name == name)
    }

    /// Files of each clone: those named, or `nrfiles`.
    pub fn file_count(&self) -> u32 {
        if self.filename.is_empty() { self.nrfiles } else { u32::try_from(self.filename.len()).unwrap_or(u32::MAX) }
    }

    /// The paths of the files of one clone, counted from 0, as fio makes them. Names that were given are shared by all
    /// clones and are placed in the first directory; generated ones are placed in the directories in turn.
    pub fn file_names(&self, jobnum: u32) -> impl Iterator<Item = String> + '_ {
        let directory = if self.filename.is_empty() {
            let turn = jobnum as usize % self.directory.len().max(1);
            self.directory.get(turn)
        } else {
            self.directory.first()
        };
        (0..self.file_count()).map(move |filenum| {
            let name = match self.filename.get(filenum as usize) {
                Some(name) => name.to_string(),
                None => self
                    .filename_format
                    .replace("$clientuid", "")
                    .replace("$jobname", &self.name)
                    .replace("$jobnum", &jobnum.to_string())
                    .replace("$filenum", &filenum.to_string()),
            };
            match directory {
                // Even an absolute name is taken below the directory, as in fio.
                Some(directory) => format!("{directory}/{name}"),
                None => name,
            }
        })
    }

    /// The block sizes of a direction, 0 to 2 for reads, writes and trims: `bssplit` before `bsrange` before `bs`, in
    /// whatever order they were given.
    pub fn block_range(&self, direction: usize) -> Range {
        let split = self.bssplit[direction].as_slice();
        match (split.first(), split.last(), self.bsrange[direction]) {
            (Some(first), Some(last), _) => Range { min: first.bs, max: last.bs },
            (_, _, Some(range)) => range,
            _ => Range { min: self.bs[direction], max: self.bs[direction] },
        }
    }

    /// The smallest block of any direction.
    pub fn block_min(&self) -> u64 {
        (0..3).map(|direction| self.block_range(direction).min).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_fio_names_them() {
        let mut job = FioJob::new("w");
        job.nrfiles = 2;
        job.directory = Arc::new(vec!["d1".into(), "d2".into()]);
        assert_eq!(job.file_names(0).collect::<Vec<_>>(), ["d1/w.0.0", "d1/w.0.1"]);
        assert_eq!(job.file_names(1).collect::<Vec<_>>(), ["d2/w.1.0", "d2/w.1.1"]);
        job.filename = Arc::new(vec!["/dev/x".into(), "y".into()]);
        assert_eq!(job.file_names(1).collect::<Vec<_>>(), ["d1//dev/x", "d1/y"]);
    }
}
