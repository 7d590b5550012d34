//! Measures the memory of the browser's renderer processes on Linux.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use e2e::page::Page;

/// The browser returns memory to the system some time after a garbage collection.
const GC_DELAY: Duration = Duration::from_millis(300);

/// The process ids of the renderers, and their memory at the start.
pub(super) struct Watch(Vec<(u64, u64)>);

/// The memory of a renderer in bytes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    /// The resident memory at the start.
    pub(super) held: u64,
    /// The peak since then.
    pub(super) peak: u64,
}

impl Memory {
    /// The difference between the peak and the memory at the start.
    pub(super) fn grown(self) -> u64 {
        self.peak.saturating_sub(self.held)
    }
}

impl Watch {
    /// Starts measuring after a garbage collection of the page. Returns `None` if the system does not support it.
    pub(super) fn begin(page: &mut Page) -> Result<Option<Watch>> {
        page.call("HeapProfiler.collectGarbage", json!({}))?;
        sleep(GC_DELAY);
        let processes = page.call_browser("SystemInfo.getProcessInfo", json!({}))?;
        let list = processes.get("processInfo").and_then(Value::as_array).context("the browser lists no processes")?;
        let renderers = list.iter().filter(|process| process.get("type").is_some_and(|kind| kind == "renderer"));
        let ids = renderers.filter_map(|process| process.get("id")?.as_u64());
        // "5" resets the peak to the current memory (proc_pid_clear_refs(5)).
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
