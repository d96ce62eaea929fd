//! `cargo xtask docs --pictures`: pictures for the documents, of runs on simulated disks in a terminal of 80 columns
//! and 24 lines, and charts of the same runs. Their figures differ a little each time; what they show should not.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anstyle_svg::Term;
use anyhow::{Context as _, Result, ensure};
use qd1_lab::{clock, cmd};

/// Where they go, below the workspace's root.
const DIR: &str = "docs/pictures";
/// Time limit of a command.
const MOST: Duration = Duration::from_secs(300);

/// A screen, and charts of its run.
struct Picture {
    name: &'static str,
    /// Of the simulated disk.
    scenario: &'static str,
    command: &'static str,
    /// File and name of each.
    charts: &'static [(&'static str, &'static str)],
}

const PICTURES: [Picture; 4] = [
    Picture {
        name: "check",
        scenario: "oversold",
        command: "qd1 --quick .",
        charts: &[("check-heat", "heat-commit1-commit"), ("check-percentiles", "percentiles-commit1-commit")],
    },
    Picture { name: "limits", scenario: "limited", command: "qd1 limits .", charts: &[] },
    Picture { name: "sync", scenario: "network-block", command: "qd1 sync --quick .", charts: &[] },
    Picture {
        name: "sweep",
        scenario: "sas-hdd",
        command: "qd1 sweep --quick .",
        charts: &[("sweep-surface", "iops-randread")],
    },
];

/// Makes those whose names contain `only`.
pub(super) fn run(binaries: &Path, only: &str) -> Result<()> {
    qd1_lab::as_root("a simulated disk")?;
    let dir = cmd::root().join(DIR);
    fs::create_dir_all(&dir)?;
    for picture in PICTURES.into_iter().filter(|picture| picture.name.contains(only)) {
        let Picture { name, scenario, command, charts } = picture;
        let scenario = cmd::root().join(format!("crates/simdisk/scenarios/{scenario}.toml"));
        let disk = qd1_lab::Simulated::mount(binaries, &fs::read_to_string(scenario)?)?;
        let screen = screen(binaries, disk.place(), &disk.dir, command).with_context(|| command.to_owned())?;
        let file = dir.join(format!("{name}.svg"));
        let term = Term::new().min_width_px(700);
        fs::write(&file, term.render_svg(&format!("$ {command}\n{screen}"))).context(DIR)?;
        println!("docs: {DIR}/{name}.svg");
        for (file, chart) in charts {
            let to = dir.join(format!("{file}.svg"));
            let mut plot = cmd::command(binaries.join("qd1"));
            plot.env("QD1_STORE", disk.place().join("history.db"))
                .args(["plot", "--chart", chart, "--height", "320", "-o"]);
            cmd::capture(plot.arg(&to))?;
            println!("docs: {DIR}/{file}.svg");
        }
    }
    Ok(())
}

/// What a terminal shows, with colours, when the command has ended.
fn screen(binaries: &Path, place: &Path, disk: &Path, command: &str) -> Result<String> {
    let done = place.join("done");
    let script = format!(
        "cd {} && PATH={}:$PATH QD1_STORE={}/history.db {command} ; echo $? >{} ; sleep 600",
        disk.display(),
        binaries.display(),
        place.display(),
        done.display()
    );
    let terminal = qd1_lab::Terminal::new(place, [80, 24], &script)?;
    let begin = clock::now();
    while fs::read_to_string(&done).unwrap_or_default().is_empty() {
        qd1_lab::interrupted()?;
        ensure!(begin.elapsed() < MOST, "the command did not end within {} s", MOST.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
    // Time for the terminal to finish drawing.
    std::thread::sleep(Duration::from_millis(500));
    let screen = terminal.colored()?;
    let status = fs::read_to_string(&done)?;
    ensure!(matches!(status.trim(), "0" | "3"), "the command exited with {}: {screen}", status.trim());
    Ok(screen.trim_end().to_owned() + "\n")
}
