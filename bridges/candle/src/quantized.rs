//! Quantized tensors of candle, in the blocks of the file.

use crate::Request;
use crate::convert::to_qtensor;
use crate::tensors::load;
use candle_core::quantized::QTensor;
use std::collections::HashMap;
use std::sync::Arc;
use weightstream::{Model, Result};

/// Loads quantized tensors by their names in candle: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K, in
/// the blocks of the file. `candle_core::quantized::QMatMul::from_arc` computes with them. Copies as
/// [`tensors`](crate::tensors()) does.
///
/// # Errors
/// `INVALID_ARGUMENT` for two tensors of one name, and for a request with a dtype; `UNSUPPORTED` for another dtype; the
/// errors of [`Model::stream`].
pub async fn qtensors(model: &Model, request: &Request<'_>) -> Result<HashMap<String, Arc<QTensor>>> {
    request.check_stored()?;
    load(model, None, request, |loaded| to_qtensor(loaded, &request.device).map(Arc::new)).await
}
