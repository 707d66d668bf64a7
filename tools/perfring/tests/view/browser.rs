//! A headless Chromium, driven by WebDriver.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perfring_testkit::wait::WATCHDOG;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// For how long the page is waited for, ms.
const PATIENCE: u64 = WATCHDOG.as_millis() as u64;

pub(super) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Where it puts what it downloads.
    pub(super) downloads: TempDir,
    _profile: TempDir,
}

/// Finds a program.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}

impl Browser {
    /// Starts it; `None` where there is none, which is said.
    pub(super) fn start() -> Option<Self> {
        if !(has("chromium") && has("chromedriver")) {
            let why = "there is no chromium with chromedriver (Debian: chromium, chromium-driver)";
            assert!(std::env::var_os("PERFRING_NO_SKIP").is_none_or(|no| no.is_empty()), "{why}");
            let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
            return None;
        }
        let (profile, downloads) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut driver = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok()
        });
        let mut browser = Browser {
            driver,
            port: port.unwrap(),
            session: String::new(),
            downloads,
            _profile: profile,
        };
        let user_data = format!("--user-data-dir={}", browser._profile.path().display());
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1440,900",
            &user_data,
        ];
        let options = json!({ "binary": "/usr/bin/chromium", "args": args });
        let wanted = json!({
            "capabilities": { "alwaysMatch": {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": { "browser": "ALL" },
                "timeouts": { "script": 2 * PATIENCE },
            } }
        });
        let session = browser.ask("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        let downloads = json!({ "behavior": "allow", "downloadPath": browser.downloads.path() });
        browser.cdp("Browser.setDownloadBehavior", &downloads);
        Some(browser)
    }

    fn send(&self, method: &str, path: &str, body: &str) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_millis(3 * PATIENCE)))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = BufReader::new(stream);
        let (mut len, mut line) = (0, String::new());
        // It may leave the connection open.
        while line != "\r\n" {
            line.clear();
            if answer.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                len = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; len];
        answer.read_exact(&mut body).map(|()| body)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.send(method, path, &body.to_string()).unwrap();
        let value: Value = serde_json::from_slice(&answer).unwrap();
        let value = value["value"].clone();
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }

    #[track_caller]
    fn in_session(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    pub(super) fn open(&self, url: &str) {
        self.in_session("/url", &json!({ "url": url }));
    }

    /// Evaluates an expression of JavaScript.
    #[track_caller]
    pub(super) fn js(&self, expression: &str) -> Value {
        let script = format!("return ({expression})");
        self.in_session("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits, in the page, until an expression is true. Returns it, and when it was, ms since 1970.
    #[track_caller]
    pub(super) fn until(&self, expression: &str) -> (Value, u64) {
        let script = format!(
            "const done = arguments[0], began = Date.now();
             const ask = () => {{
                 let found;
                 try {{ found = ({expression}); }} catch (error) {{ found = null; }}
                 if (found) return done([found, Date.now()]);
                 if (Date.now() - began > {PATIENCE}) return done(null);
                 setTimeout(ask, 10);
             }};
             ask();"
        );
        let found = self.in_session("/execute/async", &json!({ "script": script, "args": [] }));
        if found.is_null() {
            let text = self.js("document.body.innerText");
            panic!("never: {expression}\n{}\n{}", text.as_str().unwrap_or(""), self.log());
        }
        (found[0].clone(), found[1].as_u64().unwrap())
    }

    /// Asks the browser by its own protocol.
    #[track_caller]
    pub(super) fn cdp(&self, command: &str, params: &Value) -> Value {
        self.in_session("/goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    /// Returns the memory of the process that draws the page, in MB: what is only its own, and with its part of what it
    /// shares with the browser's other processes, which is mostly their program. Of several that draw pages it is the
    /// largest: the others have none.
    pub(super) fn memory(&self) -> (f64, f64) {
        let renderers = descendants(self.driver.id()).into_iter();
        let renderers = renderers.filter(|(_, args)| args.contains("--type=renderer"));
        let sizes = renderers.map(|(pid, _)| {
            let rollup = procfs::process::Process::new(pid).unwrap().smaps_rollup().unwrap();
            let sizes = &rollup.memory_map_rollup.0[0].extension.map;
            (sizes["Private_Clean"] + sizes["Private_Dirty"], sizes["Pss"])
        });
        let (own, part) = sizes.max().unwrap();
        (own as f64 / 1e6, part as f64 / 1e6)
    }

    pub(super) fn size(&self, width: u32, height: u32, scale: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": false });
        self.cdp("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Types keys, of which special ones are private characters of Unicode.
    pub(super) fn keys(&self, keys: &str) {
        let events = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        });
        let actions =
            json!([{ "type": "key", "id": "keys", "actions": events.collect::<Vec<_>>() }]);
        self.in_session("/actions", &json!({ "actions": actions }));
    }

    /// Keeps a picture of the page, if somebody wants to look at it: PERFRING_SCREENSHOTS is a directory.
    pub(super) fn picture(&self, name: &str) {
        use base64::Engine as _;
        let shot = self.cdp("Page.captureScreenshot", &json!({ "format": "png" }));
        let png = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap());
        let png = png.unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000, "{name}: {} bytes", png.len());
        if let Some(dir) = std::env::var_os("PERFRING_SCREENSHOTS") {
            std::fs::write(Path::new(&dir).join(format!("{name}.png")), png).unwrap();
        }
    }

    /// Returns what the page's console has: errors, and what the policy has kept from running.
    pub(super) fn log(&self) -> String {
        let path = format!("/session/{}/se/log", self.session);
        let lines = self.ask("POST", &path, &json!({ "type": "browser" }));
        let lines = lines.as_array().unwrap().iter();
        lines.map(|line| format!("{}\n", line["message"].as_str().unwrap_or(""))).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Also after a failure: chromedriver ends, and its browser would stay.
        let browser = descendants(self.driver.id());
        if !self.session.is_empty() {
            let ended = self.send("DELETE", &format!("/session/{}", self.session), "");
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        for (pid, _) in browser {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL); // most have ended
        }
    }
}

/// Returns the processes that a process has started, and those that they have, with their command lines.
fn descendants(of: u32) -> Vec<(i32, String)> {
    let all: Vec<_> = procfs::process::all_processes()
        .unwrap()
        .filter_map(|process| {
            let process = process.ok()?;
            let args = process.cmdline().unwrap_or_default();
            Some((process.pid, process.stat().ok()?.ppid, args.join(" ")))
        })
        .collect();
    let mut found: Vec<(i32, String)> = Vec::new();
    let mut parents = vec![of as i32];
    while let Some(parent) = parents.pop() {
        for (pid, _, args) in all.iter().filter(|(_, ppid, _)| *ppid == parent) {
            parents.push(*pid);
            found.push((*pid, args.clone()));
        }
    }
    found
}
