//! From tensors that are wanted to runs that are read at once, and the tensors that come out of them.

use super::operation::{Operation, Order};
use super::room::Room;
use super::run::RunReader;
use super::stats::Observer;
use super::{BufferOf, Loaded, Loader, whole};
use crate::error::Result;
use crate::index::Tensor;
use crate::plan;
use crate::source::Source;
use futures::stream::{self, Stream, StreamExt};
use std::rc::Rc;

impl<S: Source> Loader<S> {
    pub(super) async fn stream(
        self: &Rc<Self>,
        tensors: Vec<Rc<Tensor>>,
        keeps: bool,
        whole: bool,
        room: Rc<Room>,
        observer: Rc<dyn Observer>,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        let orders = tensors.into_iter().map(|tensor| Order { tensor, rows: None, into: None }).collect();
        self.stream_orders(orders, keeps, whole, room, observer).await
    }

    pub(super) async fn stream_orders(
        self: &Rc<Self>,
        orders: Vec<Order<BufferOf<S>>>,
        keeps: bool,
        whole: bool,
        room: Rc<Room>,
        observer: Rc<dyn Observer>,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        let verify = whole || self.options.verify;
        if verify {
            self.read_pages(&orders).await?;
        }
        let operation = Rc::new(Operation::new(orders, keeps, whole, verify, observer, Rc::clone(&self.stats), room));
        let mut wanted = operation.wanted(|shard, table| self.shards.get(shard)?.file.known_pages(table));
        let mut begun = Ok(());
        if whole {
            begun = self.shards.iter().try_for_each(|shard| whole::begin(&shard.file, shard.part.as_ref()));
            whole::add_gaps(&mut wanted, self.shards.iter().map(|shard| shard.file.length()));
        }
        // What comes from its start each time is read once, whatever lies between.
        let from_start = |shard: usize| self.shards.get(shard).is_some_and(|shard| shard.file.comes_from_start());
        let gap = |shard| if from_start(shard) { u64::MAX } else { self.options.coalesce_gap_bytes };
        let runs = plan::plan(wanted, gap);
        let files: Vec<_> = self.shards.iter().map(|shard| Rc::clone(&shard.file)).collect();
        let readers = runs.into_iter().filter_map(move |run| {
            let file = Rc::clone(files.get(run.shard)?);
            Some(RunReader::new(Rc::clone(&operation), file, run))
        });
        let streams = readers.map(|reader| {
            let step = async |mut reader: RunReader<S>| Ok(reader.next().await?.map(|loaded| (loaded, reader)));
            stream::try_unfold(reader, step).boxed_local()
        });
        let loader = Rc::clone(self);
        let check = async move { if whole { loader.finish_files().await } else { Ok(()) } };
        let check = stream::once(check).filter_map(async |outcome: Result<()>| outcome.err().map(Err));
        let begun = stream::iter(begun.err().map(Err));
        Ok(begun.chain(stream::iter(streams).flatten_unordered(self.options.concurrency)).chain(check))
    }

    /// Reads the digests of the pages that orders will be checked by.
    async fn read_pages(&self, orders: &[Order<BufferOf<S>>]) -> Result<()> {
        for Order { tensor, rows, .. } in orders {
            for table in tensor.components.iter().filter_map(|component| component.checking_pages(rows.is_none())) {
                if let Some(shard) = self.shards.get(tensor.shard) {
                    shard.file.read_pages(table).await.map_err(|e| e.in_tensor(&tensor.name))?;
                }
            }
        }
        Ok(())
    }
}
