//! Prints docs/method/doctor.md: how the doctor works, and all of its rules. `cargo xtask docs` runs it.

use qd1_analysis::doctor::rules;
use qd1_model::Severity;

const METHOD: &str = "\
# doctor: settings that cost latency or durability

`qd1 doctor [PATH]` reads the machine's settings and applies the rules below. It changes nothing, runs no other
program, takes a fraction of a second and needs no root. What only root may read is listed at the end of its output,
with the reason. Without a path it looks at every mounted filesystem on a disk, with a path only at that one.
Settings of the machine and of programs are looked at in both cases.

Each piece of advice has the value in force, what the next boot makes of it, the cost, a source, the file and the
command that change it, and a way to see what the change does on this machine. Do that before you keep a change:
whether it helps depends on the disk and its neighbours. `--fail-on critical`, `warning` or `info` makes the exit
code 3 if anything that severe is found. `--json` also has all settings that were read; its schema is
[schema-doctor.json](../schema-doctor.json).

## Which file decides after a boot

- `/proc/sys`: the kernel's command line (`sysctl.NAME=`), then the drop-ins of `/etc/sysctl.d`, `/run/sysctl.d`,
  `/usr/local/lib/sysctl.d` and `/usr/lib/sysctl.d`, sorted by name, whatever their directory. Of files with the
  same name, only that of the first of these directories is read. Under systemd, `/etc/sysctl.conf` is read only if
  a link in `sysctl.d` leads to it: Debian 12, Ubuntu and AlmaLinux have one, Debian 13 and Arch do not. Without
  systemd (Alpine), `/etc/sysctl.conf` comes last. Then comes TuneD's profile, and after its section `[sysctl]`,
  unless `reapply_sysctl` is off, `/run/sysctl.d`, `/etc/sysctl.d` and `/etc/sysctl.conf` once more. Of
  `vm.dirty_bytes` and `vm.dirty_ratio`, the one written last is in force, even if the files that set them differ.
  Under systemd, a line replaces an earlier one of the same name; what the kernel refuses changes nothing.
- Queues of disks: udev's rules in their order, then TuneD's `[disk]`. Rules are evaluated with what sysfs shows.
  One that depends on something else (a property, a parent, a program) is reported as one that may apply, and so is
  one that runs a program which mentions the setting.
- Mount options: `/etc/fstab`, then mount units in `/etc/systemd/system`, which do not count for the root. There,
  what `rootflags=` of the kernel's command line sets stays unless `/etc/fstab` names it, and the data mode stays in
  any case. Options that ext4 keeps in its superblock are read from `/proc/fs/ext4`.
- Module parameters: modprobe.d, then the kernel's command line.
- PostgreSQL: `postgresql.conf` with its includes, `postgresql.auto.conf`, the server's command line. MySQL and
  MariaDB: the option files with their includes, then `mysqld-auto.cnf`. etcd: variables, then flags; with a
  configuration file, only that file. Redis and Valkey: the configuration file with its includes, then the command
  line. A running server is looked at only if its user is one of the system, or the one who asks.

A script, unit or cloud-init file that mentions a setting makes the answer \"not sure\": what it does is not known.

## What it does not see

- Settings that a running server was given (`SET GLOBAL`, `CONFIG SET`).
- SQLite: each program sets `PRAGMA synchronous` and `journal_mode` for itself, and no file of the machine shows
  them.
- Properties of ZFS, and queues of encrypted volumes that are set in their header: only other programs show them.
- Alignment inside LVM, interrupts of single queues, and what a hypervisor or a storage network does below the disk.

There is no rule on `none` against mq-deadline on solid-state and virtual disks, on `noatime` against relatime, or
on `vm.swappiness`, since no source settles them for every disk.
";

/// Columns of the page.
const WIDTH: usize = 118;

fn main() {
    println!("{METHOD}");
    println!("## The rules");
    for (severity, title) in
        [(Severity::Critical, "Critical"), (Severity::Warning, "Warning"), (Severity::Info, "Info")]
    {
        println!("\n### {title}\n");
        for rule in rules().filter(|rule| rule.severity == severity) {
            let sources: Vec<String> = rule.sources.iter().map(|source| format!("<{source}>")).collect();
            print_wrapped(&format!(
                "- `{}`: {}. {} Prove it: {}. Source: {}",
                rule.id,
                rule.what,
                rule.cost,
                rule.proof,
                sources.join(", ")
            ));
        }
    }
}

/// Prints an item of a list, its lines broken between words.
fn print_wrapped(text: &str) {
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > WIDTH {
            print!("\n  {word}");
            used = 2 + length;
        } else {
            let gap = if used > 0 { " " } else { "" };
            print!("{gap}{word}");
            used += gap.len() + length;
        }
    }
    println!();
}
