//! The commands that the campaign runs, each as short as it can be.

/// A command and what it needs.
#[derive(Debug)]
pub(super) struct Tested {
    pub(super) name: &'static str,
    /// `DIR` stands for the directory to measure, `BESIDE` for one that holds the files that it reads.
    pub(super) words: &'static [&'static str],
    /// It measures, and keeps what it measured under the id that its JSON has.
    pub(super) keeps: bool,
    pub(super) needs_root: bool,
    /// It runs BESIDE/job.fio, which leaves a file.
    pub(super) is_job: bool,
    /// A program that has to be there.
    pub(super) program: Option<&'static str>,
    /// A run that was killed has left its files, for this command to remove.
    pub(super) finds_leftovers: bool,
    /// Its usual time, s, in which faults come.
    pub(super) usual_s: f64,
}

const fn measuring(name: &'static str, words: &'static [&'static str]) -> Tested {
    Tested {
        name,
        words,
        keeps: true,
        needs_root: false,
        is_job: false,
        program: None,
        finds_leftovers: false,
        usual_s: 1.5,
    }
}

pub(super) static COMMANDS: [Tested; 20] = [
    measuring("check", &["check", "DIR", "--size", "32MiB", "--runtime", "60ms", "--json", "--quiet"]),
    measuring("run suite", &["run", "etcd-wal", "DIR", "--size", "64MiB", "--runtime", "300ms", "--json", "--quiet"]),
    Tested { is_job: true, ..measuring("run job", &["run", "BESIDE/job.fio", "DIR", "--json", "--quiet"]) },
    Tested {
        keeps: false,
        is_job: true,
        ..measuring("fio", &["fio", "BESIDE/job.fio", "--directory=DIR", "--output-format=json", "--unlink=1"])
    },
    measuring("sweep", &["sweep", "DIR", "--size", "32MiB", "--runtime", "30ms", "--quick", "--json", "--quiet"]),
    measuring("limits", &["limits", "DIR", "--size", "32MiB", "--json", "--quiet"]),
    measuring("meta", &["meta", "DIR", "--files", "3000", "--json", "--quiet"]),
    measuring(
        "meta bonnie",
        &["meta", "DIR", "--suite", "bonnie", "--files", "1024", "--size", "16MiB", "--ram", "0", "--json", "--quiet"],
    ),
    measuring("sync", &["sync", "DIR", "--runtime", "40ms", "--json", "--quiet"]),
    Tested { keeps: false, ..measuring("ping", &["ping", "DIR", "-c", "300", "-i", "3ms", "--size", "4k"]) },
    measuring("identify", &["identify", "DIR", "--size", "32MiB", "--runtime", "60ms", "--json", "--quiet"]),
    measuring("app sqlite", &["app", "sqlite", "DIR", "--runtime", "300ms", "--json", "--quiet"]),
    Tested {
        program: Some("etcd"),
        ..measuring("app etcd", &["app", "etcd", "DIR", "--rate", "50", "--runtime", "1s", "--json", "--quiet"])
    },
    Tested {
        program: Some("db_bench"),
        ..measuring(
            "app rocksdb",
            &[
                "app",
                "rocksdb",
                "DIR",
                "--num",
                "5000",
                "--benchmarks",
                "fillseq,fillsync",
                "--runtime",
                "500ms",
                "--json",
                "--quiet",
            ],
        )
    },
    Tested {
        program: Some("sysbench"),
        ..measuring(
            "app sysbench",
            &["app", "sysbench", "DIR", "--mode", "rndrw", "--size", "64MiB", "--runtime", "1s", "--json", "--quiet"],
        )
    },
    Tested {
        program: Some("initdb"),
        ..measuring(
            "app postgres",
            &["app", "postgres", "DIR", "--scale", "1", "--clients", "2", "--runtime", "1s", "--json", "--quiet"],
        )
    },
    Tested {
        needs_root: true,
        program: Some("mkfs.ext4"),
        ..measuring(
            "filesystems",
            &[
                "filesystems",
                "DIR",
                "--only",
                "ext4",
                "--rounds",
                "2",
                "--size",
                "16MiB",
                "--disk",
                "200MiB",
                "--runtime",
                "200ms",
                "--steps",
                "read,commit1,files",
                "--json",
                "--quiet",
            ],
        )
    },
    measuring("predict", &["predict", "DIR", "--verify=sqlite", "--quick", "--runtime", "100ms", "--json", "--quiet"]),
    Tested { keeps: false, ..measuring("history", &["history", "--json"]) },
    Tested { keeps: false, finds_leftovers: true, usual_s: 0.03, ..measuring("restore", &["restore"]) },
];
