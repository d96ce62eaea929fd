//! Compares `qd1 watch --batch` with iostat and vmstat: all three read the same counters, which the test makes up.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{Place, is_root, or_skip, said};
use qd1_lab::tool;

/// Counters at two moments, drawn from a seed.
struct Drawn {
    disks: Vec<String>,
    random: fastrand::Rng,
}

impl Drawn {
    /// /proc/diskstats at both moments.
    fn diskstats(&mut self) -> [String; 2] {
        let mut texts = [String::new(), String::new()];
        for (minor, name) in self.disks.iter().enumerate() {
            let mut fields = [0u64; 17].map(|_| self.random.u64(1000..1_000_000_000));
            // Nothing is in flight, and some disks are idle.
            fields[8] = 0;
            let is_at_rest = self.random.u8(..) < 30;
            for text in &mut texts {
                let words: Vec<String> = fields.iter().map(u64::to_string).collect();
                let _ = writeln!(text, " 7 {minor} {name} {}", words.join(" "));
                if !is_at_rest {
                    advance(&mut fields, &mut self.random);
                }
            }
        }
        texts
    }

    /// /proc/stat at both moments.
    fn stat(&mut self) -> [String; 2] {
        let mut cpu = [0u64; 10].map(|_| self.random.u64(1000..100_000_000));
        let [mut interrupts, mut switches] = [0u64; 2].map(|_| self.random.u64(1000..100_000_000));
        [(); 2].map(|()| {
            let ticks = cpu.map(|ticks| ticks.to_string()).join(" ");
            let text = format!(
                "cpu  {ticks}\ncpu0 {ticks}\nintr {interrupts} 0\nctxt {switches}\nbtime 1700000000\nprocesses 5\n\
                 procs_running 3\nprocs_blocked 2\nsoftirq 1 0\n"
            );
            // Guest time is included in user and nice, so it stays the same.
            cpu[..8].iter_mut().for_each(|ticks| *ticks += self.random.u64(0..300));
            interrupts += self.random.u64(0..100_000);
            switches += self.random.u64(0..100_000);
            text
        })
    }

    /// /proc/vmstat at both moments: the machine's own, except for the counters that vmstat prints.
    fn vmstat(&mut self) -> [String; 2] {
        let now = fs::read_to_string("/proc/vmstat").unwrap();
        let mut counters = ["pgpgin", "pgpgout", "pswpin", "pswpout"].map(|name| (name, self.random.u64(0..1 << 30)));
        [(); 2].map(|()| {
            let line = |line: &str| {
                let name = line.split(' ').next().unwrap();
                match counters.iter().find(|(counter, _)| *counter == name) {
                    Some((_, value)) => format!("{name} {value}\n"),
                    None => format!("{line}\n"),
                }
            };
            let text = now.lines().map(line).collect();
            counters.iter_mut().for_each(|(_, value)| *value += self.random.u64(0..100_000));
            text
        })
    }
}

/// Advances the counters of requests, merges, sectors and times, in proportions that are typical of disks.
fn advance(fields: &mut [u64; 17], random: &mut fastrand::Rng) {
    for kind in [0, 4, 11] {
        let count = random.u64(0..20_000);
        fields[kind] += count;
        fields[kind + 1] += random.u64(0..=count);
        fields[kind + 2] += count * random.u64(8..256);
        fields[kind + 3] += count * random.u64(1..50);
    }
    let flushes = random.u64(0..500);
    fields[15] += flushes;
    fields[16] += flushes * random.u64(1..50);
    fields[9] += random.u64(0..2000);
    fields[10] += random.u64(0..20_000);
}

/// Equal except for rounding of the last printed digit and, for rates, the length of the interval that each program
/// measured.
fn is_equal(theirs: f64, ours: f64, is_rate: bool) -> bool {
    let of_interval = if is_rate { 0.05 * theirs.abs() } else { 0.0 };
    (theirs - ours).abs() <= 0.0101 + of_interval
}

#[test]
fn disks_and_memory_agree_with_iostat_and_vmstat() {
    if !is_root() {
        or_skip!(Err("mounts need root".to_owned()));
    }
    for peer in ["iostat", "vmstat"] {
        or_skip!(tool(peer, &["-V"]).map_err(|error| format!("{error} (Debian: packages sysstat and procps)")));
    }
    let place = Place::new();
    let dir = place.dir();
    let disks: Vec<String> = (0..20).map(|number| format!("sd{}", char::from(b'a' + number))).collect();
    let mut drawn = Drawn { disks: disks.clone(), random: fastrand::Rng::with_seed(39) };
    let mut files: Vec<(String, [String; 2])> = vec![
        ("diskstats".to_owned(), drawn.diskstats()),
        ("stat".to_owned(), drawn.stat()),
        ("vmstat".to_owned(), drawn.vmstat()),
    ];
    // iostat reads the same fields disk by disk.
    for (at, disk) in disks.iter().enumerate() {
        fs::create_dir_all(dir.join("block").join(disk)).unwrap();
        let fields = |text: &String| {
            let line = text.lines().nth(at).unwrap();
            line.split_once(disk.as_str()).unwrap().1.trim_start().to_owned() + "\n"
        };
        let both = files[0].1.each_ref().map(fields);
        files.push((format!("block/{disk}/stat"), both));
    }
    for (name, [first, _]) in &files {
        fs::write(dir.join(name), first).unwrap();
    }
    // In a private mount namespace, these files replace the counters.
    let script = "for file in diskstats stat vmstat; do mount --bind \"$1/$file\" /proc/$file || exit 9; done
        mount --bind \"$1/block\" /sys/block || exit 9
        LC_ALL=C S_TIME_FORMAT=ISO iostat -x -y 4 1 > \"$1/iostat\" &
        vmstat -y 4 1 > \"$1/vmstat.out\" &
        \"$2\" watch --batch 4 1 -y > \"$1/ours.txt\" &
        \"$2\" watch --batch 4 1 -y --json > \"$1/ours\" & wait";
    let mut command = Command::new("unshare");
    let qd1 = crate::common::qd1();
    command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh", place.dir_str(), qd1]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // In the middle of the interval, all programs have read the first counters and none has read the second.
    std::thread::sleep(Duration::from_secs(2));
    for (name, [_, second]) in &files {
        fs::write(dir.join(name), second).unwrap();
    }
    let output = running.wait_with_output().unwrap();
    if output.status.code() == Some(9) {
        or_skip!(Err(said(&output.stderr)));
    }
    assert!(output.status.success(), "{}", said(&output.stderr));
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let ours: Value = serde_json::from_str(&read("ours")).unwrap();
    compare_with_iostat(&read("iostat"), &ours);
    compare_with_vmstat(&read("vmstat.out"), &ours);
    assert_same_columns(&read("iostat"), &read("ours.txt"));
}

/// Compares every figure of the processors and of each disk.
fn compare_with_iostat(theirs: &str, ours: &Value) {
    let mut lines = theirs.lines();
    lines.find(|line| line.starts_with("avg-cpu:")).expect("its head");
    let shares = lines.next().unwrap().split_ascii_whitespace().map(|word| word.parse::<f64>().unwrap());
    for (name, share) in ["user", "nice", "system", "iowait", "steal", "idle"].into_iter().zip(shares) {
        let our = ours["avg-cpu"][name].as_f64().unwrap();
        assert!(is_equal(share, our, false), "{name}: {share} and {our}\n{theirs}");
    }
    let head = lines.find(|line| line.starts_with("Device")).expect("its head");
    let names: Vec<&str> = head.split_ascii_whitespace().skip(1).collect();
    let mut compared = 0;
    for row in lines.filter(|line| !line.is_empty()) {
        let mut words = row.split_ascii_whitespace();
        let device = words.next().unwrap();
        let disk = ours["disk"].as_array().unwrap().iter().find(|disk| disk["disk_device"] == device);
        let disk = disk.unwrap_or_else(|| panic!("qd1 does not show {device}: {ours:#}"));
        for (name, word) in names.iter().zip(words) {
            // As in iostat's JSON: `%rrqm` is `rrqm`.
            let (key, their) = (name.trim_start_matches('%'), word.parse::<f64>().unwrap());
            let our = disk[key].as_f64().unwrap_or_else(|| panic!("{key}: {disk:#}"));
            let is_rate = name.ends_with("/s") || ["aqu-sz", "%util"].contains(name);
            assert!(is_equal(their, our, is_rate), "{device} {name}: {their} and {our}");
            compared += 1;
        }
    }
    assert!(compared >= names.len(), "{theirs}");
}

fn compare_with_vmstat(theirs: &str, ours: &Value) {
    let mut lines = theirs.lines().skip(1);
    let names = lines.next().unwrap().split_ascii_whitespace();
    for (name, word) in names.zip(lines.next().unwrap().split_ascii_whitespace()) {
        let their = word.parse::<f64>().unwrap();
        let cpu = |name: &str| ours["avg-cpu"][name].as_f64().unwrap();
        let our = match name {
            "r" | "b" => ours["procs"][name].as_f64().unwrap(),
            "si" | "so" | "bi" | "bo" => ours["kib_per_s"][name].as_f64().unwrap(),
            "in" | "cs" => ours[name].as_f64().unwrap(),
            "us" => cpu("user") + cpu("nice"),
            "sy" => cpu("system"),
            "id" => cpu("idle"),
            "wa" => cpu("iowait"),
            "st" => cpu("steal"),
            // The machine's free memory changes from one reading to the next.
            "swpd" | "free" | "buff" | "cache" | "gu" => continue,
            other => panic!("unknown column of vmstat: {other}"),
        };
        // vmstat prints whole numbers, and divides by the requested interval.
        assert!((their - our).abs() <= 1.0 + 0.05 * their, "{name}: {their} and {our}\n{theirs}");
    }
}

/// The headings must have the same names in the same columns.
fn assert_same_columns(theirs: &str, ours: &str) {
    for start in ["avg-cpu:", "Device"] {
        let head = |text: &str| text.lines().find(|line| line.starts_with(start)).map(str::to_owned);
        assert_eq!(head(ours), head(theirs));
    }
}

#[test]
fn invalid_intervals_and_disks_are_refused_with_advice() {
    let place = Place::new();
    let refused = |args: &[&str], what: &str| {
        let output = place.command(&[&["watch"], args].concat()).output().unwrap();
        let error = said(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(what), "{output:?}");
    };
    refused(&["--batch", "0"], "at least 100ms");
    refused(&["--batch", "1", "x"], "a whole number, at least 1");
    refused(&["nosuch", "--batch"], "no such disk or path");
}
