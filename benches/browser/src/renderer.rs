//! The memory of the browser's renderer processes, as Linux counts it.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use e2e::page::Page;

/// The browser gives memory back behind a collection of garbage.
const SETTLING: Duration = Duration::from_millis(300);

/// What the renderers held when the watch began.
pub(super) struct Watch(Vec<(u64, u64)>);

/// Of a renderer, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    /// What it held before.
    pub(super) held: u64,
    /// The most that it held since.
    pub(super) peak: u64,
}

impl Memory {
    /// By how much it has grown at its peak.
    pub(super) fn grown(self) -> u64 {
        self.peak.saturating_sub(self.held)
    }
}

impl Watch {
    /// Begins, after the page has dropped its garbage. `None` where there is no such account.
    pub(super) fn begin(page: &mut Page) -> Result<Option<Watch>> {
        page.call("HeapProfiler.collectGarbage", json!({}))?;
        sleep(SETTLING);
        let processes = page.call_browser("SystemInfo.getProcessInfo", json!({}))?;
        let list = processes.get("processInfo").and_then(Value::as_array).context("the browser lists no processes")?;
        let renderers = list.iter().filter(|process| process.get("type").is_some_and(|kind| kind == "renderer"));
        let ids = renderers.filter_map(|process| process.get("id")?.as_u64());
        // "5" makes the peak what is held now (proc_pid_clear_refs(5)).
        let held = ids.map(|id| {
            fs::write(format!("/proc/{id}/clear_refs"), "5").ok().and_then(|()| Some((id, read(id, "VmRSS")?)))
        });
        Ok(held.collect::<Option<_>>().map(Watch))
    }

    /// The memory of the renderer that has grown most.
    pub(super) fn memory(&self) -> Option<Memory> {
        let Watch(held) = self;
        let memories = held.iter().filter_map(|&(id, held)| Some(Memory { held, peak: read(id, "VmHWM")? }));
        memories.max_by_key(|memory| memory.grown())
    }
}

fn read(id: u64, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}
