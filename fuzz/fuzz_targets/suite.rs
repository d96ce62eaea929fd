//! A suite of one's own: an error that names the file, or a plan for a disk that has room for it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qd1_engine::backing::{DirectIo, PathKind};
use qd1_model::Bytes;
use qd1_model::environment::Filesystem;
use qd1_model::spec::{Effort, Spec};
use qd1_runner::place::Place;

fn place() -> Place {
    let filesystem = Filesystem { size: Bytes(1 << 40), available: Bytes(1 << 40), ..Filesystem::default() };
    let direct = DirectIo { supported: true, align: 512 };
    Place { path: "/disk".into(), kind: PathKind::Directory, filesystem, direct, leave_free: None }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let suite = match qd1_suites::parse("own.toml", text) {
        Ok(suite) => suite,
        Err(problem) => return assert!(problem.to_string().starts_with("own.toml")),
    };
    for effort in [Effort::Quick, Effort::Full] {
        let _ = qd1_suites::longest_ns(&suite, effort);
        let spec = Spec {
            suite: suite.clone(),
            path: "/disk".into(),
            effort,
            size: None,
            runtime_ns: None,
            only: Vec::new(),
            engine: None,
            seed: None,
            destroy: None,
            with_load: effort == Effort::Full,
            over_ns: None,
        };
        match qd1_runner::plan::decide(&spec, &place(), 7) {
            Ok(plan) => {
                assert!(!plan.steps.is_empty());
                let _ = (plan.space_max(), serde_json::to_string(&plan).expect("a plan is kept as JSON"));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
