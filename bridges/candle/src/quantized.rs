//! Quantized tensors of candle, in the blocks of the file.

use crate::Request;
use crate::tensors::{load, read};
use candle_core::quantized::QTensor;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use weightstream::Result;
use weightstream::loader::Loader;
use weightstream::native::Reader;
use weightstream::progress::Progress;
use weightstream::source::ModelSource;

/// Loads quantized tensors by their names in candle: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K, in
/// the blocks of the file. `candle_core::quantized::QMatMul::from_arc` computes with them. Copies as
/// [`tensors`](crate::tensors) does.
///
/// # Errors
/// `INVALID_ARGUMENT` for two tensors of one name; `UNSUPPORTED` for another dtype; the errors of [`Loader::tensors`].
pub async fn qtensors<S: ModelSource>(
    loader: &Rc<Loader<S>>,
    request: &Request<'_>,
    progress: Rc<dyn Progress>,
) -> Result<HashMap<String, Arc<QTensor>>> {
    load(loader, None, request, progress, |bytes, dtype, shape| {
        bytes.into_qtensor(dtype, shape, &request.device).map(Arc::new)
    })
    .await
}

/// Like [`qtensors`], from files.
///
/// # Errors
/// Those of [`qtensors`], but with those of [`Reader::read_pieces`]; `CLOSED` if `progress` cancels.
pub fn read_qtensors(
    reader: &Reader,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<HashMap<String, Arc<QTensor>>> {
    read(reader, None, request, progress, |bytes, dtype, shape| {
        bytes.into_qtensor(dtype, shape, &request.device).map(Arc::new)
    })
}
