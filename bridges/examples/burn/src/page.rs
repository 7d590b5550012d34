//! The model in a web page.

use super::Mlp;
use burn_core::tensor::Device;
use burn_store::ModuleSnapshot;
use wasm_bindgen::prelude::*;
use weightstream_burn::WeightStore;

/// The model, which JavaScript holds.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Model {
    model: Mlp,
    device: Device,
}

#[wasm_bindgen]
impl Model {
    /// Loads the weights at an absolute URL.
    ///
    /// # Errors
    /// Those of loading, and of burn for weights of another model.
    pub async fn open(url: String) -> Result<Model, JsError> {
        let device = Device::default();
        let mut model = Mlp::random(&device);
        let mut weights = WeightStore::load(&weightstream::Model::open(&url).await?).await?;
        model.load_from(&mut weights)?;
        Ok(Model { model, device })
    }

    /// Computes the outputs for one input.
    ///
    /// # Errors
    /// That of burn if the outputs are not F32.
    pub fn compute(&self, input: &[f32]) -> Result<Vec<f32>, JsError> {
        Ok(self.model.compute(input, &self.device)?)
    }
}
