//! No result takes the place of a file that the command reads or measures, however it came to be named.

use std::fs;
use std::path::Path;

use crate::common::Place;
use crate::common::fio::words;
use crate::common::refusal::refused;
use crate::kept::kept;

/// The command is refused before it measures, and the file stays as it was.
#[track_caller]
fn stays(place: &Place, line: &str, kept: &Path) {
    let before = fs::read(kept).unwrap();
    let output = place.qd1(&words(line)).output().unwrap();
    assert!(fs::read(kept).unwrap() == before, "{line}: the file is another one");
    refused(&output, 2, &["name another file"]);
}

/// Each of them exited with 0, and the runs were gone.
#[test]
fn runs_of_groups_and_what_names_them_otherwise_stay() {
    let place = Place::new();
    let (one, two) = (place.beside("f0.json"), place.beside("f1.json"));
    let json = &kept("check").shown["json"];
    fs::write(&one, json).unwrap();
    fs::write(&two, json).unwrap();
    let (hard, link) = (place.beside("hard.json"), place.beside("link.json"));
    fs::hard_link(&two, &hard).unwrap();
    std::os::unix::fs::symlink(&two, &link).unwrap();
    let prices = place.beside("prices.csv");
    fs::write(&prices, "f0,1\n").unwrap();
    let [one, two, hard, link, prices] = [&one, &two, &hard, &link, &prices].map(|path| path.to_str().unwrap());
    for line in [
        format!("compare --group a={one},{two} b={one} -o {two}"),
        format!("compare --group a={one},{two} b={one} --output={hard}"),
        format!("compare --group a={one}, --group b={two} -o{link}"),
        format!("report {one} {two} -o {two}"),
        format!("plot {two} -o {hard}"),
        format!("history show @latest --thresholds {two} -o {two}"),
    ] {
        stays(&place, &line, Path::new(two));
    }
    let ranked = place.beside("ranked");
    fs::create_dir(&ranked).unwrap();
    stays(&place, &format!("report --ranking {} --prices {prices} -o {prices}", ranked.display()), Path::new(prices));
}

#[test]
fn files_that_a_job_includes_reads_or_writes_stay() {
    let place = Place::new();
    let (job, included, data) = (place.beside("job.fio"), place.beside("inc.fio"), place.beside("dat"));
    fs::write(&included, "size=64k\n").unwrap();
    fs::write(&data, vec![0x5A; 1 << 20]).unwrap();
    fs::write(&job, format!("[j]\nrw=read\nfilename={}\ninclude {}\n", data.display(), included.display())).unwrap();
    let [job_path, included_path, data_path] = [&job, &included, &data].map(|path| path.to_str().unwrap());
    for kept in [included_path, data_path, job_path] {
        for line in [
            format!("run {job_path} -o {kept}"),
            format!("run {job_path} --dry-run -o {kept}"),
            format!("fio --output={kept} {job_path}"),
            format!("fio {job_path} --output {kept}"),
        ] {
            stays(&place, &line, Path::new(kept));
        }
    }
    // One that a job would make, and the report after it.
    let new = place.beside("new");
    let line = format!("fio --name=j --rw=write --size=64k --filename={0} --output={0}", new.display());
    refused(&place.qd1(&words(&line)).output().unwrap(), 2, &["name another file"]);
    assert!(!new.exists());
}

/// What is known only while it is read goes to stdout, and nothing is lost.
#[test]
fn the_file_that_is_measured_stays() {
    let place = Place::new();
    let (data, link) = (place.beside("data"), place.beside("link"));
    fs::write(&data, vec![0x5A; 16 << 20]).unwrap();
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let line = format!("check {} --only read32 --runtime 100ms -o {}", link.display(), data.display());
    stays(&place, &line, &data);
}

/// Cause: after another letter the output was taken for a file that is read.
#[test]
fn an_older_output_is_replaced_also_after_another_letter() {
    let place = Place::new();
    let old = place.beside("old.txt");
    for letters in ["-o", "-vo"] {
        fs::write(&old, "old").unwrap();
        place.qd1(&["check", place.dir_str(), "--dry-run", letters, old.to_str().unwrap()]).assert().success();
        assert!(fs::read_to_string(&old).unwrap().starts_with("plan of check"));
    }
}
