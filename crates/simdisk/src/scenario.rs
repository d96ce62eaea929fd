//! A scenario: the parameters of a disk, its faults, and what a measurement of it is expected to find. Data, from TOML.
//!
//! Times are microseconds if the name ends in `_us`; rates are per second. Anything not given is absent (no bucket, no
//! cache, no fault) or taken from the default device.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use qd1_engine::sim::{
    Bucket, Cache, Device, FirstTouch, HostCache, Layers, Mode, Neighbours, Reduction, Service, Stall, Unwritten,
};
use serde::Deserialize;

use crate::fault::Fault;

/// A whole scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// A description, in one sentence.
    pub about: String,
    /// Size of the disk as `df` shows it, bytes.
    pub size: u64,
    /// Writes of new data beyond this many bytes fail with ENOSPC although `df` shows more: a full thin pool.
    pub enospc_after: Option<u64>,
    /// User (and group) who owns every file, whoever creates it: vfat with `uid=`, NFS that squashes root.
    pub squashed_to: Option<u32>,
    /// The device.
    pub device: Device,
    /// Its faults.
    pub faults: Vec<Fault>,
    /// Arguments of `qd1 check` that lead to the expected result; empty if only a dedicated test can check it.
    pub check: Vec<String>,
    /// Ids of findings, or prefixes of them, that a measurement must report.
    pub findings: Vec<String>,
    /// Prefixes of ids of findings that it must not report.
    pub no_findings: Vec<String>,
    /// A part of the error with which it ends, if it cannot give a figure.
    pub error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    about: String,
    #[serde(default = "four_gib")]
    size_mib: u64,
    enospc_after_mib: Option<u64>,
    squashed_to: Option<u32>,
    #[serde(default)]
    device: DeviceText,
    #[serde(default, rename = "fault")]
    faults: Vec<Fault>,
    expect: Expect,
}

fn four_gib() -> u64 {
    4096
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expect {
    check: String,
    findings: Vec<String>,
    no_findings: Vec<String>,
    error: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DeviceText {
    seed: Option<u64>,
    channels: Option<u32>,
    read: Option<ServiceText>,
    write: Option<ServiceText>,
    flush: Option<ServiceText>,
    iops: Option<BucketText>,
    bytes: Option<BucketText>,
    stall: Option<StallText>,
    neighbours: Option<NeighboursText>,
    cache: Option<CacheText>,
    host_cache: Option<HostCacheText>,
    /// Reads of space that was never written.
    unwritten: Option<ServiceText>,
    first_touch: Option<FirstTouchText>,
    reduction: Option<ReductionText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostCacheText {
    capacity_mib: u64,
    line_kib: u64,
    hit: ServiceText,
    #[serde(default)]
    fill_on_write: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstTouchText {
    chunk_kib: u64,
    penalty: ServiceText,
    #[serde(default)]
    on_write: bool,
    #[serde(default)]
    on_read: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReductionText {
    #[serde(default)]
    compresses: bool,
    #[serde(default)]
    deduplicates: bool,
    #[serde(default)]
    share_min: f64,
    #[serde(default)]
    per_kib_us: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceText {
    modes: Vec<ModeText>,
    #[serde(default)]
    per_kib_us: f64,
}

/// Either a median with the standard deviation of the logarithm (0: constant), or the mean of an exponential phase.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeText {
    #[serde(default = "one")]
    weight: f64,
    median_us: Option<f64>,
    #[serde(default)]
    sigma: f64,
    exponential_mean_us: Option<f64>,
}

fn one() -> f64 {
    1.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BucketText {
    rate: f64,
    burst: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StallText {
    period_ms: u64,
    length_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NeighboursText {
    sigma: f64,
    memory_ms: f64,
    #[serde(default)]
    stalls_per_s: f64,
    #[serde(default)]
    stall_ms: f64,
    #[serde(default)]
    stall_sigma: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheText {
    capacity_mib: f64,
    drain_mb_per_s: f64,
    ack_us: f64,
    honours_flush: bool,
}

impl ModeText {
    fn mode(&self) -> Result<Mode> {
        ensure!(self.weight > 0.0, "a mode's weight must be above 0");
        match (self.median_us, self.exponential_mean_us) {
            (Some(median), None) if median > 0.0 && self.sigma >= 0.0 => {
                Ok(Mode { weight: self.weight, median_ns: median * 1e3, sigma: self.sigma })
            }
            (None, Some(mean)) if mean > 0.0 && self.sigma == 0.0 => Ok(Mode::exponential(self.weight, mean * 1e3)),
            _ => anyhow::bail!("a mode needs either median_us, with or without sigma, or exponential_mean_us"),
        }
    }
}

impl ServiceText {
    fn service(&self) -> Result<Service> {
        ensure!(!self.modes.is_empty(), "a service needs at least one mode");
        let modes = self.modes.iter().map(ModeText::mode).collect::<Result<_>>()?;
        Ok(Service { modes, per_byte_ns: self.per_kib_us * 1e3 / 1024.0, ..Service::default() })
    }
}

impl BucketText {
    fn bucket(&self) -> Result<Bucket> {
        ensure!(self.rate > 0.0 && self.burst >= 1.0, "a bucket needs a rate above 0 and a burst of at least 1");
        Ok(Bucket { rate: self.rate, burst: self.burst })
    }
}

impl DeviceText {
    fn device(&self) -> Result<Device> {
        let default = Device::default();
        let service =
            |text: &Option<ServiceText>, default: Service| text.as_ref().map_or(Ok(default), ServiceText::service);
        let stall = |text: &StallText| {
            ensure!(text.length_ms < text.period_ms, "a stall must be shorter than its period");
            Ok(Stall { period_ns: text.period_ms * 1_000_000, length_ns: text.length_ms * 1_000_000 })
        };
        let neighbours = |text: &NeighboursText| {
            ensure!(
                text.sigma >= 0.0 && text.memory_ms > 0.0,
                "neighbours need a sigma of 0 or more and a memory above 0"
            );
            Ok(Neighbours {
                sigma: text.sigma,
                memory_ns: text.memory_ms * 1e6,
                stalls_per_s: text.stalls_per_s,
                stall_ns: text.stall_ms * 1e6,
                stall_sigma: text.stall_sigma,
            })
        };
        let cache = |text: &CacheText| Cache {
            capacity: text.capacity_mib * f64::from(1 << 20),
            drain: text.drain_mb_per_s * 1e6,
            ack_ns: text.ack_us * 1e3,
            honours_flush: text.honours_flush,
        };
        Ok(Device {
            seed: self.seed.unwrap_or(default.seed),
            channels: self.channels.unwrap_or(default.channels),
            read: service(&self.read, default.read.clone())?,
            write: service(&self.write, default.write.clone())?,
            flush: service(&self.flush, default.flush.clone())?,
            iops: self.iops.as_ref().map(BucketText::bucket).transpose()?,
            bytes: self.bytes.as_ref().map(BucketText::bucket).transpose()?,
            stall: self.stall.as_ref().map(stall).transpose()?,
            neighbours: self.neighbours.as_ref().map(neighbours).transpose()?,
            cache: self.cache.as_ref().map(cache),
            layers: self.layers()?,
            ..default
        })
    }
}

impl DeviceText {
    fn layers(&self) -> Result<Layers> {
        let host = |text: &HostCacheText| {
            ensure!(text.capacity_mib > 0 && text.line_kib > 0, "a host's cache needs a capacity and a line size");
            Ok(HostCache {
                capacity: text.capacity_mib << 20,
                line: text.line_kib << 10,
                hit: text.hit.service()?,
                fill_on_write: text.fill_on_write,
            })
        };
        let first = |text: &FirstTouchText| {
            ensure!(
                text.chunk_kib > 0 && (text.on_write || text.on_read),
                "a first touch needs a chunk, and on_write or on_read"
            );
            let (chunk, penalty) = (text.chunk_kib << 10, text.penalty.service()?);
            anyhow::Ok(FirstTouch { chunk, penalty, on_write: text.on_write, on_read: text.on_read })
        };
        let unwritten = |text: &ServiceText| anyhow::Ok(Unwritten { read: text.service()? });
        Ok(Layers {
            host: self.host_cache.as_ref().map(host).transpose()?,
            unwritten: self.unwritten.as_ref().map(unwritten).transpose()?,
            first_touch: self.first_touch.as_ref().map(first).transpose()?,
            reduction: self.reduction.as_ref().map(|text| Reduction {
                compresses: text.compresses,
                deduplicates: text.deduplicates,
                share_min: text.share_min,
                per_byte_ns: text.per_kib_us * 1e3 / 1024.0,
            }),
        })
    }
}

impl Scenario {
    /// Reads a scenario's text.
    ///
    /// # Errors
    /// With the place in the text, or with the invalid parameter.
    pub fn parse(text: &str) -> Result<Self> {
        let text: Text = toml::from_str(text)?;
        ensure!(
            text.size_mib << 20 <= crate::stored_bytes_max(),
            "a disk is kept in memory and can have at most {} MiB",
            crate::stored_bytes_max() >> 20
        );
        let expect = text.expect;
        ensure!(
            expect.error.is_some() || !(expect.findings.is_empty() && expect.no_findings.is_empty()),
            "a scenario must expect findings, rule some out, or expect an error"
        );
        Ok(Self {
            about: text.about,
            size: text.size_mib << 20,
            enospc_after: text.enospc_after_mib.map(|mib| mib << 20),
            squashed_to: text.squashed_to,
            device: text.device.device()?,
            faults: text.faults,
            check: expect.check.split_whitespace().map(str::to_owned).collect(),
            findings: expect.findings,
            no_findings: expect.no_findings,
            error: expect.error,
        })
    }

    /// Reads a scenario's file.
    ///
    /// # Errors
    /// With the path.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// The names of the built-in scenarios, in order.
    ///
    /// # Errors
    /// When their directory cannot be read.
    pub fn names() -> Result<Vec<String>> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let entries = std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
        let files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let mut names: Vec<String> =
            files.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
        names.sort();
        Ok(names)
    }

    /// The built-in scenario with this name.
    ///
    /// # Errors
    /// With the path that was tried.
    pub fn named(name: &str) -> Result<Self> {
        Self::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(format!("{name}.toml")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_crate_is_valid() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(paths.len() >= 5, "{paths:?}");
        for path in paths {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with("# Source:"), "{}: parameters have a source", path.display());
            let scenario = Scenario::load(&path).unwrap();
            let says = scenario.error.is_some() || !scenario.findings.is_empty();
            assert!(says, "{}: something has to come of it", path.display());
        }
    }

    #[test]
    fn parameters_arrive_in_the_units_of_the_model() {
        let scenario = Scenario::parse(
            "about = 'x'\nsize_mib = 64\n[device]\niops = { rate = 500, burst = 1000 }\n\
             read = { modes = [{ median_us = 80, sigma = 0.2 }, { weight = 0.1, exponential_mean_us = 1000 }], per_kib_us = 1.024 }\n\
             [[fault]]\non = 'read'\nwhat = { hang = 50 }\nrate = 0.5\n[[fault]]\non = 'write'\nwhat = 'flip'\nat = 4096\n\
             [expect]\nerror = 'EIO'\ncheck = '--only qd1'\n",
        )
        .unwrap();
        assert_eq!(scenario.size, 64 << 20);
        assert_eq!((scenario.check.len(), scenario.error.as_deref()), (2, Some("EIO")));
        assert_eq!(scenario.device.iops, Some(Bucket { rate: 500.0, burst: 1000.0 }));
        let read = &scenario.device.read;
        assert_eq!(read.modes[0], Mode { weight: 1.0, median_ns: 80e3, sigma: 0.2 });
        assert_eq!(read.modes[1], Mode::exponential(0.1, 1e6));
        assert!((read.per_byte_ns - 1.0).abs() < 1e-12);
        assert_eq!(scenario.faults[1].at, Some(4096));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "about = 'x'\nwrong = 1",
            "about = 'x'\ndevice = { read = { modes = [] } }",
            "about = 'x'\ndevice = { iops = { rate = 0, burst = 1 } }",
            "about = 'x'\ndevice = { stall = { period_ms = 10, length_ms = 10 } }",
            "about = 'x'\nsize_mib = 1000000",
            "about = 'x'\n[expect]\ncheck = '--only qd1'",
        ] {
            let text = if text.contains("expect") { text.to_owned() } else { format!("{text}\n[expect]\nerror = 'x'") };
            assert!(Scenario::parse(&text).is_err(), "{text}");
        }
    }
}
