//! What fio's options say about a job.

use qd1_model::measured::Does;
use qd1_model::plan::Rw;
use serde_json::Value;

use super::job::Durable;

/// Maximum number of bytes of an option's value that are read.
const OPTION_MAX: usize = 1024;
/// Engines that have one request in flight, whatever `iodepth` says.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];
/// fio's default engine on Linux.
const ENGINE: &str = "psync";

/// The options of a job, its own before the global ones.
pub(super) struct Options<'a> {
    pub(super) job: Option<&'a Value>,
    pub(super) global: Option<&'a Value>,
}

impl<'a> Options<'a> {
    /// Whether the request is known: a job without its own options has the global ones.
    fn are_known(&self) -> bool {
        let has_any = |options: &Value| options.as_object().is_some_and(|options| !options.is_empty());
        self.job.is_some() || self.global.is_some_and(has_any)
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let of = |options: Option<&'a Value>| options?.get(name)?.as_str();
        // Every job uses the global options.
        of(self.job).or_else(|| of(self.global)).filter(|value| value.len() <= OPTION_MAX)
    }

    /// Whether a switch is on; without a value it is.
    fn is_set(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value != "0")
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }

    /// A size.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        bytes(self.text(name)?, self.number("kb_base") == Some(1000))
    }

    /// Whether each write is followed by a sync.
    fn syncs_each(&self) -> bool {
        ["fsync", "fdatasync"].iter().any(|name| self.number(name) == Some(1))
    }

    /// Writes from one sync to the next; 0 for none.
    fn sync_every(&self) -> u32 {
        ["fsync", "fdatasync"].iter().filter_map(|name| self.number(name)).find(|every| *every > 0).unwrap_or(0)
    }

    pub(super) fn durable(&self) -> Durable {
        if self.syncs_each() {
            return Durable::BySync;
        }
        let is_in_the_write = self.text("sync").is_some_and(|value| !matches!(value, "0" | "none"));
        if is_in_the_write { Durable::InTheWrite } else { Durable::No }
    }

    pub(super) fn numjobs(&self) -> u32 {
        self.number("numjobs").unwrap_or(1)
    }

    pub(super) fn engine(&self) -> &'a str {
        self.text("ioengine").unwrap_or_default()
    }

    /// Requests in flight in one process.
    fn in_flight(&self) -> u32 {
        let engine = self.text("ioengine").unwrap_or(ENGINE);
        depth(engine, self.number("iodepth").unwrap_or(1))
    }

    /// Whether the page cache is bypassed: `buffered` is the opposite of `direct`.
    fn is_direct(&self) -> bool {
        match self.text("direct") {
            Some(_) => self.is_set("direct"),
            None => self.text("buffered") == Some("0"),
        }
    }

    /// Percentage of reads in a job that reads and writes.
    fn rwmixread(&self) -> Option<u8> {
        let percent = |name: &str| self.number(name).map(|percent| percent.min(100) as u8);
        percent("rwmixread").or_else(|| Some(100 - percent("rwmixwrite")?))
    }

    /// Block size of a direction's requests, bytes: `4k`, or `4k,8k` for reads and writes.
    fn block(&self, rw: Rw) -> Option<u32> {
        let all = self.text("bs").or_else(|| self.text("blocksize")).unwrap_or("4k");
        let is_base_1000 = self.number("kb_base") == Some(1000);
        let of = |text: &str| u32::try_from(bytes(text, is_base_1000)?).ok();
        let mut parts = all.split(',');
        let reads = of(parts.next()?)?;
        let writes = parts.next().map_or(Some(reads), of)?;
        match (rw.reads(), rw.writes()) {
            (true, true) => (reads == writes).then_some(reads),
            (true, false) => Some(reads),
            _ => Some(writes),
        }
    }

    /// What one process does; `None` if that is unknown, or cannot be expressed this way.
    pub(super) fn does(&self) -> Option<Does> {
        let has_more = ["rate_iops", "rate", "bssplit", "bsrange", "thinktime", "zonemode", "random_distribution"]
            .iter()
            .any(|name| self.is_set(name));
        if !self.are_known() || has_more {
            return None;
        }
        let rw = rw(self.text("rw").or_else(|| self.text("readwrite")).unwrap_or("read"))?;
        Some(Does {
            rwmixread: mixed(rw, self.rwmixread().unwrap_or(50)),
            in_flight: self.in_flight(),
            commits: rw.writes() && self.durable() != Durable::No,
            sync_every: if self.syncs_each() || !rw.writes() { 0 } else { self.sync_every() },
            direct: Some(self.is_direct()),
            ..does(rw, self.block(rw)?)
        })
    }
}

/// Requests in flight with an engine if this many are requested.
pub(super) fn depth(engine: &str, asked: u32) -> u32 {
    if SYNCHRONOUS.contains(&engine) { 1 } else { asked }
}

pub(super) fn rw(text: &str) -> Option<Rw> {
    Some(match text.split(':').next().unwrap_or_default() {
        "read" => Rw::Read,
        "write" => Rw::Write,
        "randread" => Rw::Randread,
        "randwrite" => Rw::Randwrite,
        "rw" | "readwrite" => Rw::Rw,
        "randrw" => Rw::Randrw,
        _ => return None,
    })
}

/// Work of this kind with blocks of this many bytes, with fio's defaults for the rest.
pub(super) fn does(rw: Rw, block: u32) -> Does {
    Does { rw, rwmixread: mixed(rw, 50), block, in_flight: 1, commits: false, sync_every: 0, direct: None }
}

/// The share of reads of a job that may only read or only write.
fn mixed(rw: Rw, percent: u8) -> u8 {
    match (rw.reads(), rw.writes()) {
        (true, true) => percent,
        (true, false) => 100,
        _ => 0,
    }
}

/// A size as fio reads it, bytes; `None` if it is not a single size. By default, `k` is 1,024 in fio and `KiB` is
/// 1,000; `kb_base=1000` reverses that (HOWTO, "Parameter types").
pub(crate) fn bytes(text: &str, is_base_1000: bool) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let (prefix, is_binary) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, true),
        None => (unit, false),
    };
    let power = match prefix {
        "" if !is_binary => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    let base: u64 = if is_binary == is_base_1000 { 1024 } else { 1000 };
    number.parse::<u64>().ok()?.checked_mul(base.pow(power)).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn title(options: &Value) -> Option<String> {
        let does = Options { job: Some(options), global: None }.does()?;
        Some(format!("{}{}", does.title(), if does.direct == Some(true) { ", direct" } else { "" }))
    }

    #[test]
    fn sizes_are_fios() {
        for (text, base_1024, base_1000) in [
            ("4k", 4096, 4000),
            ("4KiB", 4000, 4096),
            ("4kb", 4096, 4000),
            ("1M", 1 << 20, 1_000_000),
            ("512", 512, 512),
        ] {
            assert_eq!((bytes(text, false), bytes(text, true)), (Some(base_1024), Some(base_1000)), "{text}");
        }
        for text in ["", "0", "4x", "4k-8k", "4i", "1.5k", "99999999999t"] {
            assert_eq!(bytes(text, false), None, "{text}");
        }
    }

    #[test]
    fn options_say_what_a_job_does() {
        for (options, what) in [
            (json!({"rw": "randread", "iodepth": "32"}), "randread 4 KiB, 1 in flight"),
            (json!({"rw": "randread", "iodepth": "32", "ioengine": "pvsync2"}), "randread 4 KiB, 1 in flight"),
            (json!({"rw": "randread", "iodepth": "32", "ioengine": "libaio"}), "randread 4 KiB, 32 in flight"),
            (json!({"rw": "read", "buffered": "0"}), "read 4 KiB, 1 in flight, direct"),
            (json!({"rw": "read", "direct": ""}), "read 4 KiB, 1 in flight, direct"),
            (json!({"rw": "read", "buffered": "1"}), "read 4 KiB, 1 in flight"),
            (json!({"rw": "randrw", "rwmixwrite": "30"}), "randrw 70 % reads 4 KiB, 1 in flight"),
            (json!({"rw": "randwrite", "bs": "4k,64k"}), "randwrite 64 KiB, 1 in flight"),
            (json!({"rw": "write", "bs": "4k", "kb_base": "1000"}), "write 4000 B, 1 in flight"),
        ] {
            assert_eq!(title(&options).as_deref(), Some(what), "{options}");
        }
        for options in [json!({"rw": "randrw", "bs": "4k,64k"}), json!({"rw": "trim"}), json!({"bsrange": "4k-8k"})] {
            assert_eq!(title(&options), None, "{options}");
        }
    }

    #[test]
    fn a_job_without_options_has_the_global_ones() {
        let global = json!({"rw": "randread", "ioengine": "libaio", "iodepth": "8"});
        let does = |global| Options { job: None, global }.does();
        assert_eq!(does(Some(&global)).unwrap().title(), "randread 4 KiB, 8 in flight");
        assert_eq!((does(Some(&json!({}))), does(None)), (None, None), "nothing was said");
    }
}
