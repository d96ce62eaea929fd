//! What bcc's biolatency would say of the same requests: bpftrace with its script, at the same time.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use qd1_lab::{Loop, clock};

/// From when the device gets a request until it has completed it, in powers of two of microseconds.
const SCRIPT: &str = "
tracepoint:block:block_rq_issue /args->dev == $1/ { @start[args->sector] = nsecs; }
tracepoint:block:block_rq_complete /args->dev == $1 && @start[args->sector]/ {
    @usecs = hist((nsecs - @start[args->sector]) / 1000); delete(@start[args->sector]);
}
END { clear(@start); }
";
/// Most time for bpftrace to begin, and to end.
const LIMIT: Duration = Duration::from_secs(60);

/// A running bpftrace.
pub(crate) struct Biolatency {
    bpftrace: Child,
    printed: File,
}

impl Drop for Biolatency {
    fn drop(&mut self) {
        let _ = self.bpftrace.kill();
        let _ = self.bpftrace.wait();
    }
}

impl Biolatency {
    /// Begins to count the requests of a disk.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub(crate) fn begin(disk: &Loop) -> Result<Self, String> {
        let mut file = tempfile::tempfile().map_err(|error| error.to_string())?;
        let (out, err) = (file.try_clone().unwrap(), file.try_clone().unwrap());
        // Many machines have no tracefs; this one is seen by nobody else.
        let script = "mount -t tracefs tracefs /sys/kernel/tracing && exec bpftrace -e \"$1\" \"$2\"";
        let number = disk.number();
        let (major, minor) = number.split_once(':').unwrap();
        let number = (major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap()).to_string();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", SCRIPT, &number]);
        let bpftrace =
            command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(|error| error.to_string())?;
        let mut this = Self { bpftrace, printed: file.try_clone().unwrap() };
        let begin = clock::now();
        while !text(&mut file).contains("Attaching") {
            if this.bpftrace.try_wait().unwrap().is_some() || begin.elapsed() > LIMIT {
                return Err(format!("bpftrace does not run here: {}", text(&mut file)));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        // It says so before it attaches.
        std::thread::sleep(Duration::from_secs(2));
        Ok(this)
    }

    /// Returns the lower bounds of the buckets, us, and their counts.
    pub(crate) fn end(mut self) -> Vec<(u64, u64)> {
        let pid = rustix::process::Pid::from_child(&self.bpftrace);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let begin = clock::now();
        while self.bpftrace.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < LIMIT, "bpftrace should end");
            std::thread::sleep(Duration::from_millis(100));
        }
        let printed = text(&mut self.printed);
        let buckets: Vec<(u64, u64)> = printed.lines().filter_map(bucket).collect();
        assert!(!buckets.is_empty(), "{printed}");
        buckets
    }
}

fn text(file: &mut File) -> String {
    use std::io::Seek as _;
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// A line such as `[2K, 4K)   12 |@@@   |`; the first number is the lower bound.
fn bucket(line: &str) -> Option<(u64, u64)> {
    let (bounds, rest) = line.strip_prefix('[')?.split_once([')', ']'])?;
    let low = bounds.split(',').next()?;
    let low = match low.strip_suffix(['K', 'M']) {
        Some(number) => number.parse::<u64>().ok()? << if low.ends_with('K') { 10 } else { 20 },
        None => low.parse().ok()?,
    };
    Some((low, rest.split_whitespace().next()?.parse().ok()?))
}
