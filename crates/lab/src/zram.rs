//! Compressed disks in memory.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{Unavailable, need_root, tool};

const CONTROL: &str = "/sys/class/zram-control";

/// One that the kernel created for us alone; removed on drop.
pub struct Zram {
    number: String,
    path: String,
}

impl Zram {
    /// Of this size.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn new(bytes: u64) -> Result<Self, Unavailable> {
        need_root("zram")?;
        let add = format!("{CONTROL}/hot_add");
        let number = fs::read_to_string(&add).with_context(|| format!("cannot read {add}; is there a zram module?"))?;
        let number = number.trim().to_owned();
        let this = Self { path: format!("/dev/zram{number}"), number };
        let size = this.sysfs("disksize");
        fs::write(&size, bytes.to_string()).with_context(|| format!("cannot set {size}"))?;
        Ok(this)
    }

    /// With an ext4 filesystem on it.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn ext4(bytes: u64) -> Result<Self, Unavailable> {
        let this = Self::new(bytes)?;
        tool("mkfs.ext4", &["-q", this.path()])?;
        Ok(this)
    }

    /// Its path.
    pub fn device(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Its path, as text.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn sysfs(&self, name: &str) -> String {
        format!("/sys/block/zram{}/{name}", self.number)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // A child that was just killed may hold the device for a moment.
        for _ in 0..50 {
            let removed = fs::write(self.sysfs("reset"), "1")
                .and_then(|()| fs::write(format!("{CONTROL}/hot_remove"), &self.number));
            if removed.is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("cannot remove {}; do it by hand: echo {} > {CONTROL}/hot_remove", self.path, self.number);
    }
}
