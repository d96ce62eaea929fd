//! Thresholds of one's own: an error, or classes that each have something to decide them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match qd1_suites::thresholds::parse(text) {
        Ok(thresholds) => assert!(thresholds.class.iter().all(|class| !class.criterion.is_empty())),
        Err(error) => assert!(!format!("{error:#}").is_empty()),
    }
});
