//! `qd1 doctor` on this machine, whatever its settings are.

use crate::common::{Place, json, said};

#[test]
fn json_and_text_show_the_same_advice() {
    let place = Place::new();
    let diagnosis = json(place.qd1(&["doctor", place.dir_str(), "--json"]));
    assert!(diagnosis["rules"].as_u64().unwrap() > 40 && !diagnosis["settings"].as_array().unwrap().is_empty());
    let text = said(&place.qd1(&["doctor", place.dir_str(), "-v"]).output().unwrap().stdout);
    let advice = diagnosis["advice"].as_array().unwrap();
    for advice in advice {
        let rule = advice["rule"].as_str().unwrap();
        assert!(text.contains(rule), "{rule} is not in\n{text}");
        assert!(!advice["sources"].as_array().unwrap().is_empty() && advice["cost"] != "");
    }
    assert_eq!(advice.is_empty(), text.starts_with("Nothing is set up badly"), "{text}");
    place.assert_empty();
}

#[test]
fn only_prose_lines_are_wrapped_and_they_fit() {
    let place = Place::new();
    let text = said(&place.qd1(&["doctor"]).output().unwrap().stdout);
    let is_whole =
        |line: &str| ["https://", "sysctl -w", "ATTR{", "echo ", "mount -o"].iter().any(|part| line.contains(part));
    for line in text.lines().skip(1).filter(|line| !is_whole(line)) {
        assert!(line.chars().count() <= 80, "{line:?} in\n{text}");
    }
}

#[test]
fn the_exit_code_follows_the_severity() {
    let place = Place::new();
    let run = |args: &[&str]| place.qd1(&[&["doctor", place.dir_str(), "--json"], args].concat());
    let found = json(run(&[]))["advice"].as_array().unwrap().clone();
    for (least, severities) in [("info", &["info", "warning", "critical"][..]), ("critical", &["critical"])] {
        let fails = found.iter().any(|advice| severities.contains(&advice["severity"].as_str().unwrap()));
        assert_eq!(
            run(&["--fail-on", least]).output().unwrap().status.code(),
            Some(if fails { 3 } else { 0 }),
            "{least}"
        );
    }
}

#[test]
fn a_place_that_does_not_exist_is_a_usage_error() {
    let place = Place::new();
    let output = place.qd1(&["doctor", "/nonexistent/place"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output.stderr).contains("/nonexistent/place"), "{}", said(&output.stderr));
}

#[test]
fn a_place_without_a_disk_is_called_that() {
    let place = Place::new();
    for path in ["/dev/null", "/proc", "/sys"] {
        let text = said(&place.qd1(&["doctor", path]).output().unwrap().stdout);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("the machine; no disk was looked at"), "{text}");
        assert!(words.contains(&format!("{path}: no disk is below it")), "{text}");
    }
}
