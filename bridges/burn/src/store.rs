//! A store of burn over the weights of weightstream.

use crate::convert::{deferred, resident};
use burn_store::burn_pack::Tensor as PackTensor;
use burn_store::{ApplyResult, IdentityAdapter, KeyRemapper, ModuleAdapter, ModuleSnapshot, ModuleStore, PathFilter};
use futures::stream::StreamExt;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use weightstream::dtype::Dtype;
use weightstream::loader::{Loader, TensorsRequest};
use weightstream::native::Reader;
use weightstream::progress::Progress;
use weightstream::source::ModelSource;
use weightstream::{Error, ErrorKind, Result};

/// The weights of a model, to be applied to modules with `module.load_from(&mut store)`.
///
/// By default every parameter of the module must be in the model; see [`WeightStore::with_partial`].
pub struct WeightStore {
    tensors: BTreeMap<String, PackTensor>,
    filter: Option<PathFilter>,
    adapter: Box<dyn ModuleAdapter>,
    is_partial: bool,
    skips_enum_variants: bool,
}

impl WeightStore {
    /// Loads all tensors, with the names of the model. Floats and quantized tensors are converted to `dtype` (F32, F16
    /// or BF16), if it is given; sparse tensors become dense ones. Their bytes are copied out of the loader's buffers
    /// once, one tensor at a time. The store keeps them until it is dropped. Drop the future to stop the load.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a dtype that burn does not have; the errors of [`Loader::tensors`].
    pub async fn load<S: ModelSource>(
        loader: &Rc<Loader<S>>,
        dtype: Option<Dtype>,
        progress: Rc<dyn Progress>,
    ) -> Result<Self> {
        let request = TensorsRequest::default().with_dtype(dtype).with_dense(true);
        let mut loads = pin!(loader.tensors_with(request, progress).await?);
        let mut tensors = BTreeMap::new();
        while let Some(loaded) = loads.next().await {
            let tensor = resident(loaded?)?;
            tensors.insert(tensor.name.clone(), tensor);
        }
        Ok(WeightStore::new(tensors))
    }

    /// Takes the tensors of files. Each is read when it is applied, and not kept. `dtype` as for [`WeightStore::load`].
    ///
    /// # Errors
    /// `UNSUPPORTED` for a dtype that burn does not have. Errors of reading are in [`ApplyResult::errors`].
    pub fn read(reader: &Arc<Reader>, dtype: Option<&Dtype>) -> Result<Self> {
        let tensors = reader.tensors().iter().map(|tensor| Ok((tensor.name.clone(), deferred(reader, tensor, dtype)?)));
        Ok(WeightStore::new(tensors.collect::<Result<_>>()?))
    }

    /// Renames the tensors, as the stores of burn do.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if two tensors get the same name.
    pub fn with_remapping(mut self, remapper: &KeyRemapper) -> Result<Self> {
        let (tensors, _) = remapper.remap(std::mem::take(&mut self.tensors).into_values().collect());
        for tensor in tensors {
            if let Some(other) = self.tensors.insert(tensor.name.clone(), tensor) {
                let what = "the remapping gives two tensors this name";
                return Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(&other.name));
            }
        }
        Ok(self)
    }

    /// Changes tensors for the module that they are applied to: `PyTorchToBurnAdapter`, for example.
    #[must_use]
    pub fn with_adapter(self, adapter: impl ModuleAdapter + 'static) -> Self {
        WeightStore { adapter: Box::new(adapter), ..self }
    }

    /// Applies only tensors whose names in the module pass the filter.
    #[must_use]
    pub fn with_filter(self, filter: PathFilter) -> Self {
        WeightStore { filter: Some(filter), ..self }
    }

    /// Whether parameters that the model does not have keep their values. [`ApplyResult::missing`] lists them.
    #[must_use]
    pub fn with_partial(self, is_partial: bool) -> Self {
        WeightStore { is_partial, ..self }
    }

    /// Whether names in the file lack the variants of enums, as those of PyTorch do.
    #[must_use]
    pub fn with_skipped_enum_variants(self, skips_enum_variants: bool) -> Self {
        WeightStore { skips_enum_variants, ..self }
    }

    fn new(tensors: BTreeMap<String, PackTensor>) -> Self {
        let adapter = Box::new(IdentityAdapter);
        WeightStore { tensors, filter: None, adapter, is_partial: false, skips_enum_variants: false }
    }
}

impl ModuleStore for WeightStore {
    type Error = Error;

    /// Weights can only be loaded: always `UNSUPPORTED`.
    fn collect_from<M: ModuleSnapshot>(&mut self, _module: &M) -> Result<()> {
        let error = Error::new(ErrorKind::Unsupported, "a module cannot be saved through weightstream");
        Err(error.advise("Save it with BurnpackStore or SafetensorsStore of burn-store."))
    }

    fn apply_to<M: ModuleSnapshot>(&mut self, module: &mut M) -> Result<ApplyResult> {
        let tensors = self.tensors.values().cloned().collect();
        let adapter = Some(self.adapter.clone());
        let result = module.apply(tensors, self.filter.clone(), adapter, self.skips_enum_variants);
        if !result.errors.is_empty() {
            let what = format!("tensors could not be applied to the module: {:?}", result.errors);
            return Err(
                Error::new(ErrorKind::Unsupported, what).advise("Use the module that the model was saved from.")
            );
        }
        if !self.is_partial && !result.missing.is_empty() {
            let what = format!("the model lacks parameters of the module: {result}");
            let advice =
                "Rename tensors with WeightStore::with_remapping, or allow this with WeightStore::with_partial.";
            return Err(Error::new(ErrorKind::NotFound, what).advise(advice));
        }
        Ok(result)
    }

    fn get_tensor(&mut self, name: &str) -> Result<Option<&PackTensor>> {
        Ok(self.tensors.get(name))
    }

    fn get_all_tensors(&mut self) -> Result<&BTreeMap<String, PackTensor>> {
        Ok(&self.tensors)
    }

    fn keys(&mut self) -> Result<Vec<String>> {
        Ok(self.tensors.keys().cloned().collect())
    }
}

impl fmt::Debug for WeightStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeightStore").field("tensors", &self.tensors.len()).finish_non_exhaustive()
    }
}
