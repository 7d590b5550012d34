//! A WebDriver client that controls a headless browser. Dropping [`Browser`] ends the browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::engine::{Console, Driver, Engine};
use crate::failures::Witness;
use xtask::project::Project;

const START_LIMIT: Duration = Duration::from_secs(60);

/// The time limit of a script. Scripts take less than a tenth of it, but a machine can be slow.
const SCRIPT_LIMIT: Duration = Duration::from_secs(120);

/// Evaluates an expression in the page's own world, even if the driver runs scripts in an isolated one.
const EVALUATE: &str = include_str!("webdriver.js");

const KEEP_CONSOLE: &str = include_str!("keep_console.js");

pub struct Browser {
    driver: Driver,
    session: String,
}

impl Browser {
    /// Starts the engine's driver and a browser with a new profile.
    pub fn launch(project: &Project, engine: Engine) -> Result<Browser> {
        let driver = engine.start(project)?;
        let end = Instant::now() + START_LIMIT;
        while let Err(error) = call(driver.port, "GET", "/status", None) {
            ensure!(Instant::now() < end, "the driver of {engine} does not answer: {error:#}");
            sleep(Duration::from_millis(50));
        }
        let mut capabilities = driver.capabilities.clone();
        if let Some(fields) = capabilities.as_object_mut() {
            fields.insert("timeouts".to_owned(), json!({ "script": SCRIPT_LIMIT.as_millis() as u64 }));
        }
        let wanted = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let created = call(driver.port, "POST", "/session", Some(&wanted)).with_context(|| driver.log_tail())?;
        let session = created.get("sessionId").and_then(Value::as_str).context("the driver opened no session")?;
        Ok(Browser { session: format!("/session/{session}"), driver })
    }

    /// Navigates to a URL and waits until the document and its scripts are loaded. WebKit's driver sometimes returns
    /// before that.
    pub fn open(&self, url: &str) -> Result<()> {
        self.post("/url", json!({ "url": url }))?;
        let is_there = format!("location.href === new URL({}).href && document.readyState === 'complete'", json!(url));
        let end = Instant::now() + START_LIMIT;
        while self.evaluate(&is_there)? != true {
            ensure!(Instant::now() < end, "{url} did not load within {} s", START_LIMIT.as_secs());
            sleep(Duration::from_millis(20));
        }
        match self.driver.console {
            Console::InThePage => self.post("/execute/sync", json!({ "script": KEEP_CONSOLE, "args": [] })).map(drop),
            Console::OfTheDriver | Console::InTheLog => Ok(()),
        }
    }

    /// Evaluates a JavaScript expression. Awaits the value if it is a promise.
    pub fn evaluate(&self, expression: &str) -> Result<Value> {
        let outcome = self.post("/execute/async", json!({ "script": EVALUATE, "args": [expression] }))?;
        if let Some(thrown) = outcome.get("thrown").and_then(Value::as_str) {
            bail!("the page throws {thrown}");
        }
        match outcome.get("value").and_then(Value::as_str) {
            Some(json) => Ok(serde_json::from_str(json)?),
            None => Ok(Value::Null),
        }
    }

    /// A screenshot of the window in PNG.
    fn screenshot(&self) -> Result<Vec<u8>> {
        let shot = call(self.driver.port, "GET", &format!("{}/screenshot", self.session), None)?;
        let data = shot.as_str().context("the driver returned no screenshot")?;
        Ok(data_encoding::BASE64.decode(data.as_bytes())?)
    }

    fn console(&self) -> Result<String> {
        match self.driver.console {
            Console::OfTheDriver => {
                let entries = self.post("/se/log", json!({ "type": "browser" }))?;
                let lines = entries.as_array().into_iter().flatten().filter_map(|entry| entry.get("message")?.as_str());
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            Console::InTheLog => Ok(self.driver.log()),
            Console::InThePage => {
                let lines = self.evaluate("(globalThis.keptConsole ?? []).join('\\n')")?;
                Ok(format!("{}\n{}", lines.as_str().unwrap_or_default(), self.driver.log()))
            }
        }
    }

    fn post(&self, path: &str, body: Value) -> Result<Value> {
        call(self.driver.port, "POST", &format!("{}{path}", self.session), Some(&body))
    }
}

impl Witness for &Browser {
    fn screenshot(&mut self) -> Result<Vec<u8>> {
        Browser::screenshot(self)
    }

    fn console(&mut self) -> Result<String> {
        Browser::console(self)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let ended = call(self.driver.port, "DELETE", &self.session, None); // the driver ends the browser
        if let Err(error) = ended {
            eprintln!("the browser did not end: {error:#}");
        }
    }
}

/// Sends a command to a driver and returns the value of the response.
fn call(port: u16, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("the driver's port")?;
    stream.set_read_timeout(Some(SCRIPT_LIMIT + START_LIMIT))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let answer = receive(stream).with_context(|| format!("{method} {path}: the driver does not answer"))?;
    let value = answer.get("value").cloned().unwrap_or_default();
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        let message = value.get("message").and_then(Value::as_str).unwrap_or_default();
        bail!("{method} {path}: {error}: {message}");
    }
    Ok(value)
}

fn receive(stream: TcpStream) -> Result<Value> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), None);
    loop {
        line.clear();
        ensure!(reader.read_line(&mut line)? > 0, "the connection is closed");
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok(),
            None if line == "\r\n" => break,
            _ => {}
        }
    }
    let mut body = Vec::new();
    reader.take(length.unwrap_or(u64::MAX)).read_to_end(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
