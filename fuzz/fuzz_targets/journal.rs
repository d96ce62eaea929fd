//! A journal, as its bytes are and with the checksums that its lines should have: what is not understood is counted, and
//! what another could have written names nothing that qd1 does not make.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qd1_system::journal::{Change, remaining};

fn look(text: &[u8]) {
    let found = remaining(text);
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    assert!(found.made.len() + found.unknown.len() <= lines);
    for change in found.made.iter().filter(|change| change.is_ours()) {
        let path = match change {
            Change::Scratch { dir: path }
            | Change::Loop { file: path }
            | Change::Mount { point: path }
            | Change::Daemon { pidfile: path, .. } => path,
            Change::Pool { name } | Change::Schema { name, .. } => {
                assert!(name.starts_with("qd1"), "{change:?}");
                continue;
            }
            // What is there beside these is compared with, and named by the kernel.
            Change::Segments { .. } => continue,
        };
        assert!(path.to_string_lossy().contains(".qd1-scratch-"), "{change:?}");
        let steps_out = path.components().any(|part| part == std::path::Component::ParentDir);
        assert!(!steps_out, "{change:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    look(data);
    let mut text = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        text.extend(format!("{:08x} ", crc32c::crc32c(line)).into_bytes());
        text.extend([line, b"\n"].concat());
    }
    look(&text);
});
