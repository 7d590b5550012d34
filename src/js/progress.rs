//! How far an operation is, told at most ten times a second and once at its end.

use super::value;
use crate::loader::Stats;
use crate::progress::{Arrived, Progress};
use js_sys::{Array, Function};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

const INTERVAL_MS: f64 = 100.0;

/// How much the newest interval counts in the rate. A lower weight would answer late to a change of the line.
const NEWEST_WEIGHT: f64 = 0.3;

/// Watches one operation and calls `onProgress`.
#[derive(Debug)]
pub(super) struct Meter {
    kind: &'static str,
    on_progress: Option<Function>,
    /// What tells where bytes came from.
    stats: Rc<Stats>,
    verified_by: Cell<Option<&'static str>>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    loaded: u64,
    total: u64,
    bytes_per_second: Option<f64>,
    told_at_ms: f64,
    told_loaded: u64,
    told_received: u64,
    told_from_cache: u64,
    told_is_cached: bool,
    tensor: Option<String>,
    ranges: Vec<ArrivedRange>,
}

#[derive(Debug)]
struct ArrivedRange {
    shard: usize,
    range: Range<u64>,
    connection: usize,
}

impl Meter {
    /// A meter of an operation of this `type`.
    pub(super) fn new(kind: &'static str, on_progress: Option<Function>, stats: Rc<Stats>) -> Rc<Self> {
        let state = State {
            loaded: 0,
            total: 0,
            bytes_per_second: None,
            told_at_ms: now(),
            told_loaded: 0,
            told_received: stats.bytes_received(),
            told_from_cache: stats.bytes_from_cache(),
            told_is_cached: false,
            tensor: None,
            ranges: Vec::new(),
        };
        Rc::new(Meter { kind, on_progress, stats, verified_by: Cell::new(None), state: RefCell::new(state) })
    }

    /// What every file as a whole was checked by, once the operation has read the whole model.
    pub(super) fn verified_by(&self) -> Option<&'static str> {
        self.verified_by.get()
    }

    /// Tells the end, and what every file as a whole was checked by.
    pub(super) fn finish(&self, verified: Option<&'static str>) {
        self.tell(now(), Some(verified));
    }

    /// `end` is there for the last event.
    fn tell(&self, now_ms: f64, end: Option<Option<&'static str>>) {
        let Some(on_progress) = &self.on_progress else { return };
        let event = self.state.borrow_mut().event(self.kind, now_ms, end, &self.stats);
        if let Err(exception) = on_progress.call1(&JsValue::UNDEFINED, &event) {
            // A fault of the page must not end the load, nor go unseen.
            report_error(&exception).ok(); // a browser too old to have this goes without
        }
    }
}

impl Progress for Meter {
    fn expects(&self, payload_bytes: u64) {
        self.state.borrow_mut().total += payload_bytes;
    }

    fn arrived(&self, arrived: Arrived<'_>) {
        if self.on_progress.is_none() {
            return;
        }
        let now_ms = now();
        {
            let mut state = self.state.borrow_mut();
            state.add(arrived);
            if now_ms - state.told_at_ms < INTERVAL_MS {
                return;
            }
        }
        self.tell(now_ms, None);
    }

    fn checked(&self, verified_by: Option<&'static str>) {
        self.verified_by.set(verified_by);
    }
}

impl State {
    fn add(&mut self, arrived: Arrived<'_>) {
        let Arrived { shard, range, connection, tensor } = arrived;
        if let Some(tensor) = tensor {
            self.loaded += range.end - range.start;
            if self.tensor.as_deref() != Some(tensor) {
                self.tensor = Some(tensor.to_owned());
            }
        }
        let continues =
            |r: &&mut ArrivedRange| r.shard == shard && r.connection == connection && r.range.end == range.start;
        match self.ranges.iter_mut().rev().find(continues) {
            Some(last) => last.range.end = range.end,
            None => self.ranges.push(ArrivedRange { shard, range, connection }),
        }
    }

    fn event(&mut self, kind: &'static str, now_ms: f64, end: Option<Option<&'static str>>, stats: &Stats) -> JsValue {
        let seconds = (now_ms - self.told_at_ms) / 1000.0;
        if seconds > 0.0 && self.loaded > self.told_loaded {
            let newest = (self.loaded - self.told_loaded) as f64 / seconds;
            let before = self.bytes_per_second.unwrap_or(newest);
            self.bytes_per_second = Some(before + NEWEST_WEIGHT * (newest - before));
        }
        (self.told_at_ms, self.told_loaded) = (now_ms, self.loaded);
        let (received, from_cache) = (stats.bytes_received(), stats.bytes_from_cache());
        if (received, from_cache) != (self.told_received, self.told_from_cache) {
            self.told_is_cached = received == self.told_received; // else as before: nothing has come
        }
        (self.told_received, self.told_from_cache) = (received, from_cache);
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
            ("loaded", value::from_u64(self.loaded)),
            ("total", value::from_u64(self.total)),
            ("bytesPerSecond", self.bytes_per_second.unwrap_or(0.0).into()),
            ("secondsLeft", seconds_left.map_or(JsValue::UNDEFINED, JsValue::from)),
            ("tensor", self.tensor.as_deref().map_or(JsValue::UNDEFINED, JsValue::from)),
            ("fromCache", self.told_is_cached.into()),
            ("done", end.is_some().into()),
            ("verified", end.flatten().map_or(JsValue::UNDEFINED, JsValue::from)),
            ("ranges", ranges.collect::<Array>().into()),
        ])
    }
}

#[wasm_bindgen]
extern "C" {
    // Both pages and workers have them, so they are taken from the global object rather than from `window`.
    #[wasm_bindgen(js_namespace = performance)]
    fn now() -> f64;
    #[wasm_bindgen(catch, js_name = reportError)]
    fn report_error(exception: &JsValue) -> Result<(), JsValue>;
}

#[cfg(all(test, target_arch = "wasm32"))]
mod tests {
    use super::*;
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    wasm_bindgen_test_configure!(run_in_browser);

    #[wasm_bindgen_test]
    fn an_event_to_which_nothing_came_says_where_the_last_bytes_came_from() {
        let told = Rc::new(RefCell::new(Vec::new()));
        let telling = Rc::clone(&told);
        let on_progress = Closure::<dyn FnMut(JsValue)>::new(move |event| {
            let is_cached = js_sys::Reflect::get(&event, &"fromCache".into()).unwrap_or_default();
            telling.borrow_mut().push(is_cached.is_truthy());
        });
        let stats = Rc::new(Stats::default());
        let meter = Meter::new("tensors", Some(on_progress.as_ref().clone().unchecked_into()), Rc::clone(&stats));
        for (bytes, is_cached) in [(0, false), (7, true), (0, true), (7, false), (0, false), (7, true), (0, true)] {
            stats.count_received(bytes, is_cached);
            meter.finish(None);
        }
        assert_eq!(*told.borrow(), [false, true, true, false, false, true, true]);
    }
}
