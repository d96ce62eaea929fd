//! A kept run that something damaged: it is refused, or analysed and shown in every format.
//!
//! The input is the record's JSON, so that the fuzzer changes what it says; as a blob it is read too.
#![no_main]

use std::io::Write as _;

use flate2::{Compression, write::ZlibEncoder};
use libfuzzer_sys::fuzz_target;
use qd1_report::{Detail, Format, Style, render};

fuzz_target!(|data: &[u8]| {
    let _ = qd1_store::unpack(data, "0.1.0");
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(data).unwrap();
    let Ok(record) = qd1_store::unpack(&zlib.finish().unwrap(), "0.1.0") else { return };
    let report = qd1_analysis::analyse(record, &qd1_suites::thresholds::builtin());
    for format in [Format::Human, Format::Json, Format::Ndjson, Format::Csv, Format::Markdown, Format::Post] {
        assert!(!render(&report, format, &Style { color: false, width: 80, detail: Detail::All }).is_empty());
    }
});
