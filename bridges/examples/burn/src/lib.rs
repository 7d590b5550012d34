//! A small model of burn, and its use in a web page with weights that weightstream loads.

#[cfg(target_arch = "wasm32")]
mod page;

use burn_core as burn;

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{DataError, Device, Tensor, TensorData};
use burn_nn::{Linear, LinearConfig};

/// The number of inputs, of hidden values and of outputs.
pub const SIZES: [usize; 3] = [16, 64, 4];

/// Two layers with a nonlinearity between them.
#[derive(Module, Debug)]
pub struct Mlp {
    hidden: Linear,
    output: Linear,
}

impl Mlp {
    /// A model with random weights.
    pub fn random(device: &Device) -> Self {
        let [inputs, hidden, outputs] = SIZES;
        Mlp {
            hidden: LinearConfig::new(inputs, hidden).init(device),
            output: LinearConfig::new(hidden, outputs).init(device),
        }
    }

    /// Computes the outputs for one input.
    ///
    /// # Errors
    /// That of burn if the outputs are not F32.
    pub fn compute(&self, input: &[f32], device: &Device) -> Result<Vec<f32>, DataError> {
        let input = TensorData::new(input.to_vec(), [1, input.len()]);
        let hidden = relu(self.hidden.forward(Tensor::<2>::from_data(input, device)));
        self.output.forward(hidden).into_data().try_to_vec()
    }
}
