//! Loads one tensor, with priority over prefetching.

#[cfg(feature = "js")]
use crate::codec::cast::check_float;
use crate::deferred::Code;
#[cfg(feature = "js")]
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "js")]
use crate::index::Layout;
use crate::index::Tensor;
use crate::loader::prefetch_progress::report_all;
use crate::loader::schedule::batch::Call;
use crate::loader::schedule::planned::{Form, PlannedTensor};
use crate::loader::schedule::rows::{Rows, rows_of};
use crate::loader::{Loaded, Loader, TensorRequest};
use crate::pipeline::check_indices;
use crate::progress::Progress;
use crate::source::{BufferOf, ModelSource};
use futures::future::{FutureExt, LocalBoxFuture, Shared, WeakShared};
use futures::stream::TryStreamExt;
use std::rc::Rc;
use std::sync::Arc;

type SharedLoad<B> = Shared<LocalBoxFuture<'static, Result<Rc<Loaded<B>>>>>;

impl<S: ModelSource> Loader<S> {
    /// Loads one tensor, reading only its bytes. A second call for the same tensor joins the running load, unless it
    /// asks for rows or another dtype, or passes a buffer.
    ///
    /// # Errors
    /// `NOT_FOUND` for a name that is not in the index; `INVALID_ARGUMENT` for rows out of range or a buffer of the
    /// wrong length; `UNSUPPORTED` for a tensor that cannot be converted; errors of the source and the decoders.
    pub async fn load_tensor(
        self: &Rc<Self>,
        name: &str,
        request: TensorRequest<BufferOf<S>>,
        mut observer: Rc<dyn Progress>,
    ) -> Result<Loaded<BufferOf<S>>> {
        let mut request = request;
        if request.rows.is_none() && self.may_have_substitute(name).await && self.load_substitute_code().await {
            match self.load_substitute(name, request, Rc::clone(&observer)).await? {
                Ok(loaded) => return Ok(loaded),
                Err(unchanged) => request = unchanged,
            }
        }
        let TensorRequest { rows, into, dtype, is_dense } = &request;
        if rows.is_some() || into.is_some() || dtype.is_some() || *is_dense {
            if let (None, None) = (rows, into) {
                match self.take_prefetched(name, observer).await {
                    Ok(loaded) => return self.in_form(loaded, Form { dtype: dtype.as_ref(), is_dense: *is_dense }),
                    Err(unused) => observer = unused,
                }
            }
            let _goes_first = self.priority.demand();
            return self.load_alone(name.to_owned(), request, observer).await;
        }
        let running = self.loading.borrow().get(name).and_then(WeakShared::upgrade);
        let is_running = running.is_some();
        let load = running.unwrap_or_else(|| self.start_load(name, Rc::clone(&observer)));
        let loaded = load.clone().await;
        drop(load);
        let loaded = loaded?;
        if is_running {
            report_all(&loaded.tensor, &*observer);
        }
        Rc::try_unwrap(loaded).or_else(|shared| shared.duplicate())
    }

    /// Checks before a load that a tensor has floats, or what can be converted to them, and is or becomes a dense one.
    ///
    /// # Errors
    /// As for [`Loader::load_tensor`]; `UNSUPPORTED` for a tensor of integers or booleans, and for a sparse one.
    #[cfg(feature = "js")]
    pub async fn check_float(&self, name: &str, to: &Dtype, is_dense: bool) -> Result<()> {
        let tensor = self.find(name).await?;
        if let Some(quantized) = tensor.quantized() {
            return quantized.scheme.check().map_err(|error| self.place(tensor.shard, error.in_tensor(name)));
        }
        let layout = if is_dense { &Layout::Dense } else { &tensor.layout };
        check_float(&tensor.dtype, layout, to).map_err(|error| self.place(tensor.shard, error.in_tensor(name)))
    }

    /// Whether a tensor that was not prefetched may be at hand in another file.
    async fn may_have_substitute(self: &Rc<Self>, name: &str) -> bool {
        let is_prefetched = self.prefetched.borrow().contains_key(name);
        match self.find(name).await {
            Ok(tensor) if !is_prefetched => self.may_have_substitutes(&[tensor]).await,
            _ => false, // an error is returned by the load
        }
    }

    fn start_load(self: &Rc<Self>, name: &str, observer: Rc<dyn Progress>) -> SharedLoad<BufferOf<S>> {
        let loader = Rc::clone(self);
        let owned_name = name.to_owned();
        let load = async move {
            let observer = match loader.take_prefetched(&owned_name, observer).await {
                Ok(prefetched) => return loader.in_form(prefetched, Form::default()).map(Rc::new),
                Err(observer) => observer,
            };
            let _goes_first = loader.priority.demand();
            loader.load_alone(owned_name, TensorRequest::default(), observer).await.map(Rc::new)
        };
        let load = load.boxed_local().shared();
        let mut loading = self.loading.borrow_mut();
        loading.retain(|_, load| load.upgrade().is_some());
        loading.extend(load.downgrade().map(|weak| (name.to_owned(), weak)));
        load
    }

    /// Changes a prefetched tensor as it was requested.
    pub(super) fn in_form(&self, prefetched: Loaded<BufferOf<S>>, form: Form<'_>) -> Result<Loaded<BufferOf<S>>> {
        let form = form.of(&prefetched.tensor);
        let planned = self.plan(Arc::clone(&prefetched.tensor), None, None, form)?;
        match (planned.expansion, planned.conversion) {
            (Some(expansion), _) => {
                check_indices(&prefetched.tensor, &prefetched.components)?;
                prefetched.expanded(&expansion, None)
            }
            (None, Some(conversion)) => prefetched.converted(&conversion, None),
            (None, None) => Ok(prefetched),
        }
    }

    async fn load_alone(
        self: &Rc<Self>,
        name: String,
        request: TensorRequest<BufferOf<S>>,
        observer: Rc<dyn Progress>,
    ) -> Result<Loaded<BufferOf<S>>> {
        let tensor = self.find(&name).await?;
        let form = Form { dtype: request.dtype.as_ref(), is_dense: request.is_dense }.of(&tensor);
        if tensor.quantized().is_some() && (form.dtype.is_some() || form.is_dense) {
            return self.load_quantized(tensor, request, observer).await;
        }
        let rows = request.rows.map(|rows| rows_of(&tensor, rows, form.dtype));
        let Some(rows) = rows.transpose()? else {
            let planned = self.plan(tensor, None, request.into, form)?;
            return self.load_planned(planned, observer).await;
        };
        let has_streams = tensor.components.iter().any(|component| component.streams().is_some());
        if has_streams && self.file_of(&tensor)?.can_join_responses() {
            self.file_of(&tensor)?.source.host().load_code(Code::Extras).await?;
            // Boxed, because it is deferred.
            return self.load_stream_rows(&tensor, &rows, request.into, form, &*observer).boxed_local().await;
        }
        let (mut into, mut has_retried) = (request.into, false);
        loop {
            let (part, rows) = self.block_span(&tensor, &rows).await?;
            let is_span = rows.span.is_some();
            let into = into.take();
            let can_repeat = into.is_none();
            let planned = self.plan(part, Some(rows), into, form)?;
            match self.load_planned(planned, Rc::clone(&observer)).await {
                Ok(loaded) => return Ok(Loaded { tensor, ..loaded }),
                // The file may be wrong about its blocks: the rows are then read from the start of the tensor.
                Err(error) if is_span && error.kind == ErrorKind::Format && !has_retried => {
                    has_retried = true;
                    self.distrust_blocks(&tensor)?;
                    if !can_repeat {
                        return Err(error.advise("Load the rows again: the positions of the blocks are now ignored."));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The rows with only the compressed blocks that they need, if their positions are known.
    async fn block_span(&self, tensor: &Arc<Tensor>, rows: &Rows) -> Result<(Arc<Tensor>, Rows)> {
        if let [component] = tensor.components.as_slice() {
            let file = self.file_of(tensor)?;
            let span = file.block_span(component, &rows.bytes).await;
            if let Some(span) = span.map_err(|e| file.reject_if_corrupt(e.in_tensor(&tensor.name)))? {
                return Ok(rows.clone().of_span(tensor, span));
            }
        }
        Ok((Arc::clone(tensor), rows.clone()))
    }

    fn distrust_blocks(&self, tensor: &Tensor) -> Result<()> {
        let file = self.file_of(tensor)?;
        tensor.components.iter().for_each(|component| file.blocks.distrust(component.range.start));
        Ok(())
    }

    pub(super) async fn load_planned(
        self: &Rc<Self>,
        planned: PlannedTensor<BufferOf<S>>,
        observer: Rc<dyn Progress>,
    ) -> Result<Loaded<BufferOf<S>>> {
        self.load_planned_in(planned, self.call(observer)).await
    }

    /// Like [`Loader::load_planned`], in a call with these parameters.
    pub(super) async fn load_planned_in(
        self: &Rc<Self>,
        planned: PlannedTensor<BufferOf<S>>,
        call: Call,
    ) -> Result<Loaded<BufferOf<S>>> {
        let name = planned.tensor.name.clone();
        let mut loads = Box::pin(self.stream_planned(vec![planned], call).await?);
        let Some(loaded) = loads.try_next().await? else {
            return Err(Error::new(ErrorKind::Internal, "the load ended without its tensor").in_tensor(&name));
        };
        loads.try_next().await?; // requests nothing, but keeps the rest of a body that started at the file's first byte
        Ok(loaded)
    }
}
