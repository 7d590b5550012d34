//! Compares two models: their metadata, and their tensors by dtype, shape and digest.

use crate::commands::digests::{sha256, warn_of};
use crate::commands::progress::Bar;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use weightstream::Result;
use weightstream::internals::index::{Metadata, Tensor};
use weightstream::internals::progress::Progress;
use weightstream::internals::write::{Extent, Input};

/// The differences between the tensors of two models, in file order.
pub(super) struct Tensors<'a> {
    pub(super) removed: Vec<&'a Tensor>,
    pub(super) added: Vec<&'a Tensor>,
    /// Tensors with the same dtype, shape and bytes under another name.
    pub(super) renamed: Vec<(&'a Tensor, &'a Tensor)>,
    pub(super) changed: Vec<Change<'a>>,
    /// The number of equal tensors with the same name.
    pub(super) equal: usize,
}

/// A tensor with the same name in both models.
pub(super) struct Change<'a> {
    pub(super) before: &'a Tensor,
    pub(super) after: &'a Tensor,
    /// The digests, if only the bytes are different.
    pub(super) digests: Option<(Digests, Digests)>,
}

/// The SHA-256 of each component, with its role, sorted by role.
pub(super) type Digests = Vec<(String, String)>;

/// The differences between the metadata of two models.
#[derive(Default)]
pub(super) struct Keys<'a> {
    pub(super) removed: Vec<(&'a str, &'a Value)>,
    pub(super) added: Vec<(&'a str, &'a Value)>,
    pub(super) changed: Vec<(&'a str, &'a Value, &'a Value)>,
}

/// All that must be equal besides the bytes.
#[derive(PartialEq, Eq, Hash)]
struct Form<'a> {
    dtype: &'a str,
    shape: &'a [u64],
    layout: &'a str,
    /// The role and the dtype of each component, sorted.
    components: Vec<(&'a str, &'a str)>,
}

impl Tensors<'_> {
    pub(super) fn are_equal(&self) -> bool {
        let Tensors { removed, added, renamed, changed, .. } = self;
        removed.is_empty() && added.is_empty() && renamed.is_empty() && changed.is_empty()
    }
}

impl<'a> Keys<'a> {
    pub(super) fn compare(before: &'a Metadata, after: &'a Metadata) -> Self {
        let mut keys = Keys::default();
        for (key, value) in before {
            match after.get(key) {
                None => keys.removed.push((key, value)),
                Some(other) if other != value => keys.changed.push((key, value, other)),
                Some(_) => {}
            }
        }
        let is_new = |(key, _): &(&String, &Value)| !before.contains_key(*key);
        keys.added = after.iter().filter(is_new).map(|(key, value)| (key.as_str(), value)).collect();
        keys
    }

    pub(super) fn are_equal(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.changed.is_empty()
    }
}

/// Compares the tensors. Reads one model after the other, in file order, and keeps only digests in memory. Reads no
/// tensor whose dtype or shape answers the question.
pub(super) fn compare<'a>(before: &'a dyn Input, after: &'a dyn Input) -> Result<Tensors<'a>> {
    let (before_names, after_names) = (by_name(before), by_name(after));
    let missing_in = |names: &HashMap<&str, &Tensor>, input: &'a dyn Input| -> Vec<&'a Tensor> {
        input.tensors().iter().filter(|tensor| !names.contains_key(&*tensor.name)).collect()
    };
    let (removed, added) = (missing_in(&after_names, before), missing_in(&before_names, after));
    let pairs: Vec<_> =
        before.tensors().iter().filter_map(|tensor| Some((tensor, *after_names.get(&*tensor.name)?))).collect();

    // Only tensors of a form that was both removed and added can have been renamed.
    let forms = |tensors: &[&'a Tensor]| tensors.iter().map(|tensor| form(tensor)).collect::<HashSet<_>>();
    let (removed_forms, added_forms) = (forms(&removed), forms(&added));
    let can_be_renamed = |tensor: &Tensor| {
        let form = form(tensor);
        removed_forms.contains(&form) && added_forms.contains(&form)
    };
    let alike = pairs.iter().filter(|(one, other)| form(one) == form(other));
    let alike: HashSet<&str> = alike.map(|(tensor, _)| &*tensor.name).collect();
    let is_read = |tensor: &&Tensor| alike.contains(&*tensor.name) || can_be_renamed(tensor);
    let bar = Bar::new("comparing");
    let byte_lengths = [before, after].into_iter().flat_map(|input| input.tensors().iter().filter(is_read));
    bar.expects(byte_lengths.filter_map(Tensor::byte_length).fold(0, u64::saturating_add));
    let mut before_digests = digests(before, is_read, &bar)?;
    let mut after_digests = digests(after, is_read, &bar)?;

    let (mut changed, mut equal) = (Vec::new(), 0);
    for (before, after) in pairs {
        let digests = before_digests.remove(&*before.name).zip(after_digests.remove(&*after.name));
        match digests {
            Some((one, other)) if one == other => equal += 1,
            digests => changed.push(Change { before, after, digests }),
        }
    }
    let mut tensors = Tensors { removed: Vec::new(), added: Vec::new(), renamed: Vec::new(), changed, equal };
    let mut candidates: HashMap<_, VecDeque<&Tensor>> = HashMap::new();
    for tensor in &added {
        if let Some(digests) = after_digests.get(&*tensor.name) {
            candidates.entry((form(tensor), digests)).or_default().push_back(tensor);
        }
    }
    for tensor in removed {
        let digests = before_digests.get(&*tensor.name);
        let same = digests.and_then(|digests| candidates.get_mut(&(form(tensor), digests))?.pop_front());
        match same {
            Some(other) => tensors.renamed.push((tensor, other)),
            None => tensors.removed.push(tensor),
        }
    }
    let renamed: HashSet<&str> = tensors.renamed.iter().map(|(_, after)| &*after.name).collect();
    tensors.added = added.into_iter().filter(|tensor| !renamed.contains(&*tensor.name)).collect();
    Ok(tensors)
}

fn by_name(input: &dyn Input) -> HashMap<&str, &Tensor> {
    input.tensors().iter().map(|tensor| (&*tensor.name, tensor)).collect()
}

fn form(tensor: &Tensor) -> Form<'_> {
    let mut components: Vec<_> = tensor.components.iter().map(|part| (&*part.role, part.dtype.name())).collect();
    components.sort_unstable();
    Form { dtype: tensor.dtype.name(), shape: &tensor.shape, layout: tensor.layout.name(), components }
}

/// Reads tensors in file order, and returns their digests by name.
fn digests<'a>(
    input: &'a dyn Input,
    is_read: impl Fn(&&Tensor) -> bool,
    bar: &Bar,
) -> Result<HashMap<&'a str, Digests>> {
    let checked = input.begin()?;
    let checked = checked.as_deref().unwrap_or(input);
    let mut digests = HashMap::new();
    for tensor in input.tensors().iter().filter(is_read) {
        let mut of_components = Vec::new();
        for component in &tensor.components {
            of_components.push((component.role.to_string(), sha256(checked, tensor, component, bar)?));
        }
        of_components.sort_unstable();
        digests.insert(&*tensor.name, of_components);
    }
    let extent = if digests.len() == input.tensors().len() { Extent::Whole } else { Extent::Read };
    warn_of(&checked.compare_files(extent, bar)?);
    Ok(digests)
}
