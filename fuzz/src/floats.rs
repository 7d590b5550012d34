//! Fuzzes the values of quantized tensors, and those of weights with an adapter: rows have those of the whole tensor.

use futures::executor::block_on;
use std::ops::Range;
use std::rc::Rc;
use weightstream::internals::loader::{Loader, Options, TensorRequest};
use weightstream::internals::source::memory::MemorySource;
use weightstream::{Adapter, AdapterConfig, Dtype, ErrorKind, Layout, ModelConfig, Result, Tensor};

/// The maximum number of elements of a tensor that is loaded.
const MAX_ELEMENTS: u64 = 1 << 20;

/// The number of tensors that are loaded of a model.
const MAX_TENSORS: usize = 8;

/// Reads a model, a configuration of it or of the adapter, and an adapter, which may be empty. The first two are
/// preceded by their lengths as 32 bits.
pub fn floats(input: &[u8]) {
    let Some((model, rest)) = split_first(input) else { return };
    let Some((config, adapter)) = split_first(rest) else { return };
    let _ = block_on(load_all(model, config, adapter));
}

async fn load_all(model: &[u8], config: &[u8], adapter: &[u8]) -> Result<()> {
    let options = Options::default().with_config(ModelConfig::from_json(config).ok());
    let mut loader = Loader::open(source(model)?, options).await?;
    if !adapter.is_empty() {
        let settings = Adapter::new("adapter");
        let settings = match AdapterConfig::from_json(config) {
            Ok(config) => settings.config(config),
            Err(_) => settings,
        };
        loader = loader.with_adapters(vec![(source(adapter)?, settings)]).await?;
    }
    let loader = Rc::new(loader);
    for tensor in loader.load_index().await?.iter().take(MAX_TENSORS) {
        let elements = tensor.shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
        let (Some(1..=MAX_ELEMENTS), Some(rows)) = (elements, tensor.shape.first()) else { continue };
        let Ok(whole) = values(&loader, &tensor, None).await else { continue };
        let middle = rows / 2;
        let [first, second] = [0..middle, middle..*rows];
        let [first, second] =
            [values(&loader, &tensor, Some(first)).await, values(&loader, &tensor, Some(second)).await];
        match (first, second) {
            (Ok(first), Ok(second)) => assert!([first, second].concat() == whole, "rows of {} differ", tensor.name),
            // Rows of sparse tensors, and rows without whole bytes.
            (Err(error), _) | (_, Err(error)) => {
                let is_possible = matches!(tensor.layout, Layout::Quantized(_));
                assert!(!is_possible && error.kind == ErrorKind::Unsupported, "{}: {error}", tensor.name);
            }
        }
    }
    Ok(())
}

/// The values of a tensor, or of some of its rows, as F32.
async fn values(loader: &Rc<Loader<MemorySource>>, tensor: &Tensor, rows: Option<Range<u64>>) -> Result<Vec<u8>> {
    let request = TensorRequest::default().with_rows(rows).with_dtype(Some(Dtype::F32)).with_dense(true);
    let loaded = loader.load_tensor(&tensor.name, request, Rc::new(())).await?;
    Ok(loaded.components.into_iter().flat_map(|component| component.buffer).collect())
}

fn source(file: &[u8]) -> Result<MemorySource> {
    MemorySource::new(vec![("m".to_owned(), file.into())])
}

/// The bytes after a length, and the rest.
fn split_first(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = input.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
