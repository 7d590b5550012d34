//! Loads rows of a tensor whose numbers are split into streams: of each stream only the part with the rows is read.

use crate::buffer::Buffer;
use crate::error::{ErrorKind, Result, malformed};
use crate::index::{Layout, Tensor};
use crate::loader::component_reader::{PreparedComponent, WantedComponent};
use crate::loader::schedule::planned::Form;
use crate::loader::schedule::rows::Rows;
use crate::loader::transfer::file::ModelFile;
use crate::loader::{Loaded, LoadedComponent, Loader};
use crate::progress::{BytesArrived, Progress};
use crate::source::{BufferOf, ModelSource};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The initial length of the buffer for rows.
const INITIAL_BYTES: u64 = 4 << 20;

impl<S: ModelSource> Loader<S> {
    /// Loads rows of a tensor with streams.
    ///
    /// # Errors
    /// As for [`Loader::load_tensor`].
    pub(super) async fn load_stream_rows(
        &self,
        tensor: &Arc<Tensor>,
        rows: &Rows,
        into: Option<BufferOf<S>>,
        form: Form<'_>,
        observer: &dyn Progress,
    ) -> Result<Loaded<BufferOf<S>>> {
        let planned = self.plan(Arc::clone(tensor), Some(rows.clone()), into, form)?;
        let file = self.file_of(tensor)?;
        let data = match self.read_stream_rows(tensor, rows, &file, observer).await {
            // The file may be wrong about its frames: the streams are then read from their start.
            Err(error) if error.kind == ErrorKind::Format => {
                distrust_frames(&file, tensor);
                self.read_stream_rows(tensor, rows, &file, observer).await?
            }
            data => data?,
        };
        self.stats.count_decoded(data.byte_length());
        let data = LoadedComponent { role: "data".into(), dtype: tensor.dtype.clone(), buffer: data };
        let loaded = Loaded {
            tensor: Arc::clone(tensor),
            dtype: tensor.dtype.clone(),
            layout: Layout::Dense,
            shape: rows.shape.clone(),
            components: vec![data],
            verified: file.signed_by(),
        };
        match planned.conversion {
            Some(conversion) => loaded.converted(&conversion, planned.into),
            None => loaded.placed(planned.into),
        }
    }

    async fn read_stream_rows(
        &self,
        tensor: &Tensor,
        rows: &Rows,
        file: &Rc<ModelFile<S>>,
        observer: &dyn Progress,
    ) -> Result<BufferOf<S>> {
        let byte_length = rows.bytes.end - rows.bytes.start;
        let Some(component) = tensor.components.first().filter(|_| byte_length > 0) else {
            return BufferOf::<S>::allocate(0);
        };
        let wanted = WantedComponent { tensor, component, range: Some(rows.bytes.clone()) };
        let prepared = PreparedComponent::new(self, file, wanted).await?;
        let ranges = prepared.stored_ranges();
        observer.expects(ranges.iter().map(|range| range.end - range.start).sum());
        let stored = prepared.stored();
        let mut reader = prepared.start(file.start(stored.clone(), Rc::new(Cell::new(stored.end))));
        // The buffer grows with the bytes that arrive: a small file can state any length.
        let mut buffer = BufferOf::<S>::allocate(byte_length.min(INITIAL_BYTES))?;
        let mut filled = 0;
        while filled < byte_length {
            let length = buffer.byte_length();
            filled += reader.fill(&mut buffer, filled..length).await?;
            if filled < length {
                return Err(malformed("its streams end before its rows").in_tensor(&tensor.name));
            }
            if length < byte_length {
                buffer.resize(length.saturating_mul(2).min(byte_length))?;
            }
        }
        for range in ranges {
            let (shard, connection) = (tensor.shard, 0);
            observer.arrived(BytesArrived { shard, range, connection, tensor: Some(&tensor.name) });
        }
        Ok(buffer)
    }
}

/// Ignores from now on what the file states about the frames of the streams.
fn distrust_frames<S: ModelSource>(file: &ModelFile<S>, tensor: &Tensor) {
    let streams = tensor.components.iter().filter_map(|component| component.streams());
    for stream in streams.flat_map(|streams| streams.iter()) {
        file.blocks.distrust(stream.range.start);
    }
}
