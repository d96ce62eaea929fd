//! A filesystem as a treatment: made on the backing, mounted, and removed again.

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_model::plan::filesystems::FilesystemsPlan;
use qd1_model::record::mounts::MountRecord;
use qd1_system::journal::Change;
use qd1_system::{mounts, tool};

use super::backing::{Backing, Disk};
use super::kinds::Participant;
use super::zfs;
use crate::treatment::{Applied, Treatment, TreatmentSite};

/// One filesystem of a comparison.
pub(super) struct MadeFilesystem<'a> {
    pub(super) participant: &'a Participant,
    pub(super) comparison: &'a FilesystemsPlan,
    pub(super) backing: &'a Backing,
}

impl Treatment for MadeFilesystem<'_> {
    fn name(&self) -> &str {
        &self.participant.name
    }

    fn apply(&self, site: &mut TreatmentSite<'_>, mount: &mut MountRecord) -> Result<Applied> {
        let kind = self.participant.kind;
        let options = kind.options(self.comparison.fair);
        mount.asked_options = options.join(",");
        let is_zfs = kind.name == zfs::NAME;
        if is_zfs {
            zfs::serve(site.scratch, site.journal)?;
        }
        mount.tool = kind.version();
        let Disk { device, loop_direct } = self.backing.disk(site.context.machine, site.journal)?;
        mount.loop_direct = loop_direct;
        let name = device.to_string_lossy().into_owned();
        let mut command = kind.command(&name, loop_direct.is_none().then_some(self.comparison.disk));
        let pool = format!("qd1_{}", site.context.id);
        if is_zfs {
            zfs::complete(&mut command, &pool, &site.dir.to_string_lossy(), &options);
        }
        let with_placeholders = |word: &String| match word {
            word if *word == name => "DEVICE".to_owned(),
            word if Path::new(word) == site.dir => "DIR".to_owned(),
            word if *word == pool => "POOL".to_owned(),
            word => word.clone(),
        };
        mount.commands = vec![command.iter().map(with_placeholders).collect::<Vec<_>>().join(" ")];
        site.journal.note(Change::Mount { point: PathBuf::from(site.dir) })?;
        if is_zfs {
            site.journal.note(Change::Pool { name: pool.clone() })?;
        }
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let done = tool::tool(words[0], &words[1..]);
        self.backing.note_made()?;
        done?;
        if is_zfs {
            mount.properties = zfs::properties(&pool);
        } else {
            mounts::mount(&device, site.dir, kind.name, &options)?;
        }
        let device = device.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Applied { dir: site.dir.to_owned(), device })
    }
}
