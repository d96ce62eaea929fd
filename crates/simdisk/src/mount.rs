//! Mounting and unmounting a disk, also on a panic and after a process that was killed.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use qd1_clock::monotonic_ns;
use rustix::mount::UnmountFlags;

use crate::fault::RequestKind;
use crate::files::{Files, Space, stored_bytes_max};
use crate::scenario::Scenario;
use crate::serve::{Overhead, Served, Server, be_real_time};

/// What /proc/mounts shows as the source of the mount.
const SOURCE: &str = "qd1-simdisk";
/// Threads that each serve one request at a time: as many as the device has channels, within these limits. Further
/// requests wait in the kernel as they would in front of the device. Each thread has a buffer of 16 MiB.
const THREADS: (usize, usize) = (4, 64);
/// How many times the cost of the path is measured: the median counts, so that one disturbed try does not matter.
const TRIES: usize = 3;
/// Requests of each kind in one measurement.
const ROUNDS: usize = 101;

/// A mounted disk; unmounted on drop.
pub struct Mounted {
    dir: PathBuf,
    server: Arc<Server>,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Returns why no disk can be mounted here, if none can.
    pub fn unavailable() -> Option<String> {
        // On most machines a user who may mount without root may open it as well; in containers often only root may.
        if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            return Some(format!("cannot open /dev/fuse: {error}"));
        }
        let in_path = |name: &str| {
            std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).exists()))
        };
        if !rustix::process::geteuid().is_root() && !in_path("fusermount3") {
            return Some("mounting needs root or fusermount3 (package fuse3)".to_owned());
        }
        None
    }

    /// Mounts the disk on a directory, measures what FUSE costs here, and starts the device's clock.
    ///
    /// # Errors
    /// When the kernel refuses the mount, or a request of the calibration fails.
    pub fn new(scenario: &Scenario, dir: &Path) -> Result<Self> {
        clear_dead();
        let server = Arc::new(Server::new(&scenario.device, &scenario.faults));
        let limit = scenario.enospc_after.unwrap_or(scenario.size).min(stored_bytes_max());
        let owner = fs::metadata(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
        let space = Space { size: scenario.size, limit };
        let squashed = scenario.squashed_to.map(|id| (id, id));
        let files = Files::new(Arc::clone(&server), space, (owner.uid(), owner.gid()), squashed);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(SOURCE.to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
        ];
        // Only root may let other users in, unless the machine's fuse.conf allows it.
        config.acl = if rustix::process::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some((scenario.device.channels as usize).clamp(THREADS.0, THREADS.1));
        let mount = || {
            be_real_time();
            Session::new(files, dir, &config).and_then(Session::spawn)
        };
        // On a separate thread, whose priority the serving threads inherit.
        let session = std::thread::scope(|scope| scope.spawn(mount).join())
            .map_err(|_| anyhow::anyhow!("the mount panicked"))?
            .with_context(|| format!("cannot mount a simulated disk on {}", dir.display()))?;
        let this = Self { dir: dir.to_owned(), server, session: Some(session) };
        let overhead = calibrate(&this.server, dir).context("cannot measure what FUSE costs")?;
        this.server.begin(overhead);
        Ok(this)
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What FUSE itself adds to a request here; it is subtracted from the device's time.
    pub fn overhead(&self) -> Overhead {
        self.server.overhead()
    }

    /// What the disk has done so far.
    pub fn served(&self) -> Served {
        self.server.served()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.server.leave();
        // Lazily: a client that still has a file open must not keep the mount. If this is refused, the end of the
        // session unmounts with fusermount3.
        let _ = rustix::mount::unmount(&self.dir, UnmountFlags::DETACH);
        drop(self.session.take());
    }
}

/// Unmounts disks whose process was killed: their mounts remain and answer ENOTCONN.
fn clear_dead() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(source), Some(dir)) = (fields.next(), fields.next()) else { continue };
        let dead = || matches!(rustix::fs::statfs(dir), Err(rustix::io::Errno::NOTCONN));
        if source == SOURCE && dead() {
            let _ = rustix::mount::unmount(dir, UnmountFlags::DETACH);
        }
    }
}

/// Measures the path of a request to us and of its answer back at depth 1: the time that a client sees in addition to
/// the time for which the answer was held back.
fn calibrate(server: &Server, dir: &Path) -> Result<Overhead> {
    let path = dir.join(".calibration");
    // On a separate thread, since its priority is raised for good.
    let measured = std::thread::scope(|scope| scope.spawn(|| ways(server, &path)).join());
    fs::remove_file(&path)?;
    measured.map_err(|_| anyhow::anyhow!("the calibration panicked"))?
}

fn ways(server: &Server, path: &Path) -> Result<Overhead> {
    be_real_time();
    let mut how = OpenOptions::new();
    let file = how.read(true).write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut block = [0x5A; 4096];
    let mut tries = [[0; TRIES]; 3];
    for number in 0..TRIES {
        let mut ways = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..ROUNDS as u64 {
            let mut timed = |on: RequestKind, request: &mut dyn FnMut() -> std::io::Result<()>| {
                let begin_ns = monotonic_ns();
                request()?;
                ways[on as usize].push((monotonic_ns() - begin_ns).saturating_sub(server.calibration_ns(on)));
                std::io::Result::Ok(())
            };
            // In the order of a program that commits, since earlier requests affect the cost of a request.
            timed(RequestKind::Write, &mut || file.write_all_at(&[0x5A; 4096], round * 4096))?;
            timed(RequestKind::Flush, &mut || file.sync_data())?;
            timed(RequestKind::Read, &mut || file.read_exact_at(&mut block, round * 4096))?;
        }
        for (of, way) in tries.iter_mut().zip(ways) {
            of[number] = typical(way);
        }
    }
    let [read_ns, write_ns, flush_ns] = tries.map(|mut of| {
        of.sort_unstable();
        of[TRIES / 2]
    });
    Ok(Overhead { read_ns, write_ns, flush_ns })
}

/// The mean of all but the slowest tenth. The mean, since a small addition shifts the percentiles of a wide law by its
/// mean; the slowest are stalls of the machine, which no constant can make up for.
fn typical(mut ways: Vec<u64>) -> u64 {
    ways.sort_unstable();
    ways.truncate(ways.len() - ways.len() / 10);
    ways.iter().sum::<u64>() / ways.len().max(1) as u64
}
