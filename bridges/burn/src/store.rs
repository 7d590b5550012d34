//! A store of burn over the weights of weightstream.

#[cfg(not(target_arch = "wasm32"))]
use crate::convert::deferred;
use crate::convert::resident;
use burn_store::burn_pack::Tensor as PackTensor;
use burn_store::{ApplyResult, IdentityAdapter, KeyRemapper, ModuleAdapter, ModuleSnapshot, ModuleStore, PathFilter};
use std::collections::BTreeMap;
use std::fmt;
#[cfg(not(target_arch = "wasm32"))]
use weightstream::blocking;
use weightstream::{Dtype, Error, ErrorKind, Model, Result, StreamRequest};

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
    /// Loads all tensors, with the names of the model. Sparse tensors become dense ones. The store keeps their bytes
    /// until it is dropped. Drop the future to stop the load.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a dtype that burn does not have; the errors of [`Model::stream`].
    pub async fn load(model: &Model) -> Result<Self> {
        WeightStore::load_request(model, StreamRequest::new()).await
    }

    /// Like [`WeightStore::load`], but converts floats and quantized tensors to F32, F16 or BF16 while they arrive.
    ///
    /// # Errors
    /// Those of [`WeightStore::load`].
    pub async fn load_as(model: &Model, dtype: Dtype) -> Result<Self> {
        WeightStore::load_request(model, StreamRequest::new().dtype(dtype)).await
    }

    async fn load_request(model: &Model, request: StreamRequest) -> Result<Self> {
        let mut loads = model.stream(request.dense());
        let mut tensors = BTreeMap::new();
        while let Some(loaded) = loads.next().await {
            let tensor = resident(loaded?)?;
            tensors.insert(tensor.name.clone(), tensor);
        }
        Ok(WeightStore::new(tensors))
    }

    /// Takes the tensors of a model. Each is read when it is applied, and not kept.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a dtype that burn does not have. Errors of reading are in [`ApplyResult::errors`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn read(model: &blocking::Model) -> Result<Self> {
        WeightStore::deferred(model, None)
    }

    /// Like [`WeightStore::read`], but converts floats and quantized tensors to F32, F16 or BF16.
    ///
    /// # Errors
    /// Those of [`WeightStore::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn read_as(model: &blocking::Model, dtype: Dtype) -> Result<Self> {
        WeightStore::deferred(model, Some(&dtype))
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn deferred(model: &blocking::Model, dtype: Option<&Dtype>) -> Result<Self> {
        let tensors = model.tensors().iter().map(|tensor| Ok((tensor.name.clone(), deferred(model, tensor, dtype)?)));
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
