//! What others wrote to drive fio and to read it has to work unchanged with us in fio's place: bench-fio and fio-plot,
//! fio's own converter of latencies, and the lines of shell in popular scripts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::apps::program as program_at;
use crate::common::{self, Place, find, float, int, list, or_skip, skip, test_name};

/// A place where `fio` is our binary.
struct Bench {
    place: Place,
    bin: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let place = Place::quiet();
        let bin = place.beside("bin");
        fs::create_dir(&bin).unwrap();
        symlink(common::qd1(), bin.join("fio")).unwrap();
        Self { place, bin }
    }

    fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// A command that starts in the directory to measure and finds us as `fio`.
    fn command(&self, program: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.bin.clone()).chain(std::env::split_paths(&path));
        let mut command = Command::new(program);
        command.current_dir(self.dir()).env("PATH", std::env::join_paths(path).unwrap());
        command.env("QD1_STORE", self.place.history()).env("LC_ALL", "C.UTF-8");
        command
    }

    /// Python with the packages of `cargo xtask setup`.
    fn python(&self, args: &[&str]) -> Command {
        let mut python = self.command("python3");
        // matplotlib lists the machine's fonts once; the next run finds the list.
        python.env("MPLCONFIGDIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("matplotlib"));
        python.env("MPLBACKEND", "Agg").env("PYTHONDONTWRITEBYTECODE", "1").args(args);
        if let Some(packages) = std::env::var_os("QD1_PYTHON_PACKAGES") {
            python.env("PYTHONPATH", packages);
        }
        python
    }

    /// Runs lines of shell as a script holds them; what they print.
    #[track_caller]
    fn shell(&self, script: &str) -> String {
        printed(self.command("bash").args(["-ec", &format!("set -o pipefail\n{script}")]))
    }
}

/// What a command that has to succeed prints.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Where a program is.
fn has(program: &str, package: &str) -> Result<PathBuf, String> {
    program_at(program).ok_or_else(|| format!("{program} is not installed (Debian: package {package})"))
}

fn read_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether bench-fio and fio-plot are there, and what runs them.
fn has_fio_plot() -> Result<(), String> {
    if std::env::var_os("QD1_PYTHON_PACKAGES").is_none() {
        return Err(
            "QD1_PYTHON_PACKAGES names no directory with fio-plot, which `cargo xtask setup` installs".to_owned()
        );
    }
    has("python3", "python3").map(drop)
}

/// Lets bench-fio run its benchmarks with us as fio; the directory of what it wrote for `block`-sized requests.
#[track_caller]
fn bench_fio(bench: &Bench, target: &Path, output: &str, args: &[&str]) -> PathBuf {
    let name = target.file_name().unwrap().to_str().unwrap();
    let mut command = bench.python(&["-m", "bench_fio", "--type", "file", "--size", "8M", "--target", name]);
    command.args(["--runtime", "1", "--time-based", "--destructive", "--loginterval", "100", "--quiet"]);
    printed(command.args(["--output", output]).args(args));
    // It leaves its job file in a directory of its own choice.
    let _ = fs::remove_file(format!("/tmp/{name}-tmpjobfile.fio"));
    bench.dir().join(output).join(name)
}

/// As [`bench_fio`], whose figures have to be there: of each (directory, mode, sides) of `parts` and each (depth,
/// jobs). A second may lie in a stall of the machine; it does not three times.
#[track_caller]
fn measured(
    bench: &Bench,
    target: &Path,
    output: &str,
    args: &[&str],
    parts: &[(&str, &str, &[&str])],
    loads: [(usize, usize); 2],
) -> PathBuf {
    let mut missing = Vec::new();
    for number in 1..=3 {
        let all = bench_fio(bench, target, &format!("{output}-{number}"), args);
        missing.clear();
        for ((part, mode, sides), (depth, numjobs)) in parts.iter().flat_map(|part| loads.map(|load| (part, load))) {
            let directory = all.join(part);
            let report = read_json(&directory.join(format!("{mode}-{depth}-{numjobs}.json")));
            let jobs = list(&report["jobs"]);
            assert_eq!(jobs.len(), numjobs);
            assert_eq!(jobs[0]["job options"]["iodepth"], depth.to_string());
            if !jobs.iter().all(|job| sides.iter().all(|side| float(&job[*side]["iops"]) > 0.0)) {
                missing.push(report.to_string());
            }
            for kind in ["bw", "iops", "lat", "clat", "slat"] {
                let log = directory.join(format!("{mode}-iodepth-{depth}-numjobs-{numjobs}_{kind}.{numjobs}.log"));
                let lines = fs::read_to_string(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
                if lines.lines().count() < 2 {
                    missing.push(format!("{}: {lines}", log.display()));
                }
            }
        }
        if missing.is_empty() {
            return all;
        }
    }
    panic!("{}", missing.join("\n"));
}

/// Prints how many percent of a picture's pixels are coloured: neither white paper nor black or grey text.
const COLOURED: &str = "
import sys
from PIL import Image
for name in sys.argv[1:]:
    image = Image.open(name).convert('HSV')
    share = sum(image.getchannel('S').histogram()[100:]) * 100.0 / (image.width * image.height)
    print(name, image.width, image.height, share)
";

/// Draws each graph of fio-plot's and holds the picture to the share of its pixels that has to be coloured.
#[track_caller]
fn assert_drawn(bench: &Bench, graphs: &[(&str, &Path, &str, f64)]) {
    let draw = |(name, directory, args, _): &(&str, &Path, &str, f64)| {
        let mut plot = bench.python(&["-m", "fio_plot", "-T", name, "-o", &format!("{name}.png"), "-i"]);
        let said = printed(plot.arg(directory).args(args.split(' ')));
        assert!(said.contains("Saving to file"), "{name}: {said}");
    };
    for pair in graphs.chunks(2) {
        std::thread::scope(|scope| pair.iter().for_each(|graph| drop(scope.spawn(|| draw(graph)))));
    }
    let files: Vec<String> = graphs.iter().map(|(name, ..)| format!("{name}.png")).collect();
    let measured = printed(bench.python(&["-c", COLOURED]).args(&files));
    for (line, (name, _, _, least)) in measured.lines().zip(graphs) {
        let figures: Vec<f64> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
        assert!(figures[0] > 900.0 && figures[1] > 500.0, "{line}");
        assert!(figures[2] > *least, "{name} is all but empty: {line}");
        assert!(fs::metadata(bench.dir().join(format!("{name}.png"))).unwrap().len() > 20_000, "{name}");
    }
    assert_eq!(measured.lines().count(), graphs.len());
}

#[test]
fn bench_fio_drives_us_and_fio_plot_draws_what_came_out() {
    or_skip!(has_fio_plot());
    let bench = Bench::new();
    // bench-fio names a file after it in a directory that all share.
    let root = bench.bin.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let target = bench.dir().join(format!("{}-target", root.trim_start_matches('.')));
    fs::write(&target, vec![0x5a; 8 << 20]).unwrap();

    let modes = ["--mode", "randread", "randwrite", "--iodepth", "1", "4", "--numjobs", "1"];
    let [reads, writes, both]: [&[&str]; 3] = [&["read"], &["write"], &["read", "write"]];
    let of_plain = [("4k", "randread", reads), ("4k", "randwrite", writes)];
    let plain = measured(&bench, &target, "plain", &modes, &of_plain, [(1, 1), (4, 1)]).join("4k");
    // Its other switches end up as options too.
    let mixed = ["--mode", "randrw", "--rwmixread", "75", "50", "--iodepth", "2", "--numjobs", "1", "2", "--engine"];
    let extra = ["io_uring", "--extra-opts", "norandommap=1", "refill_buffers=1"];
    let of_mixed = ["randrw75/4k", "randrw50/4k"].map(|share| (share, "randrw", both));
    let mixed = [&mixed[..], &extra].concat();
    let mixed = measured(&bench, &target, "mixed", &mixed, &of_mixed, [(2, 1), (2, 2)]);
    let (three, half) = (mixed.join("randrw75/4k"), mixed.join("randrw50/4k"));
    // The job file of the precondition has a size of `100%%`; each of its two loops writes all of the file.
    let steady = ["--mode", "write", "--iodepth", "8", "--numjobs", "1", "--direct", "0", "--precondition"];
    let until = ["--ss", "iops:1%", "--ss-dur", "5"];
    let steady = bench_fio(&bench, &target, "steady", &[&steady[..], &until].concat());
    assert_eq!(read_json(&steady.join("1m/run-1/write-64-1.json"))["jobs"][0]["write"]["io_bytes"], 16 << 20);
    assert_eq!(read_json(&steady.join("4k/write-8-1.json"))["jobs"][0]["steadystate"]["duration"], 5);

    let compared = format!("{} -C -d 2 -n 2 -r randrw -f write", half.display());
    assert_drawn(
        &bench,
        &[
            ("latency-bars", &plain, "-l -d 1 4 -n 1 -r randread --show-cpu", 10.0),
            ("bars-of-jobs", &three, "-N -d 2 -n 1 2 -r randrw -f read --show-data", 10.0),
            ("histogram", &plain, "-H -d 4 -n 1 -r randread", 0.5),
            ("log-graph", &plain, "-g -t iops lat bw -d 1 4 -n 1 -r randread", 0.5),
            ("log-of-mixed", &half, "-g -t iops clat -d 2 -n 2 -r randrw", 0.3),
            ("three-axes", &plain, "-L -t iops -r randwrite", 1.0),
            ("comparison", &three, &compared, 10.0),
        ],
    );
}

/// Several jobs with all that is in a json+ report: three directions, three kinds of latency.
const LATENCIES: &[&str] = &[
    "--output-format=json+",
    "--output=report.json",
    "--filename=data",
    "--size=4m",
    "--ioengine=libaio",
    "--iodepth=4",
    "--slat_percentiles=1",
    "--clat_percentiles=1",
    "--lat_percentiles=1",
    "--name=mixed",
    "--rw=randrw",
    "--name=reads",
    "--rw=read",
    "--bs=16k",
    "--name=writes",
    "--rw=randwrite",
    "--bs=8k",
];

/// The columns of a CSV file of the converter: of each kind of latency ns, count, sum so far, share so far.
fn columns(csv: &str) -> BTreeMap<String, Vec<(u64, u64, u64, f64)>> {
    let mut lines = csv.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').map(str::trim).collect();
    let mut columns = BTreeMap::<String, Vec<_>>::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let ns = cells[0].parse().unwrap();
        for (at, head) in heads.iter().enumerate() {
            let Some(kind) = head.strip_suffix("_count").filter(|_| !cells[at].is_empty()) else { continue };
            let (count, sum) = (cells[at].parse().unwrap(), cells[at + 1].parse().unwrap());
            columns.entry(kind.to_owned()).or_default().push((ns, count, sum, cells[at + 2].parse().unwrap()));
        }
    }
    columns
}

/// Holds what the converter wrote of one job to the job's report. How many kinds of latency it compared.
#[track_caller]
fn assert_rebuilt(job: &Value, csv: &str) -> usize {
    let mut columns = columns(csv);
    let mut compared = 0;
    for direction in ["read", "write", "trim"] {
        for kind in ["slat_ns", "clat_ns", "lat_ns"] {
            let latency = &job[direction][kind];
            let rows = columns.remove(&format!("{direction}_{kind}")).unwrap_or_default();
            let bins: BTreeMap<u64, u64> = latency["bins"].as_object().map_or_else(BTreeMap::new, |bins| {
                bins.iter().map(|(ns, count)| (ns.parse().unwrap(), int(count))).collect()
            });
            let rebuilt: BTreeMap<u64, u64> = rows.iter().map(|row| (row.0, row.1)).collect();
            assert_eq!(rebuilt, bins, "{direction} {kind}");
            if bins.is_empty() {
                continue;
            }
            let total = int(&latency["N"]);
            let mut sum = 0;
            for (ns, count, so_far, share) in &rows {
                sum += count;
                assert_eq!((*so_far, *share), (sum, sum as f64 / total as f64), "{direction} {kind} at {ns} ns");
            }
            assert_eq!(sum, total, "{direction} {kind}");
            // A percentile is the first bin that so many requests reach.
            for (percent, value) in latency["percentile"].as_object().unwrap() {
                let share = percent.parse::<f64>().unwrap() / 100.0 * total as f64;
                let first = rows.iter().find(|row| row.2 as f64 >= share).unwrap();
                assert_eq!(first.0, int(value), "{direction} {kind} {percent}");
            }
            compared += 1;
        }
    }
    assert!(columns.is_empty(), "more than was reported: {columns:?}");
    compared
}

#[test]
fn fios_converter_rebuilds_our_bins_exactly_and_fios_own() {
    or_skip!(has("python3", "python3").and(has("fio", "fio")));
    let converter = or_skip!(has("fio_jsonplus_clat2csv", "fio"));
    let bench = Bench::new();
    if !bench.python(&["-c", "import six"]).output().unwrap().status.success() {
        return skip(
            test_name!(),
            "python3 has no six, which fio_jsonplus_clat2csv imports; `cargo xtask setup` installs it",
        );
    }
    let path = std::env::var_os("PATH").unwrap();
    let converter = converter.to_str().unwrap();
    // Theirs is the control: the same comparison has to hold for it.
    for ours in [true, false] {
        let mut fio = bench.command("fio");
        if !ours {
            fio.env("PATH", &path);
        }
        printed(fio.args(LATENCIES));
        let report = read_json(&bench.dir().join("report.json"));
        assert_eq!(report["fio version"].as_str().unwrap().contains("qd1"), ours);
        printed(&mut bench.python(&[converter, "report.json", "report.csv"]));
        let validated = printed(&mut bench.python(&[converter, "report.json", "report.csv", "--validate"]));
        assert_eq!(validated.matches("validated").count(), 3, "{validated}");
        let kinds: Vec<usize> = (0..3)
            .map(|job| {
                let csv = fs::read_to_string(bench.dir().join(format!("report_job{job}.csv"))).unwrap();
                assert_rebuilt(&report["jobs"][job], &csv)
            })
            .collect();
        assert_eq!(kinds, [6, 3, 3], "ours: {ours}");
    }
}

#[test]
fn scripts_read_rates_out_of_the_terse_and_normal_reports() {
    let bench = Bench::new();
    // Yet Another Bench Script: these options, and these fields of the terse line.
    let fields = bench.shell(
        "run() { fio --name=$1 --ioengine=libaio --rw=$2 --rwmixread=50 --bs=4k --iodepth=64 --numjobs=2 --size=8M \
         --runtime=3 --gtod_reduce=1 --direct=1 --filename=test.fio --group_reporting --minimal; }
         run setup read > setup.txt 2>&1
         LINE=$(run rand_rw_4k randrw 2> /dev/null | grep rand_rw_4k)
         echo \"$LINE\" | awk -F';' '{print $8, $49, $7, $48}'",
    );
    let fields: Vec<f64> = fields.split_whitespace().map(|field| field.parse().unwrap()).collect();
    for (iops, kib) in [(fields[0], fields[2]), (fields[1], fields[3])] {
        assert!(iops > 0.0 && (kib - 4.0 * iops).abs() <= 4.0, "{fields:?}");
    }
    // dbench, much used in Kubernetes: words out of the report for people.
    let words = bench.shell(
        "REPORT=$(fio --randrepeat=0 --verify=0 --ioengine=libaio --direct=1 --gtod_reduce=1 --name=read_iops \
         --filename=test.fio --bs=4K --iodepth=64 --size=8M --readwrite=randread --time_based --ramp_time=0s \
         --runtime=3s)
         echo \"$REPORT\" | grep -E 'read ?:' | grep -Eoi 'IOPS=[0-9k.]+' | cut -d'=' -f2
         echo \"$REPORT\" | grep -E 'read ?:' | grep -Eoi 'BW=[0-9GMKiBs/.]+' | cut -d'=' -f2
         LATENCY=$(fio --randrepeat=0 --verify=0 --ioengine=libaio --direct=1 --name=read_latency \
         --filename=test.fio --bs=4K --iodepth=4 --size=8M --readwrite=randread)
         echo \"$LATENCY\" | grep ' lat.*avg' | grep -Eoi 'avg=[0-9.]+' | cut -d'=' -f2",
    );
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(words.len(), 3, "{words:?}");
    assert!(words[0].trim_end_matches('k').parse::<f64>().unwrap() > 0.0, "{words:?}");
    assert!(words[1].ends_with("iB/s"), "{words:?}");
    assert!(words[2].parse::<f64>().unwrap() > 0.0, "{words:?}");
}

#[test]
fn scripts_read_latencies_and_rates_with_jq() {
    or_skip!(has("jq", "jq"));
    let bench = Bench::new();
    // The check of a disk for etcd, as its manual has it: the 99th percentile of fdatasync.
    let p99 = bench.shell(
        "fio --rw=write --ioengine=sync --fdatasync=1 --directory=. --size=230k --bs=2300 --name=mytest \
         --output-format=json --output=etcd.json
         jq '.jobs[0].sync.lat_ns.percentile[\"99.000000\"]' etcd.json",
    );
    assert!(p99.trim().parse::<u64>().unwrap() > 0, "{p99}");
    let rates = bench.shell(
        "fio --output-format=json --size=1M --rw=randrw --filename=data --name=a --name=b > rates.json
         jq '.jobs[].read.iops, .jobs[].write.iops' rates.json
         jq -r '.jobs[] | [.jobname, .read.bw, .write.bw, .read.clat_ns.mean] | @tsv' rates.json",
    );
    let rates: Vec<&str> = rates.lines().collect();
    assert_eq!(rates.len(), 6, "{rates:?}");
    assert!(rates[..4].iter().all(|rate| rate.parse::<f64>().unwrap() > 0.0), "{rates:?}");
    assert!(rates[4].starts_with("a\t") && rates[5].starts_with("b\t"), "{rates:?}");
    // Some cut the document out of what else was printed, by its first and last line.
    let cut =
        bench.shell("fio --name=c --output-format=json --size=64k --filename=data | sed -n '/^{$/,/^}$/p' | jq .");
    let cut: Value = serde_json::from_str(&cut).unwrap();
    assert_eq!(int(&find(&cut["jobs"], "jobname", "c")["read"]["io_bytes"]), 65536);
}

/// Prometheus' own reader takes `--format openmetrics`, strictly after the specification: families whole, buckets rising, a
/// sum with each count, units in names. Cause of the second reader: node_exporter refused the whole file for its types.
#[test]
fn prometheus_reads_openmetrics() {
    const READ: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
from prometheus_client.parser import text_string_to_metric_families as read_plain
text = sys.stdin.read()
families = {family.name: family for family in read(text)}
# node_exporter reads the older format, which knows fewer types and refuses the others.
plain = [family.type for family in read_plain(text)]
assert set(plain) <= {'gauge', 'counter', 'summary', 'histogram'}, plain
kinds = {line.split()[3] for line in text.splitlines() if line.startswith('# TYPE')}
assert kinds <= {'gauge', 'counter', 'summary', 'histogram', 'untyped'}, kinds
commits = {'step': 'commit1', 'op': 'commit'}
def of(family, name):
    return [[sample.labels, sample.value] for sample in families[family].samples
            if sample.name == name and commits.items() <= sample.labels.items()]
print(json.dumps({
    'types': {name: family.type for name, family in families.items()},
    'sum': of('qd1_latency_seconds', 'qd1_latency_seconds_sum')[0][1],
    'count': of('qd1_latency_distribution_seconds', 'qd1_latency_distribution_seconds_count')[0][1],
}))
";
    let bench = Bench::new();
    or_skip!(has_fio_plot());
    let report = qd1_report::samples::slow_vps();
    let record = bench.place.beside("record.json");
    fs::write(&record, serde_json::to_vec(&report.record).unwrap()).unwrap();
    bench.place.qd1(&["history", "import", record.to_str().unwrap()]).assert().success();
    let text = bench.place.qd1(&["history", "show", &report.record.id, "--format", "openmetrics"]).output().unwrap();
    assert!(text.status.success());
    let file = bench.place.beside("qd1.prom");
    fs::write(&file, &text.stdout).unwrap();
    let mut python = bench.python(&["-c", READ]);
    let read: Value = serde_json::from_str(&printed(python.stdin(fs::File::open(&file).unwrap()))).unwrap();
    for (name, kind) in [("qd1_latency_seconds", "summary"), ("qd1_run_info", "gauge"), ("qd1_verdict", "gauge")] {
        assert_eq!(read["types"][name], kind, "{read}");
    }
    let commits = report.record.step("commit1").unwrap().stream(qd1_model::OpClass::Commit).unwrap();
    assert_eq!(float(&read["count"]) as u64, commits.lat.count());
    assert!((float(&read["sum"]) / (commits.lat.sum_ns() as f64 / 1e9) - 1.0).abs() < 1e-9, "{read}");
}
