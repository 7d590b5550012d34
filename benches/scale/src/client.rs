//! One client: the native loader, which is used as an app uses it. It compares every byte with the model.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::{Digests, Loaded, Loader, Options, TensorRequest};
use weightstream::internals::source::http::HttpSource;

use crate::model::{self, Model};

/// How many rows a client reads, in consecutive pairs, like the embeddings of a short text.
const ROWS: usize = 16;

/// A client that has opened the model.
pub(crate) struct Client {
    model: Rc<Model>,
    loader: Rc<Loader<HttpSource>>,
    random: fastrand::Rng,
    start: Instant,
}

/// What a client has measured, since its start.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) open: Duration,
    pub(crate) rows: Duration,
    pub(crate) first_tensor: Duration,
    pub(crate) total: Duration,
    /// The requests of the loader.
    pub(crate) requests: u64,
    /// The bytes that the loader received.
    pub(crate) bytes: u64,
}

impl Client {
    /// Opens the model at the addresses of the client's lines, of which the first is that of the model, and the others
    /// those of mirrors. Every tensor is pinned by its SHA-256.
    pub(crate) async fn open(model: Rc<Model>, addresses: &[SocketAddr], seed: u64) -> Result<Client> {
        let start = Instant::now();
        let mut urls = addresses.iter().map(|address| format!("http://{address}/{}", model::ENTRY));
        let mut source = HttpSource::new(&urls.next().context("a client has no address")?, &[])?;
        if addresses.len() > 1 {
            source = source.with_mirrors(urls)?;
        }
        let pinned = model.shards.iter().flatten();
        let pinned: HashMap<_, _> = pinned.map(|tensor| (tensor.name.clone(), Digest::Sha256(tensor.sha256))).collect();
        let options = Options::default().with_digests(Digests::default().with_tensors(pinned));
        let loader = Rc::new(Loader::open(source, options).await?);
        Ok(Client { model, loader, random: fastrand::Rng::with_seed(seed), start })
    }

    /// Reads rows, then loads the tensors of `shards` consecutive shards, of which the first is chosen at random.
    pub(crate) async fn visit(mut self, shards: usize) -> Result<Visit> {
        let open = self.start.elapsed();
        self.read_rows().await?;
        let rows = self.start.elapsed();
        let first = self.random.usize(0..self.model.shards.len());
        let mut first_tensor = None;
        for shard in self.model.shards.iter().cycle().skip(first).take(shards) {
            let names = shard.iter().map(|tensor| tensor.name.clone()).collect();
            let mut tensors = pin!(self.loader.tensors(Some(names), Rc::new(())).await?);
            let mut count = 0;
            while let Some(tensor) = tensors.try_next().await? {
                self.check(&tensor, None)?;
                first_tensor.get_or_insert_with(|| self.start.elapsed());
                count += 1;
            }
            ensure!(count == shard.len(), "{count} of {} tensors were loaded", shard.len());
        }
        let stats = self.loader.stats();
        Ok(Visit {
            open,
            rows,
            first_tensor: first_tensor.context("no tensor was loaded")?,
            total: self.start.elapsed(),
            requests: stats.requests(),
            bytes: stats.bytes_received(),
        })
    }

    /// Loads a random tensor.
    pub(crate) async fn load_one(&mut self) -> Result<()> {
        let tensors = self.model.shards.iter().flatten();
        let tensor = self.random.choice(tensors.collect::<Vec<_>>()).context("the model has no tensor")?;
        let loaded = self.loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await?;
        self.check(&loaded, None)
    }

    async fn read_rows(&mut self) -> Result<()> {
        let embedding = self.model.embedding()?;
        let name = embedding.name.clone();
        let rows = embedding.bytes.len() / model::ROW_BYTES;
        for _ in 0..ROWS / 2 {
            let start = self.random.usize(0..rows - 1);
            let request = TensorRequest::default().with_rows(Some(start as u64..start as u64 + 2));
            let loaded = self.loader.load_tensor(&name, request, Rc::new(())).await?;
            self.check(&loaded, Some(start..start + 2))?;
        }
        Ok(())
    }

    fn check(&self, loaded: &Loaded<Vec<u8>>, rows: Option<Range<usize>>) -> Result<()> {
        let name = &loaded.tensor.name;
        let expected = &self.model.tensor(name).with_context(|| format!("{name} is not in the model"))?.bytes;
        let range = rows.map_or(0..expected.len(), |rows| rows.start * model::ROW_BYTES..rows.end * model::ROW_BYTES);
        let [component] = loaded.components.as_slice() else { anyhow::bail!("{name} has several components") };
        ensure!(expected.get(range) == Some(&component.buffer[..]), "wrong bytes in {name}");
        Ok(())
    }
}
