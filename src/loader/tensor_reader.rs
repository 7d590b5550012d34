//! Streams tensors one after another, for callers that forward the bytes instead of holding whole tensors.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Algorithm, Tensor};
use crate::loader::component_reader::{ComponentReader, PreparedComponent, WantedComponent};
use crate::loader::pieces::{Rest, run_end};
use crate::loader::quantized::QuantizedReader;
use crate::loader::schedule::rows::rows_of;
use crate::loader::{Loader, Order};
use crate::sorting::sort;
use crate::source::{BufferOf, ModelSource};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Reads tensors of one component in file order, in pieces. Tensors that follow each other in a file take one request.
///
/// A tensor that is read completely is verified before its last bytes are returned. Checksums of whole files are not
/// compared.
pub struct TensorReader<S: ModelSource> {
    loader: Rc<Loader<S>>,
    waiting: VecDeque<Arc<Tensor>>,
    rows: Option<Range<u64>>,
    rest: Rest<S>,
    /// The dtype of the values of quantized tensors of several components, which are read as floats.
    dtype: Option<Dtype>,
    current: Option<Current<S>>,
}

/// The tensor that is being read.
enum Current<S: ModelSource> {
    Component(Arc<Tensor>, Box<ComponentReader<S>>),
    /// One whose values are computed from parts that were loaded.
    Quantized(Box<QuantizedReader<BufferOf<S>>>),
}

/// A tensor that a [`TensorReader`] has begun to read.
#[derive(Debug)]
#[non_exhaustive]
pub struct BegunTensor {
    /// The tensor's entry in the index.
    pub tensor: Arc<Tensor>,
    /// The dtype of what is read: that of the tensor, or the floats that a quantized one is converted to.
    pub dtype: Dtype,
    /// The shape of what is read. If only rows were requested, the outermost dimension is their number.
    pub shape: Vec<u64>,
    /// The number of decoded bytes that follow.
    pub byte_length: u64,
    /// The range of the file that contains them, as they are stored.
    #[cfg(feature = "js")]
    pub(crate) stored: Range<u64>,
}

impl<S: ModelSource> Loader<S> {
    /// Starts to stream the named tensors, or all, in file order; with `rows` only these rows of each. Reads the
    /// indexes that are needed, but no tensor.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown name; errors of [`Loader::load_index`].
    pub async fn read_tensors(
        self: &Rc<Self>,
        names: Option<Vec<String>>,
        rows: Option<Range<u64>>,
    ) -> Result<TensorReader<S>> {
        self.read_tensors_by(names, rows, Order::File, None).await
    }

    pub(crate) async fn read_tensors_by(
        self: &Rc<Self>,
        names: Option<Vec<String>>,
        rows: Option<Range<u64>>,
        order: Order,
        dtype: Option<Dtype>,
    ) -> Result<TensorReader<S>> {
        let mut tensors = match names {
            None => self.load_index().await?.to_vec(),
            Some(names) => self.find_all(names).await?,
        };
        if order == Order::File {
            sort(&mut tensors, |tensor| (tensor.shard as u64, tensor.first_byte(), 0));
        }
        Ok(TensorReader {
            loader: Rc::clone(self),
            waiting: tensors.into(),
            rows,
            rest: Rest::with_limited_requests(),
            dtype,
            current: None,
        })
    }
}

impl<S: ModelSource> TensorReader<S> {
    /// Begins the next tensor. Returns `None` after the last one. The rest of the current tensor is skipped.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a tensor of several components, or of unknown length; `INVALID_ARGUMENT` for rows out of
    /// range; errors of reading page digests.
    pub async fn next(&mut self) -> Result<Option<BegunTensor>> {
        if let Some(Current::Component(tensor, reader)) = self.current.take() {
            self.rest.keep(tensor.shard, reader.into_reading());
        }
        let Some(tensor) = self.waiting.pop_front() else { return Ok(None) };
        let dtype = self.dtype.clone().or_else(|| tensor.is_adapted().then(|| tensor.dtype.clone()));
        if let Some(dtype) = dtype.filter(|_| tensor.quantized().is_some()) {
            return self.begin_quantized(tensor, &dtype).await.map(Some);
        }
        let TensorReader { loader, waiting, rows, rest, .. } = self;
        let rows = rows.clone().map(|rows| rows_of(&tensor, rows, None)).transpose()?;
        let refuse = |what| Err(Error::new(ErrorKind::Unsupported, what).in_tensor(&tensor.name));
        if tensor.quantized().is_some() {
            let refused = refuse("its codes and scales are several components, and only its values can be streamed");
            return refused.map_err(|error| error.advise("Load it as floats (`as`)."));
        }
        let [component] = tensor.components.as_slice() else {
            return refuse("it has several components, and only tensors of one component can be streamed");
        };
        let Some(length) = component.decoded_length else { return refuse("its file does not state its length") };
        let bytes = rows.as_ref().map_or(0..length, |rows| rows.bytes.clone());
        let byte_length = bytes.end - bytes.start;
        let file = loader.file_of(&tensor)?;
        let gap_bytes = loader.options.coalesce_gap_bytes;
        let run_end = || match rows {
            Some(_) => 0,
            None => run_end(&tensor, waiting.iter().map(|next| &**next), gap_bytes),
        };
        let wanted = WantedComponent { tensor: &tensor, component, range: Some(bytes) };
        let prepared = PreparedComponent::new(loader, &file, wanted).await?;
        #[cfg(feature = "js")]
        let stored = prepared.stored();
        let reading = rest.reader(loader, &file, tensor.shard, prepared.stored(), &run_end).await;
        let reader = prepared.start(reading.map_err(|e| file.reject_if_corrupt(e.in_tensor(&tensor.name)))?);
        self.current = Some(Current::Component(Arc::clone(&tensor), Box::new(reader)));
        let shape = rows.map_or_else(|| tensor.shape.clone(), |rows| rows.shape);
        Ok(Some(BegunTensor {
            dtype: tensor.dtype.clone(),
            tensor,
            shape,
            byte_length,
            #[cfg(feature = "js")]
            stored,
        }))
    }

    /// Loads the parts of a quantized tensor, from which its values are computed in pieces.
    async fn begin_quantized(&mut self, tensor: Arc<Tensor>, dtype: &Dtype) -> Result<BegunTensor> {
        let reader = self.loader.quantized_reader(&tensor, self.rows.as_ref(), dtype).await?;
        let (shape, byte_length) = (reader.shape.clone(), reader.byte_length());
        self.current = Some(Current::Quantized(Box::new(reader)));
        Ok(BegunTensor {
            #[cfg(feature = "js")]
            stored: tensor.first_byte()..tensor.first_byte(),
            tensor,
            shape,
            byte_length,
            dtype: dtype.clone(),
        })
    }

    /// Fills `at` of `into` with the next bytes of the current tensor, and returns how many there are: fewer than fit
    /// only at its end.
    ///
    /// # Errors
    /// Errors of the source and the decoders; `CHECKSUM` if the last bytes complete a tensor that does not match its
    /// digest.
    pub async fn fill(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let _goes_first = self.loader.priority.demand();
        let count = match &mut self.current {
            Some(Current::Component(_, reader)) => reader.fill(into, at).await?,
            Some(Current::Quantized(reader)) => reader.fill(into, at)?,
            None => return Ok(0),
        };
        self.loader.stats.count_decoded(count);
        Ok(count)
    }

    /// The tensors that were not begun yet.
    #[cfg(feature = "js")]
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Tensor> {
        self.waiting.iter().map(|tensor| &**tensor)
    }

    /// The algorithm that the current tensor was verified with, once its last bytes were returned.
    pub fn verified(&self) -> Option<Algorithm> {
        match self.current.as_ref()? {
            Current::Component(_, reader) => reader.verified(),
            Current::Quantized(reader) => reader.verified,
        }
    }
}

impl<S: ModelSource> std::fmt::Debug for TensorReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorReader").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
