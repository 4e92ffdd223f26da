//! Chromium without a window, in the network namespace of a host. It is driven by its own protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>) over two pipes, so it opens no port.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::cmd::PATH;
use crate::host::Host;
use crate::lab::Lab;
use crate::machine;

/// How long one answer may take, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// It loads nothing but the pages that it is asked for.
const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run \
    --disable-background-networking --disable-component-update --disable-default-apps --disable-extensions \
    --disable-sync --hide-scrollbars --remote-debugging-pipe";

/// A browser with one page. Dropping it ends Chromium.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    profile: PathBuf,
    to: ChildStdin,
    from: Receiver<Value>,
    sent: u64,
    session: Option<String>,
    events: Vec<Value>,
}

impl Browser {
    /// Starts Chromium where it reaches what this host reaches, and its loopback interface.
    pub fn start(lab: &Lab, host: &Host) -> Result<Self> {
        machine::check_browser()?;
        let namespace = format!("/run/netns/{}", lab.net().namespace(host.name()));
        let profile = host.console_log().with_file_name("browser");
        fs::create_dir_all(&profile)?;
        let log = File::create(profile.join("log"))?;
        // Chromium reads its protocol from descriptor 3 and writes it to 4.
        let script = format!(
            "exec nsenter --net={namespace} chromium {FLAGS} --user-data-dir={} about:blank 3<&0 4>&1 </dev/null >&2",
            profile.display()
        );
        let mut process = Command::new("/bin/sh")
            .args(["-ec", &script])
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &profile)
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("starting chromium")?;
        let to = process.stdin.take().context("its standard input")?;
        let out = process.stdout.take().context("its standard output")?;
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(out).split(0).map_while(Result::ok);
            let mut parsed = messages.filter_map(|message| serde_json::from_slice(&message).ok());
            parsed.all(|message: Value| sender.send(message).is_ok())
        });
        let mut browser = Self {
            process,
            profile,
            to,
            from,
            sent: 0,
            session: None,
            events: Vec::new(),
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach)?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Network", "Log", "Runtime", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(browser)
    }

    /// Opens an address and waits until the page is loaded. What was seen of the page before is forgotten.
    pub fn open(&mut self, url: &str) -> Result<()> {
        self.events.clear();
        let answer = self.call("Page.navigate", &json!({"url": url}))?;
        if let Some(error) = answer.get("errorText") {
            bail!("opening {url}: {error}");
        }
        let until = Instant::now() + PATIENCE;
        while !self
            .events
            .iter()
            .any(|event| event["method"] == "Page.loadEventFired")
        {
            let message = self.next(until).with_context(|| format!("waiting for {url}"))?;
            self.events.push(message);
        }
        Ok(())
    }

    /// The size of the window in CSS pixels, and which colours the reader prefers.
    pub fn shape(&mut self, width: u32, height: u32, is_dark: bool) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &media).map(drop)
    }

    /// The value of a JavaScript expression, or what its promise becomes. The page's own policy does not apply to
    /// it.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &ask)?;
        if let Some(error) = answer.get("exceptionDetails") {
            bail!("{expression}: {error}");
        }
        Ok(answer["result"]["value"].clone())
    }

    /// What a screen reader gets: role and name of each node that it does not skip.
    pub fn accessible(&mut self) -> Result<Vec<(String, String)>> {
        let tree = self.call("Accessibility.getFullAXTree", &json!({}))?;
        let text = |node: &Value, key: &str| node[key]["value"].as_str().unwrap_or_default().to_owned();
        let nodes = tree["nodes"].as_array().context("a tree of nodes")?;
        let shown = nodes.iter().filter(|node| node["ignored"] != true);
        Ok(shown
            .map(|node| (text(node, "role"), text(node, "name")))
            .collect())
    }

    /// The addresses that were requested since the page was opened.
    pub fn requested(&self) -> Vec<String> {
        let requests = self
            .events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent");
        let urls = requests.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.map(str::to_owned).collect()
    }

    /// What the console says about the page, violations of its policy included.
    pub fn complaints(&self) -> Vec<String> {
        let console = [
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
        ];
        let said = self
            .events
            .iter()
            .filter(|event| console.iter().any(|method| event["method"] == *method));
        said.map(|event| event["params"].to_string()).collect()
    }

    /// Writes what is visible as a PNG.
    pub fn screenshot(&mut self, path: &Path) -> Result<()> {
        let shot = self.call(
            "Page.captureScreenshot",
            &json!({"format": "png", "optimizeForSpeed": false}),
        )?;
        let bytes = BASE64_STANDARD.decode(shot["data"].as_str().context("a picture")?)?;
        fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message)?;
        bytes.push(0);
        let log = self.profile.join("log");
        let sent = self.to.write_all(&bytes).and_then(|()| self.to.flush());
        sent.with_context(|| format!("{method}: {}", fs::read_to_string(&log).unwrap_or_default()))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.next(until);
            let answer = answer
                .with_context(|| format!("{method}: {}", fs::read_to_string(&log).unwrap_or_default()))?;
            if answer["id"] != self.sent {
                self.events.push(answer);
                continue;
            }
            if let Some(error) = answer.get("error") {
                bail!("{method}: {error}");
            }
            return Ok(answer["result"].clone());
        }
    }

    fn next(&self, until: Instant) -> Result<Value> {
        let left = until.saturating_duration_since(Instant::now());
        match self.from.recv_timeout(left) {
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout) => bail!("chromium did not answer within {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("chromium has ended"),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}
