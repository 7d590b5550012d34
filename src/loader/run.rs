//! One long read that feeds many tensors.

use super::Loaded;
use super::file::{ModelFile, Reading, cut};
use super::operation::{Operation, Purpose};
use crate::codec::Decoder;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Component;
use crate::plan::{Run, Wanted};
use crate::source::{Body, Buffer, Source};
use std::ops::Range;
use std::rc::Rc;

/// Reads a [`Run`] and yields each tensor as its last byte arrives.
pub(crate) struct RunReader<S: Source> {
    operation: Rc<Operation<S>>,
    file: Rc<ModelFile<S>>,
    run: Run<Purpose>,
    next: usize,
    reading: Option<Reading<S::Body>>,
    connection: Option<usize>,
}

impl<S: Source> RunReader<S> {
    pub(crate) fn new(operation: Rc<Operation<S>>, file: Rc<ModelFile<S>>, run: Run<Purpose>) -> Self {
        RunReader { operation, file, run, next: 0, reading: None, connection: None }
    }

    /// The next tensor that is complete; `None` at the end of the run.
    pub(crate) async fn next(&mut self) -> Result<Option<Loaded<<S::Body as Body>::Buffer>>> {
        let mut reading = match self.reading.take() {
            Some(reading) => reading,
            None => {
                self.connection = Some(self.operation.take_connection());
                self.file.start(self.run.range.clone()).await.map_err(|e| self.place(e))?
            }
        };
        while let Some(wanted) = self.run.wanted.get(self.next).cloned() {
            self.next += 1;
            self.pass_over(&mut reading, wanted.range.start, None).await.map_err(|e| self.place(e))?;
            if let Some(loaded) = self.receive(&mut reading, &wanted).await? {
                self.reading = Some(reading);
                return Ok(Some(loaded));
            }
        }
        self.file.finish(reading);
        Ok(None)
    }

    async fn receive(
        &self,
        reading: &mut Reading<S::Body>,
        wanted: &Wanted<Purpose>,
    ) -> Result<Option<Loaded<<S::Body as Body>::Buffer>>> {
        match wanted.purpose {
            Purpose::Gap => {
                self.pass_over(reading, wanted.range.end, self.file.length()).await.map_err(|e| self.place(e))?;
                Ok(None)
            }
            Purpose::Component { order, component } => {
                let tensor = self.operation.tensor(order)?;
                let received = match tensor.components.get(component) {
                    Some(part) => self.component(reading, wanted, order, part).await,
                    None => Err(Error::new(ErrorKind::Internal, "a component that is not there was planned")),
                };
                let buffer = received.map_err(|e| self.place(e.in_tensor(&tensor.name)))?;
                self.operation.deliver(order, component, buffer)
            }
        }
    }

    /// Reads on to `end` for nobody. The file's tail is remembered rather than summed up: it holds the
    /// checksum, and the checksum's own stretch ends somewhere in it.
    async fn pass_over(&self, reading: &mut Reading<S::Body>, end: u64, file_length: Option<u64>) -> Result<()> {
        let (start, is_tail) = (reading.position, file_length == Some(end));
        let mut crc32 = crc32fast::Hasher::new();
        while reading.position < end {
            let at = reading.position;
            let chunk = reading.chunk(end - at).await?.ok_or_else(|| cut(start, at, end))?;
            if self.operation.whole {
                chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                    if is_tail {
                        self.file.remember(at, bytes);
                    } else {
                        crc32.update(bytes);
                    }
                    Ok(())
                })?;
            }
            let length = chunk.length;
            self.operation.arrived(self.run.shard, at..at + length, self.connection, None);
        }
        if self.operation.whole && !is_tail {
            self.file.crc32.borrow_mut().add(start..end, crc32.finalize());
        }
        Ok(())
    }

    /// Reads one component into its buffer; `None` where nothing is kept.
    async fn component(
        &self,
        reading: &mut Reading<S::Body>,
        wanted: &Wanted<Purpose>,
        order: usize,
        component: &Component,
    ) -> Result<Option<<S::Body as Body>::Buffer>> {
        let (tensor, keep) = (self.operation.tensor(order)?, self.operation.keep(order, component)?);
        let mut crc32 = self.operation.whole.then(crc32fast::Hasher::new);
        let mut buffer = self.operation.buffer(order, &keep)?;
        let mut decoder = Decoder::new(component);
        let mut decoded_position = 0;
        while reading.position < wanted.range.end && decoded_position < keep.end.max(1) {
            let (at, left) = (reading.position, wanted.range.end - reading.position);
            let ended = || cut(wanted.range.start, at, wanted.range.end);
            let count = match (&mut buffer, &mut decoder) {
                (Some(buffer), None) => {
                    let into = at - wanted.range.start;
                    let count = reading.read(buffer, into..into + left).await?;
                    if let Some(crc32) = &mut crc32 {
                        buffer.inspect(into..into + count, &mut |bytes| {
                            crc32.update(bytes);
                            Ok(())
                        })?;
                    }
                    count
                }
                (buffer, decoder) => {
                    let chunk = reading.chunk(left).await?.ok_or_else(ended)?;
                    chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                        if let Some(crc32) = &mut crc32 {
                            crc32.update(bytes);
                        }
                        let Some(decoder) = decoder else { return Ok(()) };
                        decoder.push(bytes, &mut |decoded| {
                            let start = decoded_position;
                            decoded_position += decoded.len() as u64;
                            match buffer {
                                Some(buffer) => write_kept(buffer, &keep, start, decoded),
                                None => Ok(()),
                            }
                        })
                    })?;
                    chunk.length
                }
            };
            if count == 0 {
                return Err(ended());
            }
            self.operation.arrived(self.run.shard, at..at + count, self.connection, Some(&tensor.name));
        }
        match decoder {
            Some(decoder) if Some(keep.end) == component.decoded_length => decoder.finish()?,
            _ => {}
        }
        if let Some(crc32) = crc32 {
            self.file.crc32.borrow_mut().add(wanted.range.clone(), crc32.finalize());
        }
        Ok(buffer)
    }

    fn place(&self, error: Error) -> Error {
        error.in_file(self.file.source.name())
    }
}

impl<S: Source> Drop for RunReader<S> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection {
            self.operation.return_connection(connection);
        }
    }
}

/// Writes what is to be kept of `decoded`, which begins at decoded byte `start`.
fn write_kept<B: Buffer>(buffer: &mut B, keep: &Range<u64>, start: u64, decoded: &[u8]) -> Result<()> {
    let first = keep.start.max(start);
    let last = keep.end.min(start + decoded.len() as u64);
    if first >= last {
        return Ok(());
    }
    let kept = decoded.get((first - start) as usize..(last - start) as usize).unwrap_or_default();
    buffer.write(first - keep.start, kept)
}
