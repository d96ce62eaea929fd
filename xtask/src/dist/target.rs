//! The architectures that qd1 is built for, and how.

use std::path::PathBuf;

use anyhow::Result;
use qd1_lab::cmd;

use crate::tools::{ZIG, ZIGBUILD};
use crate::{metadata, setup};

/// An architecture, by its various names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    pub(crate) deb: &'static str,
    pub(crate) rpm: &'static str,
    pub(crate) oci: &'static str,
}

/// All of them; the first is CI's.
pub(crate) const TARGETS: [Target; 2] = [
    Target { triple: setup::MUSL, deb: "amd64", rpm: "x86_64", oci: "amd64" },
    Target { triple: "aarch64-unknown-linux-musl", deb: "arm64", rpm: "aarch64", oci: "arm64" },
];

impl Target {
    /// Builds the binary; fails if it is not as promised.
    pub(crate) fn build(&self) -> Result<PathBuf> {
        if self.triple == setup::MUSL {
            return super::build_binary();
        }
        setup::add_target(self.triple)?;
        ZIG.install()?;
        ZIGBUILD.install()?;
        let mut build = ZIGBUILD.command()?;
        build.args(["zigbuild", "--release", "--target", self.triple, "--package", "qd1", "--bin", "qd1"]);
        build.env("CARGO_ZIGBUILD_ZIG_PATH", ZIG.dir()?.join("ziglang/zig"));
        cmd::run(&mut build)?;
        super::as_promised(metadata::target_dir()?.join(self.triple).join("release/qd1"))
    }
}
