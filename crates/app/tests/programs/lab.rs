//! The whole binary on another kernel and on devices that this machine lacks: the short form of `cargo xtask lab`, one
//! boot of a virtual machine. Its scenarios, and what has to come of them, are in `crates/lab/scenarios`.

use std::process::Command;

use crate::common::{self, test_name};

#[test]
fn on_another_kernel_each_device_is_as_its_scenario_says() {
    let test = test_name!();
    let Some(xtask) = std::env::var_os("QD1_XTASK") else {
        return common::skip(test, "the lab is started by cargo xtask test");
    };
    // Each scenario has a limit, but many of them together could take hours. SIGTERM also ends the emulated machine.
    let mut lab = Command::new("timeout");
    lab.args(["-k", "30", "1200"]).arg(xtask).args(["lab", "--short", "--binary", common::qd1()]);
    let output = lab.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some(why) = said.lines().find_map(|line| line.strip_prefix("SKIPPED: ")) {
        return common::skip(test, why);
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.lines().any(|line| line.starts_with("lab: ") && line.contains(" ok, 0 failed")), "{said}");
}
