//! `qd1 watch` of one disk counts the msyncs of files on it, and no others: the kernel's programs see only an address.

use crate::common::{Place, Running, is_root, msyncs, or_skip, wait_until};
use crate::watch_bios::reports;
use qd1_lab::Mounted;

#[test]
fn an_msync_counts_on_the_disk_of_its_file() {
    if !is_root() {
        or_skip!(Err("it needs root".to_owned()));
    }
    let (here, elsewhere) = (or_skip!(Mounted::ext4("defaults")), or_skip!(Mounted::ext4("defaults")));
    let place = Place::new();
    let start = |disk: &Mounted, name: &str| {
        let file = place.dir().join(name);
        let disk = disk.disk.path();
        let args = ["watch", disk, "--batch", "500ms", "240", "--no-save", "--latencies", "--record"];
        let watch = Running::start(place.command(&[&args[..], &[file.to_str().unwrap()]].concat()));
        wait_until("the first report", || !reports(&file).is_empty());
        (watch, file)
    };
    let ((watch, seen), (other_watch, seen_elsewhere)) = (start(&here, "here"), start(&elsewhere, "elsewhere"));
    msyncs(here.path(), 20);
    let syncs = |file| -> f64 {
        let all = reports(file);
        let processes = all.iter().flat_map(|report| report["processes"].as_array().into_iter().flatten());
        processes.filter(|of| of["comm"] == "fio").filter_map(|of| of["syncs/s"].as_f64()).sum()
    };
    wait_until("the msync is counted", || syncs(&seen) > 0.0);
    let so_far = reports(&seen_elsewhere).len();
    wait_until("two more reports", || reports(&seen_elsewhere).len() >= so_far + 2);
    assert_eq!(syncs(&seen_elsewhere), 0.0, "{:#?}", reports(&seen_elsewhere));
    drop((watch, other_watch));
}
