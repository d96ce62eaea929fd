//! `qd1 meta --suite bonnie`: its line is one that bonnie++'s own programs read.

use std::fs;
use std::process::Command;

use crate::common::{Place, skip, test_name};

/// bonnie++'s job, small enough for a test.
const SMALL: [&str; 10] = ["--suite", "bonnie", "--size", "64M", "--ram", "32M", "--files", "8192", "--format", "csv"];

fn bonnie_line(place: &Place) -> String {
    let output = place.on("meta", &[&SMALL[..], &["--quiet"]].concat()).assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn bonnies_own_programs_read_the_line() {
    let test = test_name!();
    let place = Place::new();
    let line = bonnie_line(&place);
    place.assert_empty();
    let kept = place.beside("line.csv");
    fs::write(&kept, &line).unwrap();
    let fields: Vec<&str> = line.trim_end().split(',').collect();
    assert_eq!((fields.len(), fields[0], fields[5], fields[21]), (50, "1.98", "64M", "8"));
    for (program, wanted) in [("bon_csv2html", "</html>"), ("bon_csv2txt", "64M")] {
        let Ok(output) = Command::new(program).stdin(fs::File::open(&kept).unwrap()).output() else {
            return skip(test, &format!("{program} is missing (Debian package bonnie++)"));
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty() && text.contains(wanted), "{output:?}");
        // A latency of ours stands where bonnie++'s would.
        assert!(text.contains(fields[39]), "{program}: {text}");
    }
}
