//! Fuzzes a load over a scripted network: every returned tensor must have the bytes of the file.

use arbitrary::Arbitrary;
use futures::executor::block_on;
use futures::stream::StreamExt;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use weightstream::internals::loader::{Loader, Options, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::{MemoryBody, MemorySource};
use weightstream::internals::source::{Body, CacheHints, Host, ModelSource, RangeResponse, Source};
use weightstream::{Error, ErrorKind, Result};

/// The behaviour of the network for each request. Later requests succeed.
#[derive(Debug, Arbitrary)]
pub struct Script {
    requests: Vec<Behaviour>,
    concurrency: u8,
    gap: u16,
}

/// The behaviour of one request.
#[derive(Debug, Clone, Arbitrary)]
enum Behaviour {
    /// The body arrives in chunks of at most this many bytes.
    Pieces(u8),
    /// The body fails after this many bytes.
    Breaks(u16),
    /// The body ends after this many bytes without an error.
    EndsEarly(u16),
    /// The request fails with a transient error.
    Refuses,
    /// The response has the whole file instead of the range.
    IgnoresTheRange,
    /// The response has another ETag, as if the file had changed.
    Changed,
}

/// Loads `file` over a network with this script and compares every tensor with the result of the native reader.
pub fn load(script: Script, file: &[u8]) {
    let expected = Reader::from_bytes(vec![("m".to_owned(), file.to_vec())]).ok().and_then(read_all);
    let options = Options::default()
        .with_concurrency(usize::from(script.concurrency % 6) + 1)
        .with_coalesce_gap_bytes(script.gap.into());
    let mut behaviours = script.requests;
    behaviours.truncate(64);
    behaviours.reverse();
    let memory = MemorySource::new(vec![("m".to_owned(), file.to_vec().into())]).expect("there is a file");
    let source = Scripted { memory, length: file.len() as u64, behaviours: Rc::new(RefCell::new(behaviours)) };
    block_on(async {
        let Ok(loader) = Loader::open(source, options).await.map(Rc::new) else { return };
        let Ok(index) = loader.load_index().await else { return };
        let all: Vec<_> = index.iter().map(|tensor| tensor.name.clone()).collect();
        for name in all.iter().take(3) {
            if let Ok(loaded) = loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await {
                compare(&expected, &loaded);
            }
        }
        let Ok(stream) = loader.tensors(None, Rc::new(())).await else { return };
        let mut stream = pin!(stream);
        while let Some(Ok(loaded)) = stream.next().await {
            compare(&expected, &loaded);
        }
    });
}

/// The bytes of each component, by tensor name and role.
type Contents = HashMap<(String, String), Vec<u8>>;

/// Reads all components. Damaged ones are missing in the result.
fn read_all(reader: Reader) -> Option<Contents> {
    let mut all = Contents::new();
    for tensor in reader.tensors() {
        for component in &tensor.components {
            let mut bytes = Vec::new();
            let take = &mut |piece: &[u8]| {
                bytes.extend_from_slice(piece);
                Ok(())
            };
            if reader.read_pieces(&tensor.name, &component.role, take).is_ok() {
                all.insert((tensor.name.clone(), component.role.to_string()), bytes);
            }
        }
    }
    Some(all)
}

fn compare(expected: &Option<Contents>, loaded: &weightstream::internals::loader::Loaded<Vec<u8>>) {
    let expected = expected.as_ref().expect("the loader opened a file that the reader rejects");
    for component in &loaded.components {
        let key = (loaded.tensor.name.clone(), component.role.to_string());
        assert!(expected.get(&key) == Some(&component.buffer), "{key:?} differs from the file");
    }
}

#[derive(Clone)]
struct Scripted {
    memory: MemorySource,
    length: u64,
    /// The remaining behaviours in reverse order.
    behaviours: Rc<RefCell<Vec<Behaviour>>>,
}

impl CacheHints for Scripted {}

impl Source for Scripted {
    type Body = ScriptedBody;

    fn name(&self) -> &str {
        "m"
    }

    async fn read(&self, range: Range<u64>) -> Result<RangeResponse<ScriptedBody>> {
        let behaviour = self.behaviours.borrow_mut().pop().unwrap_or(Behaviour::Pieces(u8::MAX));
        let ignores = matches!(behaviour, Behaviour::IgnoresTheRange);
        if matches!(behaviour, Behaviour::Refuses) {
            return Err(Error::new(ErrorKind::Network, "no answer").transient());
        }
        let asked = if ignores { 0..self.length.max(1) } else { range };
        let mut answer = self.memory.read(asked).await?;
        answer.is_whole_file = ignores;
        let etag = if matches!(behaviour, Behaviour::Changed) { "\"another\"" } else { "\"first\"" };
        answer.identity.etag = Some(etag.to_owned());
        Ok(answer.map(|body| ScriptedBody { body, behaviour, sent: 0 }))
    }

    fn host(&self) -> &dyn Host {
        self.memory.host()
    }
}

impl ModelSource for Scripted {
    fn file_name(&self) -> Option<String> {
        Some("m".to_owned())
    }

    fn part(&self, path: &str) -> Result<Self> {
        Ok(Scripted { memory: self.memory.part(path)?, ..self.clone() })
    }
}

struct ScriptedBody {
    body: MemoryBody,
    behaviour: Behaviour,
    sent: u64,
}

impl Body for ScriptedBody {
    type Buffer = Vec<u8>;

    async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
        let most = match self.behaviour {
            Behaviour::Pieces(most) => u64::from(most).max(1),
            Behaviour::Breaks(after) | Behaviour::EndsEarly(after) => u64::from(after).saturating_sub(self.sent),
            _ => u64::MAX,
        };
        if most == 0 {
            return match self.behaviour {
                Behaviour::Breaks(_) => Err(Error::new(ErrorKind::Network, "the connection broke").transient()),
                _ => Ok(0),
            };
        }
        let end = at.end.min(at.start.saturating_add(most));
        let read = self.body.read(into, at.start..end).await?;
        self.sent += read;
        Ok(read)
    }
}
