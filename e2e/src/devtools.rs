//! A client of the Chrome DevTools Protocol: calls, responses and events over one WebSocket.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::console::line_of;

/// The time limit of one call. Most take milliseconds; one may wait for a load over a slow line.
const CALL_LIMIT: Duration = Duration::from_secs(240);

/// How long one read of the socket blocks before time limits are checked again.
const READ_TIMEOUT: Duration = Duration::from_millis(50);

/// The number of lines of the console that are kept.
const CONSOLE_LINES: usize = 500;

pub struct DevTools {
    socket: WebSocket<TcpStream>,
    last_id: u64,
    events: VecDeque<Event>,
    /// The last lines of the consoles of all pages.
    console: VecDeque<String>,
    /// The target and the session of the page that is no longer used. It stays open until the next page is opened, so
    /// that a case that failed can be shown.
    left: Option<(String, String)>,
}

/// What a screenshot shows.
#[derive(Clone, Copy, PartialEq)]
pub enum Area {
    Window,
    WholePage,
}

pub struct Event {
    /// The session of the page that reports it.
    pub session: Option<String>,
    pub method: String,
    pub params: Value,
}

impl DevTools {
    /// Connects to the browser. `path` is its endpoint, as it is written in `DevToolsActivePort`.
    pub fn connect(port: u16, path: &str) -> Result<DevTools> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("the browser's debugging port")?;
        let (socket, _) = tungstenite::client(format!("ws://127.0.0.1:{port}{path}"), stream)?;
        socket.get_ref().set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(DevTools { socket, last_id: 0, events: VecDeque::new(), console: VecDeque::new(), left: None })
    }

    /// Calls a method, of the browser itself or of an attached target's session.
    pub fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let (Some(session), Some(fields)) = (session, message.as_object_mut()) {
            fields.insert("sessionId".into(), session.into());
        }
        self.socket
            .send(Message::text(message.to_string()))
            .with_context(|| format!("{method}: the browser closed the connection"))?;

        let end = Instant::now() + CALL_LIMIT;
        while Instant::now() < end {
            let Some(answer) = self.read().with_context(|| method.to_owned())? else {
                continue;
            };
            if answer.get("id").and_then(Value::as_u64) != Some(self.last_id) {
                continue;
            }
            if let Some(error) = answer.get("error") {
                bail!("{method}: {}", error.get("message").unwrap_or(error));
            }
            return Ok(answer.get("result").cloned().unwrap_or_default());
        }
        bail!("{method}: the browser did not answer within {} s", CALL_LIMIT.as_secs())
    }

    /// Returns the events since the last call. Because a loading page sends events continuously, it reads for at most
    /// `READ_TIMEOUT`.
    pub fn take_events(&mut self) -> Result<Vec<Event>> {
        let end = Instant::now() + READ_TIMEOUT;
        while Instant::now() < end && self.read()?.is_some() {}
        Ok(self.events.drain(..).collect())
    }

    /// Returns the last lines of the consoles of all pages.
    pub fn console(&mut self) -> Result<String> {
        while self.read()?.is_some() {}
        Ok(self.console.iter().rev().map(String::as_str).collect::<Vec<_>>().join("\n"))
    }

    /// A screenshot of a page in PNG.
    pub fn screenshot(&mut self, session: &str, area: Area) -> Result<Vec<u8>> {
        let params = json!({ "format": "png", "captureBeyondViewport": area == Area::WholePage });
        let shot = self.call(Some(session), "Page.captureScreenshot", params)?;
        let data = shot.get("data").and_then(Value::as_str).context("the browser returned no screenshot")?;
        Ok(data_encoding::BASE64.decode(data.as_bytes())?)
    }

    /// States that a page is no longer used.
    pub fn leave(&mut self, target: String, session: String) {
        self.close_left();
        self.left = Some((target, session));
    }

    /// The session of the page that is no longer used.
    pub fn left(&self) -> Option<&str> {
        self.left.as_ref().map(|(_, session)| session.as_str())
    }

    /// Closes the page that is no longer used.
    pub fn close_left(&mut self) {
        if let Some((target, _)) = self.left.take() {
            self.call(None, "Target.closeTarget", json!({ "targetId": target })).ok(); // it may have crashed
        }
    }

    /// Reads the next message, `None` if none arrives within [`READ_TIMEOUT`]. Events are also queued for
    /// `take_events`.
    fn read(&mut self) -> Result<Option<Value>> {
        let message = match self.socket.read() {
            Ok(message) => message,
            Err(tungstenite::Error::Io(error)) if is_timeout(error.kind()) => return Ok(None),
            Err(error) => return Err(error).context("the browser closed the connection"),
        };
        let Message::Text(text) = message else {
            return Ok(None);
        };
        let message: Value = serde_json::from_str(&text)?;
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            let params = message.get("params").cloned().unwrap_or_default();
            if let Some(line) = line_of(method, &params) {
                self.console.truncate(CONSOLE_LINES - 1);
                self.console.push_front(line.text);
            }
            let session = message.get("sessionId").and_then(Value::as_str).map(str::to_owned);
            self.events.push_back(Event { session, method: method.to_owned(), params });
        }
        Ok(Some(message))
    }
}

/// Whether a read timed out. Unix and Windows report different error kinds.
fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
