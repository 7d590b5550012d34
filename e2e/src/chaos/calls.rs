//! Random calls of a loader, and checks of the results.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use futures::future::{self, Either};
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use weightstream::RetryPolicy;
use weightstream::internals::loader::{Loaded, Loader, Options, TensorRequest};
use weightstream::internals::source::http::HttpSource;
use weightstream::{Error, ErrorKind};

use super::check::Check;
use super::faulty_server::Server;
use super::model::Model;
use super::open_files::OpenFiles;
use super::random::Random;

type HttpLoader = Rc<Loader<HttpSource>>;

/// The assumed throughput, to convert bytes to milliseconds.
const ASSUMED_BYTES_PER_MS: u64 = 2_000;

/// One call of a loader.
#[derive(Debug, Clone)]
pub enum Call {
    Tensor(String),
    Rows(String, Range<u64>),
    Tensors(Option<Vec<String>>),
    /// Prefetches tensors and loads them at the same time.
    Prefetch(Vec<String>),
    Verify,
    /// Loads everything twice and verifies it, all concurrently.
    Together,
    /// Loads this tensor while a stream of all tensors is paused, then drops the stream.
    BesidePaused(String),
    /// Reads ranges of a file of the model that is kept open.
    File(String, Vec<Range<u64>>),
}

/// The retries of all calls, of the crate and of the page.
const MAX_ATTEMPTS: u32 = 8;
const BASE_DELAY_MS: u64 = 1;
const MAX_DELAY_MS: u64 = 20;

/// Consecutive calls on one loader.
#[derive(Debug, Clone)]
pub struct Calls {
    options: Options,
    /// When a connection without data is closed and replaced.
    stall_ms: u64,
    /// Each call, with the number of received bytes after which it is aborted, if any.
    calls: Vec<(Call, Option<u64>)>,
}

/// The results of the calls.
#[derive(Debug, Default)]
pub struct Outcome {
    pub tensors: u64,
    pub bytes_received: u64,
    /// How many calls failed, by error code.
    pub errors: BTreeMap<&'static str, u64>,
    /// The messages of the errors.
    pub messages: Vec<String>,
    pub aborted: u64,
}

impl Calls {
    pub fn new(model: &Model, random: &mut Random) -> Self {
        let stall_ms = random.pick(&[200, 400]).unwrap_or(400);
        let retry = RetryPolicy::default()
            .max_attempts(MAX_ATTEMPTS)
            .base_delay_ms(BASE_DELAY_MS)
            .max_delay_ms(MAX_DELAY_MS)
            .stall_ms(stall_ms);
        let options = Options::default()
            .with_concurrency(random.within(1..6) as usize)
            .with_coalesce_gap_bytes(random.pick(&[0, 4 << 10, 64 << 10]).unwrap_or(0))
            .with_max_memory_bytes(random.pick(&[1 << 20, 4 << 20, 256 << 20]).unwrap_or(1 << 20))
            .with_retry(retry);
        let calls = (0..random.within(1..5)).map(|_| {
            let abort_after = random.percent(20).then(|| random.within(0..500_000));
            (Call::new(model, random), abort_after)
        });
        Calls { options, stall_ms, calls: calls.collect() }
    }

    /// The same calls without aborts.
    pub fn without_aborts(&self) -> Self {
        let calls = self.calls.iter().map(|(call, _)| (call.clone(), None)).collect();
        Calls { calls, ..self.clone() }
    }

    /// The options and the calls as JSON for a page, which aborts calls after a time in milliseconds.
    pub fn for_a_page(&self) -> (Value, Value) {
        let Options { concurrency, coalesce_gap_bytes, max_memory_bytes, .. } = &self.options;
        let options = json!({
            "concurrency": concurrency,
            "coalesceGap": coalesce_gap_bytes,
            "maxMemory": max_memory_bytes,
            "retry": {
                "attempts": MAX_ATTEMPTS,
                "baseDelay": BASE_DELAY_MS,
                "maxDelay": MAX_DELAY_MS,
                "stallTimeout": self.stall_ms,
            },
        });
        let call = |(call, abort_after): &(Call, Option<u64>)| {
            let mut call = match call {
                Call::Tensor(name) => json!({ "name": name }),
                Call::Rows(name, rows) => json!({ "name": name, "rows": [rows.start, rows.end] }),
                Call::Tensors(Some(names)) => json!({ "names": names }),
                Call::Tensors(None) => json!({}),
                Call::Prefetch(names) => json!({ "prefetch": names }),
                Call::Verify => json!({ "verify": true }),
                Call::Together => json!({ "together": true }),
                Call::BesidePaused(name) => json!({ "besidePaused": name }),
                Call::File(file, ranges) => {
                    let ranges: Vec<_> = ranges.iter().map(|range| [range.start, range.end]).collect();
                    json!({ "file": file, "ranges": ranges })
                }
            };
            if let (Some(bytes), Some(fields)) = (abort_after, call.as_object_mut()) {
                fields.insert("abortAfter".to_owned(), json!(bytes / ASSUMED_BYTES_PER_MS));
            }
            call
        };
        (options, self.calls.iter().map(call).collect())
    }

    /// Opens the model and makes the calls. Error codes are part of the outcome.
    ///
    /// # Errors
    /// For a wrong byte, and for an error that server faults cannot cause.
    pub async fn run(&self, model: &Model, server: &Server) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let url = &server.url();
        let loader = match Loader::open(HttpSource::new(url, &[])?, self.options.clone()).await {
            Ok(loader) => Rc::new(loader),
            Err(error) => {
                outcome.failed(&error)?;
                return Ok(outcome);
            }
        };
        let mut check = Check::new(model, server.habits().reveals_versions());
        let files = OpenFiles::new(url, self.options.retry);
        for (call, abort_after) in &self.calls {
            let limit = abort_after.map_or(u64::MAX, |bytes| loader.stats().bytes_received() + bytes);
            let work = pin!(call.run(&loader, &files, &mut check));
            let limit_reached = pin!(async {
                while loader.stats().bytes_received() < limit {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            });
            match future::select(work, limit_reached).await {
                Either::Left((Ok(tensors), _)) => outcome.tensors += tensors?,
                Either::Left((Err(error), _)) => outcome.failed(&error)?,
                Either::Right(_) => outcome.aborted += 1,
            }
        }
        outcome.bytes_received = loader.stats().bytes_received() + files.bytes_received();
        Ok(outcome)
    }
}

impl Outcome {
    fn failed(&mut self, error: &Error) -> Result<()> {
        let is_client_bug = matches!(
            error.kind,
            ErrorKind::Internal | ErrorKind::InvalidArgument | ErrorKind::NotFound | ErrorKind::Closed
        );
        ensure!(!is_client_bug, "not caused by a server fault: {error}");
        *self.errors.entry(error.code()).or_default() += 1;
        self.messages.push(error.to_string());
        Ok(())
    }
}

impl Call {
    fn new(model: &Model, random: &mut Random) -> Self {
        let [version, _] = &model.versions;
        let names: Vec<&String> = version.tensors.keys().collect();
        let some = |random: &mut Random| -> Vec<String> {
            names.iter().filter(|_| random.percent(50)).map(|name| (*name).clone()).collect()
        };
        let name = random.pick(&names).cloned().unwrap_or_default();
        let rows = version.tensors.get(&name).and_then(|tensor| tensor.shape.first().copied()).unwrap_or(0);
        match random.within(0..11) {
            0 | 1 => Call::Tensor(name),
            2 => {
                let start = random.within(0..rows);
                Call::Rows(name, start..random.within(start..rows) + 1)
            }
            3 => Call::Tensors(Some(some(random))),
            4 | 5 => Call::Tensors(None),
            6 => Call::Prefetch(some(random)),
            7 => Call::Together,
            8 => Call::BesidePaused(name),
            9 => Call::file(model, random),
            _ => Call::Verify,
        }
    }

    fn file(model: &Model, random: &mut Random) -> Self {
        let [version, _] = &model.versions;
        let mut names: Vec<_> = version.files.keys().collect();
        names.sort();
        let name = random.pick(&names).cloned().unwrap_or_default();
        let length = model.file_length(&name);
        let ranges = (0..random.within(1..5)).map(|_| {
            let start = random.within(0..length);
            let longest = if random.percent(50) { 1000 } else { length };
            start..(start + 1 + random.within(0..longest)).min(length)
        });
        Call::File(name, ranges.collect())
    }

    /// Makes the call. Returns how many tensors were loaded. The outer error is the loader's, the inner one reports
    /// wrong bytes.
    async fn run(
        &self,
        loader: &HttpLoader,
        files: &OpenFiles<'_>,
        check: &mut Check<'_>,
    ) -> Result<Result<u64>, Error> {
        match self {
            Call::Tensor(name) => {
                let loaded = loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await?;
                Ok(tensor(check, &loaded, None))
            }
            Call::Rows(name, rows) => {
                let request = TensorRequest::default().with_rows(Some(rows.clone()));
                let loaded = loader.load_tensor(name, request, Rc::new(())).await?;
                Ok(tensor(check, &loaded, Some(rows)))
            }
            Call::Tensors(names) => check_all(check, loader.tensors(names.clone(), Rc::new(())).await?).await,
            Call::Prefetch(names) => {
                let loads = async {
                    let mut count = 0;
                    for name in names.iter().rev() {
                        let loaded = loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await?;
                        match tensor(check, &loaded, None) {
                            Ok(one) => count += one,
                            wrong => return Ok(wrong),
                        }
                    }
                    Ok(Ok(count))
                };
                // The following calls must not use prefetched tensors that are left over.
                let outcome = match future::select(pin!(loader.prefetch(names.clone(), Rc::new(()))), pin!(loads)).await
                {
                    Either::Left((_, loads)) => loads.await,
                    Either::Right((outcome, _)) => outcome,
                };
                loader.forget_prefetched();
                outcome
            }
            Call::Verify => loader.verify(Rc::new(())).await.map(|_| Ok(0)),
            Call::Together => {
                let all = async || loader.tensors(None, Rc::new(())).await?.try_collect::<Vec<_>>().await;
                let (first, second, verified) = future::join3(all(), all(), loader.verify(Rc::new(()))).await;
                verified?;
                let loaded: Vec<_> = first?.into_iter().chain(second?).map(Ok).collect();
                check_all(check, stream::iter(loaded)).await
            }
            Call::BesidePaused(name) => {
                let mut paused = Box::pin(loader.tensors(None, Rc::new(())).await?);
                let first = paused.try_next().await?;
                let loaded = loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await?;
                check_all(check, stream::iter(first.into_iter().chain([loaded]).map(Ok))).await
            }
            Call::File(name, ranges) => files.read(check.model, name, ranges).await,
        }
    }
}

/// Checks all tensors of a stream. Returns how many there were.
async fn check_all(
    check: &mut Check<'_>,
    tensors: impl Stream<Item = Result<Loaded<Vec<u8>>, Error>>,
) -> Result<Result<u64>, Error> {
    let mut tensors = pin!(tensors);
    let mut count = 0;
    while let Some(loaded) = tensors.next().await {
        match tensor(check, &loaded?, None) {
            Ok(one) => count += one,
            wrong => return Ok(wrong),
        }
    }
    Ok(Ok(count))
}

fn tensor(check: &mut Check<'_>, loaded: &Loaded<Vec<u8>>, rows: Option<&Range<u64>>) -> Result<u64> {
    let name = &loaded.tensor.name;
    let [component] = loaded.components.as_slice() else { bail!("{name} has {} components", loaded.components.len()) };
    let rows = rows.map(|rows| (rows.start, rows.end));
    check.tensor(name, Some(loaded.tensor.shard), rows, |expected| expected == &component.buffer[..])?;
    Ok(1)
}
