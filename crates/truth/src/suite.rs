//! What all procedures on virtual disks begin with: the jobs of a suite, and a Record without steps.

use qd1_model::environment::Environment;
use qd1_model::plan::{Plan, TargetKind, TargetPlan};
use qd1_model::spec::Job;
use qd1_model::{Bytes, Record, SCHEMA_VERSION, Subject};

/// The table of a suite that comes with qd1.
pub(crate) fn table(text: &str) -> toml::Table {
    text.parse().expect("the suite is TOML, or the application's tests fail")
}

/// The jobs of a suite, none of which has to be expanded.
pub(crate) fn jobs(suite: &toml::Table) -> Vec<Job> {
    suite["job"].clone().try_into().expect("the suite's keys are those of a job")
}

/// A Record without steps, of a directory whose test file has this size.
pub(crate) fn record(name: &str, subject: Subject, size: Bytes, environment: Environment) -> Record {
    let target = TargetPlan {
        path: "/mnt".into(),
        kind: TargetKind::Directory,
        filesystem: "ext4".to_owned(),
        size,
        direct: true,
        align: 512,
        prepare_max_ns: 0,
    };
    let plan = Plan {
        suite: name.to_owned(),
        subject,
        target,
        steps: Vec::new(),
        skipped: Vec::new(),
        seed: 1,
        criteria: Vec::new(),
        sweep: None,
        filesystems: None,
        prediction: None,
    };
    Record {
        schema_version: SCHEMA_VERSION,
        id: "0123456789ab".to_owned(),
        version: String::new(),
        command: Vec::new(),
        started_unix_ns: 0,
        elapsed_ns: 0,
        interrupted: false,
        plan,
        environment,
        prepare: None,
        app: None,
        steps: Vec::new(),
        mounts: Vec::new(),
        programs: Vec::new(),
    }
}
