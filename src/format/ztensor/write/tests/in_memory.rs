//! Models in memory, for tensors that no fixture contains.

use crate::Result;
use crate::dtype::{Dtype, element_count};
use crate::index::{Component, Layout, Metadata, Tensor};
use crate::loader::ModelMetadata;
use crate::native::Reader;
use crate::testing::model::{Folder, noise};
use crate::write::{ConvertOptions, Input, convert_with as convert};
use std::collections::BTreeMap;

/// A model in memory.
pub(crate) struct Model {
    metadata: ModelMetadata,
    pub(crate) tensors: Vec<Tensor>,
    /// The bytes of each component, by the start of its range.
    bytes: BTreeMap<u64, Vec<u8>>,
}

impl Model {
    pub(crate) fn new() -> Self {
        let metadata = ModelMetadata::new("memory", "", Metadata::new());
        Model { metadata, tensors: Vec::new(), bytes: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, name: &str, layout: Layout, shape: &[u64], components: Vec<(&str, Dtype, Vec<u8>)>) {
        let component = |(role, dtype, bytes): (&str, Dtype, Vec<u8>)| {
            let start = self.bytes.len() as u64 * (1 << 32);
            let mut component = Component::raw(dtype, start..start + bytes.len() as u64);
            component.role = role.to_owned().into();
            self.bytes.insert(start, bytes);
            component
        };
        let components: Vec<_> = components.into_iter().map(component).collect();
        let mut tensor =
            Tensor::dense(name.to_owned(), components[0].dtype.clone(), shape.to_vec(), components[0].clone());
        (tensor.layout, tensor.components) = (layout, components);
        self.tensors.push(tensor);
    }

    pub(crate) fn add_dense(&mut self, name: &str, dtype: &Dtype, shape: &[u64]) {
        let length = element_count(shape).and_then(|elements| dtype.byte_length(elements)).unwrap().unwrap_or(77);
        let bytes = noise(self.bytes.len() as u64, length as usize);
        self.add(name, Layout::Dense, shape, vec![("data", dtype.clone(), bytes)]);
    }

    /// Writes the model, and checks that reading it returns the same tensors.
    pub(crate) fn round_trips(&self, options: &ConvertOptions) -> Reader {
        let folder = Folder::new();
        convert(self, &folder.path("m.zt"), options, &()).unwrap();
        let reader = folder.open("m.zt");
        assert_eq!(reader.tensors().len(), self.tensors.len());
        for before in &self.tensors {
            let name = &before.name;
            let after = reader.tensor(name).unwrap();
            assert_eq!(
                (&after.dtype, &after.shape, &after.layout),
                (&before.dtype, &before.shape, &before.layout),
                "{name}"
            );
            assert_eq!(after.attributes, before.attributes, "{name}");
            assert_eq!(after.components.len(), before.components.len(), "{name}");
            for component in &before.components {
                let mut bytes = Vec::new();
                let take = &mut |piece: &[u8]| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                };
                reader.read_pieces(name, &component.role, take).unwrap();
                assert!(bytes == self.bytes[&component.range.start], "{name}: {}", component.role);
                let after = after.components.iter().find(|after| after.role == component.role).unwrap();
                assert_eq!((&after.dtype, after.range.start % 64), (&component.dtype, 0), "{name}");
            }
        }
        reader.verify(&()).unwrap();
        reader
    }
}

impl Input for Model {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let component = tensor.components.iter().find(|component| *component.role == *role).unwrap();
        self.bytes[&component.range.start].chunks(100_000).try_for_each(emit)
    }
}
