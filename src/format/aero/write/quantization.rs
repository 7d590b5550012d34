//! The quantization of tensors: descriptor numbers and parameters in TIDX, descriptors in MJSN.

use super::metadata::DESCRIPTORS_KEY;
use crate::format::aero::tensors::ggml_type;
use crate::index::{Metadata, Tensor};
use serde_json::{Value, json};

/// The tensor attributes that AERO can store.
pub(super) const ATTRIBUTES: [&str; 3] = ["quant_id", "quant_descriptor", "quant_params"];

/// The quantization of the tensors of a file.
#[derive(Default)]
pub(super) struct Quantization {
    /// The descriptors. The `id` of each is its number in this list, unless the source has another `id`.
    pub(super) descriptors: Vec<Value>,
    /// The packing of each tensor, in the order of the tensors.
    pub(super) tensors: Vec<Packing>,
}

/// The packing of one tensor. Most tensors have neither field.
#[derive(Default)]
pub(super) struct Packing {
    pub(super) id: Option<u64>,
    pub(super) params: Option<Value>,
}

impl Quantization {
    /// Collects the source's descriptors and the additional ones that the tensors need.
    pub(super) fn of<'t>(tensors: impl Iterator<Item = &'t Tensor>, metadata: &Metadata) -> Self {
        let known = metadata.get(DESCRIPTORS_KEY).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut quantization = Quantization { descriptors: known, tensors: Vec::new() };
        for tensor in tensors {
            let packing = quantization.packing(tensor);
            quantization.tensors.push(packing);
        }
        quantization
    }

    fn packing(&mut self, tensor: &Tensor) -> Packing {
        let [id, descriptor, params] = ATTRIBUTES.map(|key| tensor.attributes.get(key));
        match ggml_type(&tensor.dtype) {
            // The tensor does not come from AERO, or was cast after it was read.
            Some(number) if params.and_then(|params| params.get("ggml_type")) != Some(&number.into()) => {
                let params = json!({ "ggml_type": number });
                let name = tensor.dtype.name();
                let id = self.id_of(&json!({ "quant_name": name, "codec": "ggml", "params": params }));
                Packing { id: Some(id), params: Some(params) }
            }
            _ => {
                let id = id.and_then(Value::as_u64);
                let is_unchanged = descriptor.is_none_or(|descriptor| self.descriptors.contains(descriptor));
                let id = if is_unchanged { id } else { descriptor.map(|descriptor| self.id_of(descriptor)) };
                Packing { id, params: params.cloned() }
            }
        }
    }

    /// Returns the number of a descriptor, and adds the descriptor if the list has no equivalent one.
    fn id_of(&mut self, wanted: &Value) -> u64 {
        let id_of = |descriptor: &Value| descriptor.get("id").and_then(Value::as_u64);
        let is_equivalent = |known: &&Value| ["codec", "params"].iter().all(|key| known.get(*key) == wanted.get(*key));
        if let Some(id) = self.descriptors.iter().find(is_equivalent).and_then(id_of) {
            return id;
        }
        let is_taken = |id: &u64| self.descriptors.iter().any(|known| id_of(known) == Some(*id));
        let id = (self.descriptors.len() as u64..).find(|id| !is_taken(id)).unwrap_or_default();
        let mut descriptor = Metadata::from_iter([("id".to_owned(), id.into())]);
        let wanted = wanted.as_object().into_iter().flatten().filter(|(key, _)| *key != "id");
        descriptor.extend(wanted.map(|(key, value)| (key.clone(), value.clone())));
        self.descriptors.push(descriptor.into());
        id
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::index::Component;

    fn tensor(dtype: Dtype, attributes: Value) -> Tensor {
        let data = Component::raw(dtype.clone(), 0..0);
        let attributes = attributes.as_object().cloned().unwrap();
        Tensor { attributes, ..Tensor::dense("t".to_owned(), dtype, vec![0], data) }
    }

    fn descriptor(id: u64, name: &str, number: u32) -> Value {
        json!({ "id": id, "quant_name": name, "codec": "ggml", "params": { "ggml_type": number } })
    }

    fn of(tensors: &[Tensor], known: Value) -> (Vec<Option<u64>>, Vec<Value>) {
        let metadata = json!({ DESCRIPTORS_KEY: known });
        let quantization = Quantization::of(tensors.iter(), metadata.as_object().unwrap());
        (quantization.tensors.iter().map(|packing| packing.id).collect(), quantization.descriptors)
    }

    #[test]
    fn each_block_type_has_one_descriptor_and_other_tensors_have_none() {
        let tensors = [Dtype::Q8_0, Dtype::F32, Dtype::Q4_K, Dtype::Q8_0].map(|dtype| tensor(dtype, json!({})));
        let descriptors = vec![descriptor(0, "Q8_0", 8), descriptor(1, "Q4_K", 12)];
        assert_eq!(of(&tensors, json!([])), (vec![Some(0), None, Some(1), Some(0)], descriptors));
    }

    #[test]
    fn descriptors_of_the_source_are_kept() {
        let own = descriptor(7, "mine", 8);
        let attributes = json!({ "quant_id": 7, "quant_descriptor": own, "quant_params": { "ggml_type": 8 } });
        let vendor = json!({ "quant_id": 3, "quant_params": { "bits": 3 } });
        let tensors = [tensor(Dtype::Q8_0, attributes), tensor(Dtype::Other("packed".into()), vendor)];
        assert_eq!(of(&tensors, json!([own])), (vec![Some(7), Some(3)], vec![own]));
    }

    /// Each file of a set has its own list of descriptors; conversion merges the lists.
    #[test]
    fn merged_descriptor_lists_get_distinct_ids() {
        let attributes = |name, number| {
            let descriptor = descriptor(0, name, number);
            json!({ "quant_id": 0, "quant_descriptor": descriptor, "quant_params": { "ggml_type": number } })
        };
        let tensors = [
            tensor(Dtype::Q8_0, attributes("Q8_0", 8)),
            tensor(Dtype::Q4_K, attributes("Q4_K", 12)),
            tensor(Dtype::Q4_0, json!({})),
        ];
        let descriptors = vec![descriptor(0, "Q8_0", 8), descriptor(1, "Q4_K", 12), descriptor(2, "Q4_0", 2)];
        assert_eq!(of(&tensors, json!([descriptors[0]])), (vec![Some(0), Some(1), Some(2)], descriptors));
    }
}
