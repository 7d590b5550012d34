//! The whole load, over a network that follows a script: whatever it does, a tensor that is handed out has the file's
//! own bytes.

use arbitrary::Arbitrary;
use futures::executor::block_on;
use futures::stream::StreamExt;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use weightstream::loader::{Loader, Options, TensorRequest};
use weightstream::native::Reader;
use weightstream::source::memory::{MemoryBody, MemorySource};
use weightstream::source::{Answer, Body, Source};
use weightstream::{Error, ErrorKind, Result};

/// What the network does, request by request; after its end it behaves.
#[derive(Debug, Arbitrary)]
pub struct Script {
    requests: Vec<Behaviour>,
    concurrency: u8,
    gap: u16,
}

/// What happens to one request.
#[derive(Debug, Clone, Arbitrary)]
enum Behaviour {
    /// The body comes in pieces of at most so many bytes.
    Pieces(u8),
    /// The body breaks after so many bytes.
    Breaks(u16),
    /// The connection closes after so many bytes as if that were all.
    EndsEarly(u16),
    /// No answer; it may pass.
    Refuses,
    /// The whole file instead of the range.
    IgnoresTheRange,
    /// The file is another one from here on.
    Changed,
}

/// Loads `file` over a network of this script and compares every tensor with what the native reader has.
pub fn load(script: Script, file: &[u8]) {
    let expected = Reader::from_bytes(vec![("m".to_owned(), file.to_vec())]).ok().and_then(whole);
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

/// Every component's bytes, by tensor and role.
type Whole = HashMap<(String, String), Vec<u8>>;

/// `None` for a file in which something is damaged.
fn whole(reader: Reader) -> Option<Whole> {
    let mut all = Whole::new();
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

fn compare(expected: &Option<Whole>, loaded: &weightstream::loader::Loaded<Vec<u8>>) {
    let expected = expected.as_ref().expect("the loader opened what the reader refuses");
    for component in &loaded.components {
        let key = (loaded.tensor.name.clone(), component.role.to_string());
        assert!(expected.get(&key) == Some(&component.buffer), "{key:?} has other bytes than in the file");
    }
}

#[derive(Clone)]
struct Scripted {
    memory: MemorySource,
    length: u64,
    /// The next one last.
    behaviours: Rc<RefCell<Vec<Behaviour>>>,
}

impl Source for Scripted {
    type Body = ScriptedBody;

    fn name(&self) -> &str {
        "m"
    }

    fn file_name(&self) -> Option<String> {
        Some("m".to_owned())
    }

    async fn read(&self, range: Range<u64>) -> Result<Answer<ScriptedBody>> {
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

    fn part(&self, path: &str) -> Result<Self> {
        Ok(Scripted { memory: self.memory.part(path)?, ..self.clone() })
    }

    async fn pause(&self, _: u64) {}

    fn now_ms(&self) -> u64 {
        self.memory.now_ms()
    }

    fn random(&self) -> f64 {
        0.5
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
