//! Puts tensors together from the components that arrive.

use super::{Batch, Gathered};
use crate::error::Result;
use crate::index::Algorithm;
use crate::loader::digests;
use crate::loader::schedule::target::unplanned;
use crate::loader::schedule::tied::TiedLoad;
use crate::loader::{Loaded, LoadedComponent};
use crate::pipeline::{Received, check_indices};
use crate::source::{Buffer, BufferOf, ModelSource};
use std::sync::Arc;

impl<S: ModelSource> Batch<S> {
    /// Adds a component that has arrived. Returns the tensor if the component was its last one.
    pub(crate) fn deliver(
        &self,
        slot: usize,
        component: usize,
        received: Received<BufferOf<S>>,
    ) -> Result<Option<Loaded<BufferOf<S>>>> {
        let pinned = self.pinned(slot).filter(|(_, components)| *components > 1);
        self.note_verified(slot, component, pinned.map(|(digest, _)| digest.algorithm()).or(received.verified));
        let Received { buffer: Some(buffer), verified, .. } = received else { return Ok(None) };
        self.stats.count_decoded(buffer.byte_length());
        let mut planned_tensors = self.planned_tensors.borrow_mut();
        let assembly = planned_tensors.get_mut(slot).ok_or_else(unplanned)?;
        let part = assembly.planned.tensor.components.get(component).ok_or_else(unplanned)?;
        let conversion = assembly.planned.conversion.as_ref();
        let dtype = conversion.map_or(&part.dtype, |conversion| &conversion.to).clone();
        let arrived = LoadedComponent { role: part.role.clone(), dtype, buffer };
        let gathered = assembly.gathered();
        gathered.verified.push(verified);
        *gathered.received.get_mut(component).ok_or_else(unplanned)? = Some(arrived);
        if gathered.received.iter().any(Option::is_none) {
            return Ok(None);
        }
        let Gathered { received, verified, .. } = *assembly.gathered.take().ok_or_else(unplanned)?;
        let components: Vec<_> = received.into_iter().flatten().collect();
        let tensor = Arc::clone(&assembly.planned.tensor);
        let mut verified = common(&verified).or(self.call.signed_by);
        if let Some((digest, _)) = pinned {
            let checked = digests::check(components.iter().map(|component| &component.buffer), digest);
            verified = Some(checked.map_err(|e| digests::as_pinned_mismatch(e).in_tensor(&tensor.name))?);
        }
        let expansion = assembly.planned.expansion.take();
        if (self.call.verify || expansion.is_some()) && assembly.planned.rows.is_none() {
            check_indices(&tensor, &components).map_err(|e| e.in_tensor(&tensor.name))?;
        }
        let shape = assembly.planned.rows.as_ref().map_or_else(|| tensor.shape.clone(), |rows| rows.shape.clone());
        let conversion = assembly.planned.conversion.as_ref();
        let dtype = conversion.map_or(&tensor.dtype, |conversion| &conversion.to).clone();
        let layout = tensor.layout.clone();
        let loaded = Loaded { tensor, dtype, layout, shape, components, verified };
        let Some(expansion) = expansion else { return Ok(Some(loaded)) };
        let into = assembly.planned.into.take();
        drop(planned_tensors);
        loaded.expanded(&expansion, into).map(Some)
    }

    /// Returns a complete tensor with the tensors that are tied to it.
    pub(crate) fn tied(&self, slot: usize, loaded: Loaded<BufferOf<S>>) -> Result<TiedLoad<BufferOf<S>>> {
        let followers = self.call.tied.followers(slot).map(|number| self.tensor(number));
        Ok(TiedLoad::new(loaded, followers.collect::<Result<_>>()?))
    }

    /// Counts the bytes of a copy that is delivered besides the original.
    pub(crate) fn count_copy(&self, copy: &Loaded<BufferOf<S>>) {
        copy.components.iter().for_each(|part| self.stats.count_decoded(part.buffer.byte_length()));
    }

    /// Notes what verified a component, if the call reads the whole model. Components of no bytes need no checksum.
    fn note_verified(&self, slot: usize, component: usize, verified: Option<Algorithm>) {
        let planned_tensors = self.planned_tensors.borrow();
        let tensor = planned_tensors.get(slot).map(|assembly| &assembly.planned.tensor);
        if let (Some(whole), Some(tensor)) = (&self.call.whole, tensor)
            && let Some(component) = tensor.components.get(component).filter(|part| !part.range.is_empty())
        {
            whole.add_component(tensor.shard_of(component), verified);
        }
    }
}

/// The algorithm that verified all components.
fn common(verified: &[Option<Algorithm>]) -> Option<Algorithm> {
    let first = verified.first().copied().flatten();
    if verified.iter().all(|algorithm| *algorithm == first) { first } else { None }
}
