//! Simulated disks behind FUSE, whose truth is known.

use std::fs;
use std::process::Output;

use qd1_simdisk::{Mounted, Scenario};
use serde_json::Value;
use tempfile::TempDir;

use super::{Place, open_to_all, said};

/// A simulated disk and a place for runs on it. Fields drop in this order: the mount before its directory.
pub(crate) struct Disk {
    pub(crate) mounted: Mounted,
    pub(crate) place: Place,
    pub(crate) scenario: Scenario,
    _dir: TempDir,
}

impl Disk {
    /// The scenario, mounted.
    ///
    /// # Errors
    /// Why FUSE cannot be had.
    pub(crate) fn new(scenario: Scenario) -> Result<Self, String> {
        if let Some(why) = Mounted::unavailable() {
            return Err(why);
        }
        let dir = open_to_all();
        let on = dir.path().join("disk");
        fs::create_dir(&on).unwrap();
        let mounted = Mounted::new(&scenario, &on).expect("FUSE is there, so a disk can be mounted");
        Ok(Self { place: Place::at(&on), mounted, scenario, _dir: dir })
    }

    /// One of the scenarios of `crates/simdisk`.
    ///
    /// # Errors
    /// Why FUSE cannot be had.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        Self::new(Scenario::named(name).unwrap())
    }

    /// A check of it with `args`, in real time: other programs of a busy machine are no part of the disk.
    pub(crate) fn check(&self, args: &[&str]) -> Output {
        self.place.real_time(&[&["check", self.place.dir_str()], args].concat()).output().unwrap()
    }

    pub(crate) fn report(&self, args: &[&str]) -> Value {
        let output = self.check(&[&["--json"], args].concat());
        assert!(output.status.success(), "{}", said(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
