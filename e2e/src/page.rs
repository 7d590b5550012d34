//! A browser tab with simulated user input.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, mem};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::console::{exception, line_of};
use crate::devtools::{Area, DevTools};
use crate::failures::Witness;

/// The time limit for immediate reactions of a page, such as to a click.
pub const SOON: Duration = Duration::from_secs(30);

/// The time limit for loading a whole model, on two slow cores with other load.
pub const LOAD_LIMIT: Duration = Duration::from_secs(180);

/// The size of a window in CSS pixels, and the device pixel ratio.
#[derive(Clone, Copy)]
pub struct Window {
    pub width: u32,
    pub height: u32,
    pub scale: u32,
    pub is_phone: bool,
}

pub const DESKTOP: Window = Window { width: 1280, height: 900, scale: 2, is_phone: false };
pub const PHONE: Window = Window { width: 390, height: 844, scale: 2, is_phone: true };

/// The color scheme that the user prefers.
#[derive(Clone, Copy, PartialEq)]
pub enum Scheme {
    Light,
    Dark,
}

pub struct Page<'a> {
    devtools: &'a mut DevTools,
    target: String,
    session: String,
    console_errors: Vec<String>,
    /// The method, URL and Range header of each request, by its id, once [`Page::watch_requests`] was called.
    requests: HashMap<String, String>,
    cancelled: Vec<String>,
}

impl<'a> Page<'a> {
    pub fn new(devtools: &'a mut DevTools, target: String, session: String) -> Result<Page<'a>> {
        let (console_errors, requests, cancelled) = Default::default();
        let mut page = Page { devtools, target, session, console_errors, requests, cancelled };
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(page)
    }

    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.devtools.call(Some(&self.session), method, params)
    }

    /// Calls a method of the browser itself.
    pub fn call_browser(&mut self, method: &str, params: Value) -> Result<Value> {
        self.devtools.call(None, method, params)
    }

    /// Navigates to a URL and waits until the document and its resources are loaded.
    pub fn open(&mut self, url: &str) -> Result<()> {
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(error) = answer.get("errorText").and_then(Value::as_str) {
            bail!("{url} does not open: {error}");
        }
        self.wait_for(&format!("{url} to load"), SOON, "document.readyState === 'complete'")
    }

    /// Evaluates a JavaScript expression. Awaits the value if it is a promise.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", params)?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            bail!("`{expression}` throws {}", exception(thrown));
        }
        Ok(answer.pointer("/result/value").cloned().unwrap_or_default())
    }

    /// Waits until an expression is truthy. `what` completes the message "waiting for …".
    pub fn wait_for(&mut self, what: &str, limit: Duration, expression: &str) -> Result<()> {
        let end = Instant::now() + limit;
        loop {
            if self.evaluate(&format!("!!({expression})"))? == true {
                return Ok(());
            }
            self.fail_if_crashed()?;
            if Instant::now() >= end {
                let console_errors = self.take_console_errors()?.join("; ");
                bail!(
                    "timed out after {} s waiting for {what} ({expression}); the console shows: [{console_errors}]",
                    limit.as_secs()
                );
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Scrolls an element into view and clicks its center. Fails if another element covers it.
    pub fn click(&mut self, selector: &str) -> Result<()> {
        let point = self.evaluate(&format!("({})({selector:?})", include_str!("point_of.js")))?;
        ensure!(point.is_array(), "cannot click {selector}: it {}", point.as_str().unwrap_or("has no position"));
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let params =
                json!({ "type": kind, "x": point.get(0), "y": point.get(1), "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", params)?;
        }
        Ok(())
    }

    /// Clicks a text field and replaces its text.
    pub fn type_into(&mut self, selector: &str, text: &str) -> Result<()> {
        self.click(selector)?;
        self.evaluate(&format!("document.querySelector({selector:?}).select()"))?;
        self.call("Input.insertText", json!({ "text": text }))?;
        Ok(())
    }

    /// Presses and releases a key: `Enter`, `Escape`, `Tab`, or one that writes a character.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            // Pages do not depend on the codes of these.
            _ if key.chars().count() == 1 => (0, key),
            _ => bail!("the key {key} is not known"),
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// Chooses files in an `<input type="file">`, as its dialog would.
    pub fn choose_files(&mut self, selector: &str, files: &[PathBuf]) -> Result<()> {
        let params = json!({ "expression": format!("document.querySelector({selector:?})") });
        let input = self.call("Runtime.evaluate", params)?;
        let object = input.pointer("/result/objectId").with_context(|| format!("no element matches {selector}"))?;
        self.call("DOM.setFileInputFiles", json!({ "objectId": object, "files": files }))?;
        Ok(())
    }

    /// Drags files from outside and drops them at the center of the window.
    pub fn drop_files(&mut self, files: &[PathBuf]) -> Result<()> {
        let middle = self.evaluate("[innerWidth / 2, innerHeight / 2]")?;
        let data = json!({ "items": [], "files": files, "dragOperationsMask": 1 });
        for kind in ["dragEnter", "dragOver", "drop"] {
            let params = json!({ "type": kind, "x": middle.get(0), "y": middle.get(1), "data": data });
            self.call("Input.dispatchDragEvent", params)?;
        }
        Ok(())
    }

    pub fn set_window(&mut self, window: Window) -> Result<()> {
        let Window { width, height, scale, is_phone } = window;
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone });
        self.call("Emulation.setDeviceMetricsOverride", metrics)?;
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": is_phone }))?;
        Ok(())
    }

    pub fn set_scheme(&mut self, scheme: Scheme) -> Result<()> {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let feature = json!({ "name": "prefers-color-scheme", "value": value });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }))?;
        Ok(())
    }

    /// Writes a screenshot as a PNG file.
    pub fn screenshot(&mut self, area: Area, path: &Path) -> Result<()> {
        let png = self.devtools.screenshot(&self.session, area)?;
        fs::write(path, png).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Closes the page now. One that goes out of scope is closed when the next one is opened.
    pub fn close(mut self) -> Result<()> {
        let target = json!({ "targetId": self.target });
        self.call_browser("Target.closeTarget", target).map(drop)
    }

    /// Returns the errors and warnings of the console since the last call.
    pub fn take_console_errors(&mut self) -> Result<Vec<String>> {
        self.fail_if_crashed()?;
        Ok(mem::take(&mut self.console_errors))
    }

    /// Records the requests of the page from now on.
    pub fn watch_requests(&mut self) -> Result<()> {
        self.call("Network.enable", json!({})).map(drop)
    }

    /// Returns the requests that the page has cancelled since the last call, as the network panel lists them.
    pub fn take_cancelled_requests(&mut self) -> Result<Vec<String>> {
        self.fail_if_crashed()?;
        Ok(mem::take(&mut self.cancelled))
    }

    fn fail_if_crashed(&mut self) -> Result<()> {
        for event in self.devtools.take_events()? {
            if event.session.as_deref() != Some(&*self.session) {
                continue; // of a page that was left
            }
            let params = &event.params;
            let line = line_of(&event.method, params).filter(|line| line.is_problem);
            self.console_errors.extend(line.map(|line| line.text));
            let text = |place| params.pointer(place).and_then(Value::as_str).unwrap_or_default();
            match event.method.as_str() {
                "Inspector.targetCrashed" => bail!("the tab crashed"),
                "Network.requestWillBeSent" => {
                    let range = text("/request/headers/Range");
                    let request = format!("{} {} {range}", text("/request/method"), text("/request/url"));
                    self.requests.insert(text("/requestId").to_owned(), request);
                }
                "Network.loadingFailed" if params.get("canceled") == Some(&Value::Bool(true)) => {
                    let request = self.requests.get(text("/requestId"));
                    self.cancelled.push(request.map_or("an unknown request".to_owned(), String::clone));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Witness for &mut Page<'_> {
    fn screenshot(&mut self) -> Result<Vec<u8>> {
        self.devtools.screenshot(&self.session, Area::WholePage)
    }

    fn console(&mut self) -> Result<String> {
        self.devtools.console()
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        self.devtools.leave(mem::take(&mut self.target), mem::take(&mut self.session));
    }
}
