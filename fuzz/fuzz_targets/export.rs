//! What `history import` reads: runs and exports, plain or compressed, damaged in any way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qd1_runs::exports::{self, Content};
use qd1_runs::stored::Stored;

fuzz_target!(|data: &[u8]| {
    match exports::content(Stored::of("file", data.to_vec())) {
        Err(error) => assert!(!format!("{error:#}").is_empty()),
        Ok(Content::Run(record)) => assert!(record.check().is_ok()),
        Ok(Content::Export(export)) => {
            for run in export.runs() {
                match run {
                    Ok(run) => assert!(run.record.check().is_ok()),
                    Err(error) => assert!(!format!("{error:#}").is_empty()),
                }
            }
        }
        Ok(Content::Other(text)) => assert!(text.len() <= 64 << 20),
    }
});
