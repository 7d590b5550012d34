//! The Chrome DevTools Protocol: calls with answers, and events that come in between, over one WebSocket.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// How long one call may take. None of ours does more than a moment's work; a machine can be slow.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// How long one read of the socket blocks before the time limits are looked at again.
const READ_TICK: Duration = Duration::from_millis(50);

pub struct DevTools {
    socket: WebSocket<TcpStream>,
    last_id: u64,
    events: VecDeque<Event>,
}

pub struct Event {
    pub method: String,
    pub params: Value,
}

impl DevTools {
    /// `path` is that of the browser's own endpoint, as it writes it into `DevToolsActivePort`.
    pub fn connect(port: u16, path: &str) -> Result<DevTools> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("the browser's debugging port")?;
        let (socket, _) = tungstenite::client(format!("ws://127.0.0.1:{port}{path}"), stream)?;
        socket.get_ref().set_read_timeout(Some(READ_TICK))?;
        Ok(DevTools { socket, last_id: 0, events: VecDeque::new() })
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
            .with_context(|| format!("{method}: the browser is gone"))?;

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

    /// The events so far that were not yet taken. While a page loads, more come all the time: it does not wait for
    /// a pause among them.
    pub fn take_events(&mut self) -> Result<Vec<Event>> {
        let end = Instant::now() + READ_TICK;
        while Instant::now() < end && self.read()?.is_some() {}
        Ok(self.events.drain(..).collect())
    }

    /// The next message, `None` if none came within a tick. Events are kept for whoever asks for them.
    fn read(&mut self) -> Result<Option<Value>> {
        let message = match self.socket.read() {
            Ok(message) => message,
            Err(tungstenite::Error::Io(error)) if is_tick(error.kind()) => return Ok(None),
            Err(error) => return Err(error).context("the browser is gone"),
        };
        let Message::Text(text) = message else {
            return Ok(None);
        };
        let message: Value = serde_json::from_str(&text)?;
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            let params = message.get("params").cloned().unwrap_or_default();
            self.events.push_back(Event { method: method.to_owned(), params });
        }
        Ok(Some(message))
    }
}

/// What a read that came to its timeout is called: one name on Unix, the other on Windows.
fn is_tick(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
