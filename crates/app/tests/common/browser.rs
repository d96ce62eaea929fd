//! A headless Chromium that opens a file, driven by the DevTools protocol over its pipe.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use qd1_lab::tool;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::apps::program;

/// The longest that any answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps it from talking to anyone by itself.
const QUIET: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
];

/// One page of it.
pub(crate) struct Browser {
    child: Child,
    to: File,
    answers: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// What the page reported by itself.
    events: Vec<Value>,
    _dir: TempDir,
}

impl Browser {
    /// Starts it with an empty page of a window of so many pixels.
    ///
    /// # Errors
    /// When it is not installed.
    pub(crate) fn start(width: u32, height: u32) -> Result<Self, String> {
        let chromium = program("chromium").ok_or("chromium is not installed")?;
        let dir = TempDir::new().unwrap();
        let [to, from] = ["to", "from"].map(|name| dir.path().join(name));
        tool("mkfifo", &[to.to_str().unwrap(), from.to_str().unwrap()]).unwrap();
        // It reads its third descriptor, and writes the fourth.
        let child = Command::new("sh")
            .args(["-c", "to=$1; from=$2; shift 2; exec \"$@\" 3<\"$to\" 4>\"$from\"", "sh"])
            .args([&to, &from, &chromium])
            .args(QUIET)
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = OpenOptions::new().write(true).open(&to).unwrap();
        let mut from = BufReader::new(File::open(&from).unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                let answer = serde_json::from_slice(message.trim_ascii_end().strip_suffix(b"\0").unwrap_or(&message));
                if answer.is_ok_and(|answer| sender.send(answer).is_err()) {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self { child, to, answers, last: 0, session: None, events: Vec::new(), _dir: dir };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Ok(browser)
    }

    /// Calls a method of the protocol.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {method}"));
            if answer["id"] == self.last {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Opens a file and waits until `is_ready` is true in it.
    pub(crate) fn open(&mut self, file: &Path, is_ready: &str) {
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        self.wait(is_ready);
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn wait(&mut self, expression: &str) {
        super::wait_until(expression, || self.eval(expression) == json!(true));
    }

    /// Returns the value of an expression in the page, which may be a promise.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({ "type": kind, "key": key });
            if kind == "keyDown" && key.chars().count() == 1 {
                params["text"] = json!(key);
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Moves the mouse to a place, its left button pressed or not.
    pub(crate) fn mouse_to(&mut self, x: f64, y: f64, is_pressed: bool) {
        let buttons = i32::from(is_pressed);
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y, "buttons": buttons }));
    }

    /// Drags from one place to another.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let button = |kind: &str, (x, y): (f64, f64), buttons: i32| json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1 });
        self.mouse_to(from.0, from.1, false);
        self.call("Input.dispatchMouseEvent", button("mousePressed", from, 1));
        self.mouse_to(0.5 * (from.0 + to.0), to.1, true);
        self.mouse_to(to.0, to.1, true);
        self.call("Input.dispatchMouseEvent", button("mouseReleased", to, 0));
    }

    /// What went wrong in the page: errors of its script and of the browser, and texts written to its console.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_one = |event: &&Value| {
            let method = event["method"].as_str().unwrap_or_default();
            matches!(method, "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded")
        };
        self.events.iter().filter(is_one).map(Value::to_string).collect()
    }

    /// What the page asked for, itself aside and what it made itself.
    pub(crate) fn requests(&self) -> Vec<String> {
        let asked = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let address = asked.filter_map(|event| event["params"]["request"]["url"].as_str());
        address
            .filter(|url| !["file:", "blob:", "data:", "about:"].iter().any(|own| url.starts_with(own)))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
