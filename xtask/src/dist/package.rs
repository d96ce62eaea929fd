//! The packages: a tarball, .deb, .rpm, and a container image. The same sources give the same bytes: times are those of
//! the commit, the owner is root, names are sorted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_lab::cmd;
use serde_json::{Value, json};

use super::target::Target;
use super::tree::{Entry, lay_out};

const SUMMARY: &str = "Tells you what a disk will feel like to the programs on it, and proves it";
const ABOUT: &str = "qd1 measures commits and single reads, which databases, etcd and web pages wait for, and shows \
                     in a minute what the disk is good for, with the evidence.";
/// The user in a container, who has no name.
const NOBODY: &str = "65532:65532";

/// What all packages of a release have in common.
pub(crate) struct Release {
    pub(crate) version: String,
    /// Seconds since 1970: the commit's.
    pub(crate) epoch: String,
    /// Where they go.
    pub(crate) dir: PathBuf,
}

impl Release {
    /// Makes all packages of a target; returns their files.
    pub(crate) fn make(&self, target: &Target, binary: &Path, common: &[Entry]) -> Result<Vec<PathBuf>> {
        let work = tempfile::tempdir()?;
        let root = work.path().join("root");
        fs::create_dir(&root)?;
        lay_out(common, &root)?;
        let own = Entry { from: binary.to_owned(), to: "usr/bin/qd1".to_owned(), mode: 0o755 };
        lay_out(&[own], &root)?;
        Ok(vec![
            self.tarball(target, &root, work.path())?,
            self.deb(target, &root, work.path())?,
            self.rpm(target, &root, work.path())?,
            self.image(target, binary, work.path())?,
        ])
    }

    /// GNU tar with everything that could differ fixed.
    fn tar(&self) -> std::process::Command {
        let mut tar = cmd::command("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
        tar.arg(format!("--mtime=@{}", self.epoch));
        tar
    }

    fn tarball(&self, target: &Target, root: &Path, work: &Path) -> Result<PathBuf> {
        let name = format!("qd1-{}-{}", self.version, target.triple);
        let dir = work.join(&name);
        fs::create_dir(&dir)?;
        fs::copy(root.join("usr/bin/qd1"), dir.join("qd1"))?;
        let share = root.join("usr/share");
        for (from, to) in [
            ("man/man1", "man"),
            ("doc/qd1", "."),
            ("bash-completion/completions", "completions/bash"),
            ("zsh/vendor-completions", "completions/zsh"),
            ("fish/vendor_completions.d", "completions/fish"),
        ] {
            fs::create_dir_all(dir.join(to))?;
            cmd::capture(cmd::command("cp").arg("-a").arg(share.join(from).join(".")).arg(dir.join(to)))?;
        }
        let (plain, file) = (work.join("plain.tar"), self.dir.join(format!("{name}.tar.gz")));
        cmd::capture(self.tar().arg("-C").arg(work).arg("-cf").arg(&plain).arg(&name))?;
        compress(&plain, &file)?;
        Ok(file)
    }

    fn deb(&self, target: &Target, root: &Path, work: &Path) -> Result<PathBuf> {
        let tree = work.join("deb");
        cmd::capture(cmd::command("cp").arg("-a").arg(root).arg(&tree))?;
        let control = tree.join("DEBIAN");
        fs::create_dir(&control)?;
        let size = cmd::capture(cmd::command("du").args(["-sk", "--apparent-size"]).arg(root))?;
        let size = size.split_whitespace().next().unwrap_or("0").to_owned();
        let text = format!(
            "Package: qd1\nVersion: {}\nArchitecture: {}\nMaintainer: The qd1 authors <qd1@localhost>\nSection: admin\n\
             Priority: optional\nInstalled-Size: {size}\nDescription: {SUMMARY}\n {ABOUT}\n",
            self.version, target.deb
        );
        fs::write(control.join("control"), text)?;
        // Debian's name for the file with the licence.
        fs::copy(cmd::root().join("LICENSE-MIT"), tree.join("usr/share/doc/qd1/copyright"))?;
        let file = self.dir.join(format!("qd1_{}_{}.deb", self.version, target.deb));
        let mut dpkg = cmd::command("dpkg-deb");
        // Every Debian can read xz; one thread, since several may split the file differently.
        dpkg.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(&tree).arg(&file);
        cmd::capture(dpkg.env("SOURCE_DATE_EPOCH", &self.epoch))?;
        Ok(file)
    }

    fn rpm(&self, target: &Target, root: &Path, work: &Path) -> Result<PathBuf> {
        let top = work.join("rpm");
        fs::create_dir(&top)?;
        let spec = top.join("qd1.spec");
        let text = format!(
            "Name: qd1\nVersion: {}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\n\
             AutoReqProv: no\n%global debug_package %{{nil}}\n%global __os_install_post %{{nil}}\n\
             %global _build_id_links none\n%global use_source_date_epoch_as_buildtime 1\n\
             %global clamp_mtime_to_source_date_epoch 1\n%global _buildhost qd1\n%global _binary_payload w6.xzdio\n\
             %description\n{ABOUT}\n%install\ncp -a {}/. %{{buildroot}}/\n%files\n%defattr(-,root,root)\n\
             /usr/bin/qd1\n/usr/share/man/man1/*\n/usr/share/bash-completion/completions/qd1\n\
             /usr/share/zsh/vendor-completions/_qd1\n/usr/share/fish/vendor_completions.d/qd1.fish\n/usr/share/doc/qd1\n",
            self.version,
            root.display()
        );
        fs::write(&spec, text)?;
        let mut build = cmd::command("rpmbuild");
        build.args(["-bb", "--quiet", "--target", target.rpm, "--define"]).arg(format!("_topdir {}", top.display()));
        build.arg("--define").arg("_rpmdir %{_topdir}").arg(&spec).env("SOURCE_DATE_EPOCH", &self.epoch);
        cmd::capture(&mut build)?;
        let name = format!("qd1-{}-1.{}.rpm", self.version, target.rpm);
        let file = self.dir.join(&name);
        fs::copy(top.join(target.rpm).join(&name), &file).with_context(|| format!("rpmbuild did not make {name}"))?;
        Ok(file)
    }

    /// An OCI archive with nothing but the binary, run by nobody: `podman load -i FILE`.
    fn image(&self, target: &Target, binary: &Path, work: &Path) -> Result<PathBuf> {
        let (rootfs, image) = (work.join("rootfs"), work.join("image"));
        let blobs = image.join("blobs/sha256");
        fs::create_dir_all(&blobs)?;
        lay_out(&[Entry { from: binary.to_owned(), to: "qd1".to_owned(), mode: 0o755 }], &rootfs)?;
        // Where a volume is mounted; without a volume, this directory itself is measured.
        fs::create_dir(rootfs.join("data"))?;
        let layer = work.join("layer.tar");
        cmd::capture(self.tar().arg("-C").arg(&rootfs).arg("-cf").arg(&layer).args(["data", "qd1"]))?;
        let (layer_digest, layer_size) = blob(&blobs, &fs::read(&layer)?)?;
        let created =
            cmd::capture(cmd::command("date").args(["-u", "-d"]).arg(format!("@{}", self.epoch)).arg("+%FT%TZ"))?;
        let config = json!({
            "architecture": target.oci,
            "os": "linux",
            "created": created.trim(),
            "config": {
                "User": NOBODY,
                "Entrypoint": ["/qd1"],
                "WorkingDir": "/data",
                "Env": ["QD1_STORE=/data/.qd1-history.db"],
                "Labels": { "org.opencontainers.image.title": "qd1", "org.opencontainers.image.version": self.version },
            },
            "rootfs": { "type": "layers", "diff_ids": [layer_digest] },
            "history": [{ "created": created.trim(), "created_by": "cargo xtask dist" }],
        });
        let (config_digest, config_size) = blob(&blobs, &serde_json::to_vec(&config)?)?;
        let descriptor = |kind: &str, digest: &str, size: u64| json!({ "mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest, "size": size });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &config_digest, config_size),
            "layers": [descriptor("layer.v1.tar", &layer_digest, layer_size)],
        });
        let (digest, size) = blob(&blobs, &serde_json::to_vec(&manifest)?)?;
        let mut top: Value = descriptor("manifest.v1+json", &digest, size);
        top["platform"] = json!({ "architecture": target.oci, "os": "linux" });
        top["annotations"] = json!({ "org.opencontainers.image.ref.name": format!("qd1:{}", self.version) });
        fs::write(image.join("index.json"), serde_json::to_vec(&json!({ "schemaVersion": 2, "manifests": [top] }))?)?;
        fs::write(image.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let file = self.dir.join(format!("qd1-{}-oci-{}.tar", self.version, target.oci));
        cmd::capture(self.tar().arg("-C").arg(&image).arg("-cf").arg(&file).args([
            "blobs",
            "index.json",
            "oci-layout",
        ]))?;
        Ok(file)
    }
}

/// Stores a blob under its digest; returns that and the size.
fn blob(dir: &Path, bytes: &[u8]) -> Result<(String, u64)> {
    let fresh = dir.join("fresh");
    fs::write(&fresh, bytes)?;
    let digest = super::sha256(&fresh)?;
    fs::rename(&fresh, dir.join(&digest))?;
    Ok((format!("sha256:{digest}"), bytes.len() as u64))
}

fn compress(plain: &Path, file: &Path) -> Result<()> {
    cmd::capture(cmd::command("gzip").args(["-9", "-n", "-f"]).arg(plain))?;
    fs::rename(plain.with_extension("tar.gz"), file)
        .or_else(|_| fs::copy(plain.with_extension("tar.gz"), file).map(drop))
        .with_context(|| format!("cannot write {}", file.display()))
}
