//! Reports the progress of an operation: when its total is known, at most ten times a second, and at its end.

use super::value;
use crate::algorithm::Algorithm;
use crate::error::Result;
use crate::loader::Stats;
use crate::progress::{BytesArrived, Progress};
use js_sys::{Array, Function};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// The `type` of the events of a file that is not a model.
pub(super) const FILE: &str = "file";

const INTERVAL_MS: f64 = 100.0;

/// The weight of the newest interval in the rate. With a lower weight, the rate would follow a change of the bandwidth
/// late.
const NEWEST_WEIGHT: f64 = 0.3;

/// Calls `onProgress` for one operation.
#[derive(Debug)]
pub(super) struct ProgressReporter {
    kind: &'static str,
    on_progress: Option<Function>,
    /// Counts the bytes from the source and from the cache.
    stats: Rc<Stats>,
    verified_by: Cell<Option<Algorithm>>,
    has_ended: Cell<bool>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    loaded: u64,
    total: u64,
    bytes_per_second: Option<f64>,
    reported_at_ms: f64,
    reported_loaded: u64,
    reported_received: u64,
    reported_from_cache: u64,
    is_from_cache: bool,
    tensor: Option<String>,
    ranges: Vec<ArrivedRange>,
    /// Whether all bytes are payload, not only those of tensors.
    counts_all: bool,
}

/// What only the last event has.
struct End {
    outcome: &'static str,
    verified: Option<Algorithm>,
}

#[derive(Debug)]
struct ArrivedRange {
    shard: usize,
    range: Range<u64>,
    connection: usize,
}

impl ProgressReporter {
    /// Creates a reporter for an operation. `kind` is the `type` of its events.
    pub(super) fn new(kind: &'static str, on_progress: Option<Function>, stats: Rc<Stats>) -> Rc<Self> {
        let state = State {
            loaded: 0,
            total: 0,
            bytes_per_second: None,
            reported_at_ms: now(),
            reported_loaded: 0,
            reported_received: stats.bytes_received(),
            reported_from_cache: stats.bytes_from_cache(),
            is_from_cache: false,
            tensor: None,
            ranges: Vec::new(),
            counts_all: kind == FILE,
        };
        let (verified_by, has_ended, state) = (Cell::new(None), Cell::new(false), RefCell::new(state));
        Rc::new(ProgressReporter { kind, on_progress, stats, verified_by, has_ended, state })
    }

    /// The algorithm that verified every file, once the operation has read the whole model.
    pub(super) fn verified_by(&self) -> Option<Algorithm> {
        self.verified_by.get()
    }

    /// Reports the end of an operation that has succeeded, with the algorithm that verified every file.
    pub(super) fn finish(&self, verified: Option<Algorithm>) {
        self.end(End { outcome: "done", verified });
    }

    /// Reports the end of an operation if `outcome` is its error. Returns `outcome`.
    pub(super) fn check<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.fail();
        }
        outcome
    }

    /// Reports the end of an operation that has failed.
    pub(super) fn fail(&self) {
        self.end(End { outcome: "failed", verified: None });
    }

    /// Reports the end of an operation that stops early.
    pub(super) fn abort(&self) {
        self.end(End { outcome: "aborted", verified: None });
    }

    /// Reports the last event, unless it was reported.
    fn end(&self, end: End) {
        if !self.has_ended.replace(true) {
            self.report(now(), Some(end));
        }
    }

    /// Calls `onProgress`. `end` is `Some` for the last event.
    fn report(&self, now_ms: f64, end: Option<End>) {
        let Some(on_progress) = &self.on_progress else { return };
        let event = self.state.borrow_mut().event(self.kind, now_ms, end, &self.stats);
        if let Err(exception) = on_progress.call1(&JsValue::UNDEFINED, &event) {
            // An exception in the listener must be reported, but must not end the load.
            report_error(&exception).ok(); // fails in browsers without `reportError`
        }
    }
}

impl Drop for ProgressReporter {
    /// Ends an operation whose future was dropped: its signal has aborted, or its loader was closed.
    fn drop(&mut self) {
        self.abort();
    }
}

impl Progress for ProgressReporter {
    fn expects(&self, payload_bytes: u64) {
        self.state.borrow_mut().total += payload_bytes;
        self.report(now(), None);
    }

    fn arrived(&self, arrived: BytesArrived<'_>) {
        if self.on_progress.is_none() {
            return;
        }
        let now_ms = now();
        {
            let mut state = self.state.borrow_mut();
            state.add(arrived);
            if now_ms - state.reported_at_ms < INTERVAL_MS {
                return;
            }
        }
        self.report(now_ms, None);
    }

    fn checked(&self, verified_by: Option<Algorithm>) {
        self.verified_by.set(verified_by);
    }
}

impl State {
    fn add(&mut self, arrived: BytesArrived<'_>) {
        let BytesArrived { shard, range, connection, tensor } = arrived;
        if tensor.is_some() || self.counts_all {
            self.loaded += range.end - range.start;
        }
        if let Some(tensor) = tensor
            && self.tensor.as_deref() != Some(tensor)
        {
            self.tensor = Some(tensor.to_owned());
        }
        let continues =
            |r: &&mut ArrivedRange| r.shard == shard && r.connection == connection && r.range.end == range.start;
        match self.ranges.iter_mut().rev().find(continues) {
            Some(last) => last.range.end = range.end,
            None => self.ranges.push(ArrivedRange { shard, range, connection }),
        }
    }

    fn event(&mut self, kind: &'static str, now_ms: f64, end: Option<End>, stats: &Stats) -> JsValue {
        let seconds = (now_ms - self.reported_at_ms) / 1000.0;
        if seconds > 0.0 && self.loaded > self.reported_loaded {
            let newest = (self.loaded - self.reported_loaded) as f64 / seconds;
            let before = self.bytes_per_second.unwrap_or(newest);
            self.bytes_per_second = Some(before + NEWEST_WEIGHT * (newest - before));
        }
        (self.reported_at_ms, self.reported_loaded) = (now_ms, self.loaded);
        let (received, from_cache) = (stats.bytes_received(), stats.bytes_from_cache());
        if (received, from_cache) != (self.reported_received, self.reported_from_cache) {
            self.is_from_cache = received == self.reported_received; // if no bytes arrived, the previous value remains
        }
        (self.reported_received, self.reported_from_cache) = (received, from_cache);
        let left = self.total.saturating_sub(self.loaded) as f64;
        let seconds_left = self.bytes_per_second.map(|rate| left / rate);
        let ranges = std::mem::take(&mut self.ranges).into_iter().map(|arrived| {
            value::object([
                ("shard", value::from_u64(arrived.shard as u64)),
                ("start", value::from_u64(arrived.range.start)),
                ("end", value::from_u64(arrived.range.end)),
                ("connection", value::from_u64(arrived.connection as u64)),
            ])
        });
        value::object([
            ("type", kind.into()),
            // No other operation that runs has this address. `loader/progress.js` makes it a number of the page.
            ("operation", value::from_u64(std::ptr::from_ref(self) as u64)),
            ("loaded", value::from_u64(self.loaded)),
            ("total", value::from_u64(self.total)),
            ("bytesPerSecond", self.bytes_per_second.unwrap_or(0.0).into()),
            ("secondsLeft", seconds_left.map_or(JsValue::UNDEFINED, JsValue::from)),
            ("tensor", self.tensor.as_deref().map_or(JsValue::UNDEFINED, JsValue::from)),
            ("fromCache", self.is_from_cache.into()),
            ("done", end.is_some().into()),
            ("outcome", end.as_ref().map_or(JsValue::UNDEFINED, |end| end.outcome.into())),
            ("verified", end.and_then(|end| end.verified).map_or(JsValue::UNDEFINED, JsValue::from)),
            ("ranges", ranges.collect::<Array>().into()),
        ])
    }
}

#[wasm_bindgen]
extern "C" {
    // They are properties of the global object in both pages and workers, so not of `window`.
    #[wasm_bindgen(js_namespace = performance)]
    fn now() -> f64;
    #[wasm_bindgen(catch, js_name = reportError)]
    fn report_error(exception: &JsValue) -> std::result::Result<(), JsValue>;
}

#[cfg(all(test, web))]
mod tests {
    use super::*;
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    wasm_bindgen_test_configure!(run_in_browser);

    #[wasm_bindgen_test]
    fn from_cache_keeps_its_value_if_no_bytes_arrived() {
        let reported = Rc::new(RefCell::new(Vec::new()));
        let values = Rc::clone(&reported);
        let on_progress = Closure::<dyn FnMut(JsValue)>::new(move |event| {
            let is_cached = js_sys::Reflect::get(&event, &"fromCache".into()).unwrap_or_default();
            values.borrow_mut().push(is_cached.is_truthy());
        });
        let stats = Rc::new(Stats::default());
        let listener = on_progress.as_ref().clone().unchecked_into();
        let reporter = ProgressReporter::new("tensors", Some(listener), Rc::clone(&stats));
        for (bytes, is_cached) in [(0, false), (7, true), (0, true), (7, false), (0, false), (7, true), (0, true)] {
            stats.count_received(bytes, is_cached);
            reporter.report(now(), None);
        }
        assert_eq!(*reported.borrow(), [false, true, true, false, false, true, true]);
    }
}
