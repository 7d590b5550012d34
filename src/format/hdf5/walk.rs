//! Visits all objects of a file, from the root group on.

use super::dataset::{self, Found};
use super::group::{is_group, links};
use super::header::{Message, kind, messages};
use super::refused::Refused;
use super::source::Source;
use super::{attributes, dataset::Dataset};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Encoding, Metadata, Tensor};
use crate::values::budget::Budget;
use crate::window::Stop;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The maximum depth of a group. Layers in layers have some levels.
const MAX_DEPTH: usize = 64;

/// The key of the attributes of groups in the metadata.
const GROUPS: &str = "groups";

/// What was found so far, and what is visited next.
pub(super) struct Walk {
    /// Objects that were not visited: path, address and depth.
    pending: Vec<(String, u64, usize)>,
    groups: HashSet<u64>,
    /// The datasets that were read, by their address: several links may lead to one.
    datasets: HashMap<u64, Found>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) metadata: Metadata,
    pub(super) refused: Refused,
    pub(super) budget: Budget,
}

impl Walk {
    pub(super) fn new(root: u64, budget: Budget) -> Self {
        let (groups, datasets, tensors, metadata, refused) = Default::default();
        Walk { pending: vec![(String::new(), root, 0)], groups, datasets, tensors, metadata, refused, budget }
    }

    /// Visits all objects. If bytes are missing, the next call goes on with the same object.
    ///
    /// # Errors
    /// [`Stop::Need`] while bytes are missing; `FORMAT`, `LIMIT` and `TRUNCATED` for an invalid file.
    pub(super) fn visit_all(&mut self, source: Source) -> Result<(), Stop> {
        while let Some((path, address, depth)) = self.pending.pop() {
            let before = self.budget.mark();
            let visited = self.visit(source, &path, address, depth);
            if let Err(stop) = visited {
                self.budget.give_back(before);
                let stop = match stop {
                    Stop::Failed(error) if !path.is_empty() => error.in_tensor(&path).into(),
                    other => other,
                };
                self.pending.push((path, address, depth));
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Visits an object. Changes nothing if bytes are missing.
    fn visit(&mut self, source: Source, path: &str, address: u64, depth: usize) -> Result<(), Stop> {
        if self.groups.contains(&address) {
            self.refused.again(path);
            return Ok(());
        }
        if let Some(found) = self.datasets.get(&address).cloned() {
            return Ok(self.add(path, found)?);
        }
        let messages = messages(source, address)?;
        if dataset::is_dataset(&messages) {
            let found = dataset::read(source, &messages)?;
            self.budget.bytes(size_of::<(u64, Found)>() as u64, 0)?;
            self.datasets.insert(address, found.clone());
            return Ok(self.add(path, found)?);
        }
        if !is_group(&messages) && depth > 0 {
            return Ok(()); // a type with a name
        }
        self.visit_group(source, path, &messages, depth)?;
        self.groups.insert(address);
        Ok(())
    }

    fn visit_group(&mut self, source: Source, path: &str, messages: &[Message], depth: usize) -> Result<(), Stop> {
        if depth > MAX_DEPTH {
            let what = format!("a group is more than {MAX_DEPTH} levels deep");
            return Err(Error::new(ErrorKind::Limit, what).into());
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let mut refused = Refused::default();
        let links = links(source, messages, &prefix, &mut refused)?;
        let mut stated = Metadata::new();
        for message in messages.iter().filter(|message| message.kind == kind::ATTRIBUTE && !message.is_shared) {
            if let Some((name, value)) = attributes::read(source, message.data, &mut self.budget)? {
                self.budget.entry(stated.len(), name.len())?;
                stated.insert(name, value);
            }
        }
        let mut found = Vec::with_capacity(links.len());
        for (name, address) in links {
            let path = format!("{prefix}{name}");
            self.budget.bytes(path.len() as u64 + size_of::<(String, u64, usize)>() as u64, 0)?;
            found.push((path, address, depth + 1));
        }
        self.pending.extend(found.into_iter().rev());
        self.refused.extend(refused);
        self.add_attributes(path, stated);
        Ok(())
    }

    fn add_attributes(&mut self, path: &str, stated: Metadata) {
        if path.is_empty() {
            self.metadata.extend(stated);
        } else if !stated.is_empty() {
            let groups = self.metadata.entry(GROUPS).or_insert_with(|| Value::Object(Metadata::new()));
            if let Some(groups) = groups.as_object_mut() {
                groups.insert(path.to_owned(), stated.into());
            }
        }
    }

    fn add(&mut self, path: &str, found: Found) -> Result<()> {
        let Dataset { dtype, is_big_endian, shape, data } = match found {
            Ok(dataset) => dataset,
            Err(reason) => {
                self.refused.dataset(reason, path);
                return Ok(());
            }
        };
        self.budget.tensor(path, shape.len())?;
        let encoding = if is_big_endian { Encoding::BigEndian } else { Encoding::Raw };
        let data = Component { encoding, ..Component::raw(dtype.clone(), data) };
        self.tensors.push(Tensor::dense(path.to_owned(), dtype, shape, data));
        Ok(())
    }
}
