//! An etcd cluster of three members, each on its own disk, under puts at a steady rate: how long the puts took, and
//! whether the leader changed.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use qd1_lab::{clock, cmd};
use serde_json::{Value, json};
use ureq::Agent;

const MEMBERS: usize = 3;
/// Puts per second of each client, number of clients, and for how long.
const LOAD: (f64, usize, Duration) = (10.0, 10, Duration::from_secs(20));
/// Longest wait for the members to elect a leader.
const READY: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(10);

/// The members; ended on drop.
struct Cluster {
    members: Vec<(Child, u16)>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (member, _) in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

/// Runs it with the data of each member on one of `disks` and its messages below `place`.
pub(super) fn run(disks: &[&PathBuf; MEMBERS], place: &Path) -> Result<Value> {
    let cluster = start(disks, place)?;
    wait_until_ready(&cluster)?;
    let before = leader_changes(&cluster)?;
    let began = clock::now();
    let mut latencies: Vec<f64> = Vec::new();
    let mut failed = 0usize;
    std::thread::scope(|scope| -> Result<()> {
        let ports: Vec<u16> = cluster.members.iter().map(|(_, port)| *port).collect();
        let clients: Vec<_> = (0..LOAD.1)
            .map(|number| {
                let port = ports[number % ports.len()];
                scope.spawn(move || client(port, number, began))
            })
            .collect();
        for client in clients {
            let (more, errors) = client.join().expect("its panic is printed already")?;
            latencies.extend(more);
            failed += errors;
        }
        Ok(())
    })?;
    let changes = leader_changes(&cluster)? - before;
    drop(cluster);
    ensure!(!latencies.is_empty(), "no put was answered");
    latencies.sort_by(f64::total_cmp);
    let at = |q: f64| latencies[((q * latencies.len() as f64).ceil() as usize).clamp(1, latencies.len()) - 1] * 1e9;
    Ok(json!({
        "p50_ns": at(0.5),
        "p95_ns": at(0.95),
        "p99_ns": at(0.99),
        "max_ns": at(1.0),
        "n": latencies.len(),
        "failed": failed,
        "leader_changes": changes,
    }))
}

fn start(disks: &[&PathBuf; MEMBERS], place: &Path) -> Result<Cluster> {
    let server = cmd::find("etcd").context("etcd is not installed")?;
    // All are held open together, so that they differ.
    let held = (0..2 * MEMBERS).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
    let ports = held.iter().map(|held| Ok(held.local_addr()?.port())).collect::<Result<Vec<_>>>()?;
    drop(held);
    let peers: Vec<String> = (0..MEMBERS).map(|number| format!("m{number}={}", url(ports[MEMBERS + number]))).collect();
    let mut cluster = Cluster { members: Vec::new() };
    for number in 0..MEMBERS {
        let (name, log) = (format!("m{number}"), File::create(place.join(format!("etcd-{number}.log")))?);
        let (client, peer) = (url(ports[number]), url(ports[MEMBERS + number]));
        let mut command = cmd::command(&server);
        command.arg("--name").arg(&name).arg("--data-dir").arg(disks[number].join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &peers.join(","), "--logger", "zap"]);
        let member = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        cluster.members.push((member, ports[number]));
    }
    Ok(cluster)
}

fn wait_until_ready(cluster: &Cluster) -> Result<()> {
    let began = clock::now();
    let is_ready = |port: u16| ask(port, "/health").is_ok_and(|answer| answer.contains("true"));
    while !cluster.members.iter().all(|(_, port)| is_ready(*port)) {
        if began.elapsed() > READY {
            bail!("etcd was not healthy in time");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Leader changes seen by any member.
fn leader_changes(cluster: &Cluster) -> Result<f64> {
    let mut most = 0.0f64;
    for (_, port) in &cluster.members {
        let page = ask(*port, "/metrics")?;
        let line = page.lines().find_map(|line| line.strip_prefix("etcd_server_leader_changes_seen_total "));
        most = most.max(line.context("etcd does not report its leader changes")?.trim().parse()?);
    }
    Ok(most)
}

/// One client's puts, each due at a fixed time; returns the latencies from the due times, s, and how many failed.
fn client(port: u16, number: usize, began: Instant) -> Result<(Vec<f64>, usize)> {
    let (rate, clients, duration) = LOAD;
    let (mut latencies, mut failed) = (Vec::new(), 0);
    let (agent, place) = (agent(), format!("{}/v3/kv/put", url(port)));
    for put in 0..(rate * duration.as_secs_f64()) as u64 {
        let due = Duration::from_secs_f64((put as f64 + number as f64 / clients as f64) / rate);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        // A cluster that hangs would block the client forever.
        if began.elapsed() > 3 * duration {
            failed += 1;
            continue;
        }
        // {"key": "kNNN", "value": 256 bytes}, in base64.
        let (key, value) = (format!("a{number:03}{:04}", put % 1000), "QUJD".repeat(85));
        let body = format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}");
        let answer = agent.post(&place).send(body).and_then(|mut answer| answer.body_mut().read_to_vec());
        match answer {
            Ok(_) => latencies.push((began.elapsed() - due).as_secs_f64()),
            Err(_) => failed += 1,
        }
    }
    Ok((latencies, failed))
}

/// A client that keeps its connection open.
fn agent() -> Agent {
    Agent::config_builder().timeout_global(Some(ANSWER)).build().into()
}

/// One page of a member.
fn ask(port: u16, page: &str) -> Result<String> {
    Ok(agent().get(format!("{}{page}", url(port))).call()?.body_mut().read_to_string()?)
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}
