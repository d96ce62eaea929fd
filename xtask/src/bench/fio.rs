//! The peer: fio, with the options that serve it best while it still records latency.

use anyhow::{Context, Result};
use qd1_lab::cmd;
use serde_json::Value;

use super::ours::{Figures, Job, Stop};

/// The size of one I/O in every job.
const BLOCK_BYTES: u64 = 4096;

/// The arguments of a job. `norandommap` saves fio its bookkeeping, a thread saves it shared memory; batches and
/// registered buffers and files are the engines' fast paths. Never `gtod_reduce`: latency must be measured on both
/// sides.
pub(super) fn args(job: &Job<'_>) -> Vec<String> {
    let mut args: Vec<String> = [
        "--name=peer",
        "--rw=randread",
        "--thread=1",
        "--norandommap=1",
        "--randrepeat=1",
        "--invalidate=0",
        "--group_reporting=1",
        // The whole latency, submission included, as ours is; fio's default percentiles leave it out.
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        "--output-format=json",
    ]
    .map(String::from)
    .into();
    let depth = job.iodepth;
    args.push(format!("--ioengine={}", job.engine));
    args.push(format!("--filename={}", job.file.display()));
    args.push(format!("--size={}", job.size_bytes));
    args.push(format!("--bs={BLOCK_BYTES}"));
    args.push(format!("--iodepth={depth}"));
    args.push(format!("--direct={}", u8::from(job.direct)));
    match job.stop {
        // Without io_size a run ends when it has read as many bytes as the file has.
        Stop::Ios(ios) => args.extend([format!("--number_ios={ios}"), format!("--io_size={}", ios * BLOCK_BYTES)]),
        Stop::Seconds(seconds) => args.extend(["--time_based=1".to_owned(), format!("--runtime={seconds}")]),
    }
    if job.engine == "io_uring" {
        args.extend(["--fixedbufs=1", "--registerfiles=1"].map(String::from));
    }
    if depth > 1 {
        args.push(format!("--iodepth_batch_submit={}", (depth / 2).max(1)));
        args.push(format!("--iodepth_batch_complete_min={}", job.batch));
        let most = if job.batch > 1 { job.batch } else { depth };
        args.push(format!("--iodepth_batch_complete_max={most}"));
    }
    args
}

/// Runs a job.
pub(super) fn run(job: &Job<'_>) -> Result<Figures> {
    figures(&cmd::capture(cmd::command("fio").args(args(job)))?)
}

/// How many I/Os a run reports.
pub(super) fn ios(text: &str) -> Result<u64> {
    read_side(text)?["total_ios"].as_u64().context("fio's JSON has no total_ios")
}

/// The read side of the first job. Warnings may precede the JSON.
fn read_side(text: &str) -> Result<Value> {
    let json = text.find('{').map_or(text, |at| &text[at..]);
    let mut parsed: Value = serde_json::from_str(json).context("fio printed no JSON")?;
    Ok(parsed.pointer_mut("/jobs/0/read").map(Value::take).unwrap_or_default())
}

fn figures(text: &str) -> Result<Figures> {
    let read = read_side(text)?;
    let percentile = |at: &str| cmd::number(&read, &format!("/lat_ns/percentile/{at}"));
    Ok(Figures {
        iops: cmd::number(&read, "/iops")?,
        p50_ns: percentile("50.000000")?,
        p99_ns: percentile("99.000000")?,
    })
}

/// The version that runs here, such as `fio-3.33`.
pub(super) fn version() -> Result<String> {
    Ok(cmd::capture(cmd::command("fio").arg("--version"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_side_of_the_first_job_is_read() {
        let text = "fio: a warning\n{\"jobs\":[{\"read\":{\"total_ios\":5,\"iops\":12.5,\"lat_ns\":{\"percentile\":\
                    {\"50.000000\":700,\"99.000000\":900}}}}]}";
        assert_eq!(figures(text).unwrap(), Figures { iops: 12.5, p50_ns: 700.0, p99_ns: 900.0 });
        assert_eq!(ios(text).unwrap(), 5);
        assert!(figures("{}").unwrap_err().to_string().contains("iops"));
    }
}
