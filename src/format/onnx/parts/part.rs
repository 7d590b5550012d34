//! The parts of a graph: which nodes and initializers each has, and what it passes to later ones.

use super::graph::{Graph, Node};
use crate::error::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// The domains of operators that are known. Others, and functions of the model, may have random values.
const KNOWN_DOMAINS: [&str; 3] = ["", "ai.onnx", "com.microsoft"];

/// Operators without a fixed output for fixed inputs. The attribute `seed` need not be there.
const RANDOM: [&str; 4] = ["Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike"];

/// What computes a value.
#[derive(Clone, Copy)]
enum Origin {
    Input,
    Initializer(usize),
    Node(usize),
}

/// How nodes depend on each other.
pub(super) struct Parts<'g> {
    graph: &'g Graph,
    origins: HashMap<&'g str, Origin>,
    /// Whether an output of the graph depends on a node. Others are in no part.
    is_needed: Vec<bool>,
    /// Whether a node depends on no input. Such a node is in each part that needs it.
    is_constant: Vec<bool>,
    /// The last node that is not constant and needs a value that such a node computes.
    last_uses: HashMap<&'g str, usize>,
    /// For each node, the external bytes that no earlier one needs.
    new_bytes: Vec<u64>,
    order: Vec<String>,
}

/// A part of a graph.
#[derive(Debug, Default)]
pub(super) struct Part<'g> {
    nodes: BTreeSet<usize>,
    initializers: BTreeSet<usize>,
    inputs: Vec<&'g str>,
    pub(super) outputs: Vec<&'g str>,
}

impl<'g> Parts<'g> {
    /// # Errors
    /// `FORMAT` for a node that needs the output of a later one.
    pub(super) fn of(graph: &'g Graph) -> Result<Self> {
        let mut origins: HashMap<&str, Origin> = HashMap::new();
        origins.extend(graph.inputs.iter().map(|input| (input.as_str(), Origin::Input)));
        let initializers = graph.initializers.iter().enumerate();
        origins.extend(initializers.map(|(at, tensor)| (tensor.name.as_str(), Origin::Initializer(at))));
        let mut parts = Parts {
            graph,
            origins,
            is_needed: needed(graph),
            is_constant: Vec::with_capacity(graph.nodes.len()),
            last_uses: HashMap::new(),
            new_bytes: Vec::with_capacity(graph.nodes.len()),
            order: Vec::new(),
        };
        let computed: HashMap<&str, usize> = (graph.nodes.iter().enumerate())
            .flat_map(|(at, node)| node.outputs.iter().map(move |output| (output.as_str(), at)))
            .collect();
        let mut seen = Part::default();
        for (at, node) in graph.nodes.iter().enumerate() {
            let later = |name: &&str| computed.get(name).is_some_and(|computed| *computed >= at);
            if let Some(name) = uses(node).find(later) {
                let what = format!("node {at} needs \"{name}\", which no node before it computes");
                return Err(Error::new(ErrorKind::Format, what));
            }
            parts.add(at, node, &mut seen);
        }
        Ok(parts)
    }

    fn add(&mut self, at: usize, node: &'g Node, seen: &mut Part<'g>) {
        let mut inputs = node.inputs.iter().filter(|input| !input.is_empty()).peekable();
        let has_fixed_output = match inputs.peek() {
            None => node.operator == "Constant",
            Some(_) => !node.has_graph && !RANDOM.contains(&node.operator.as_str()),
        };
        let is_known = KNOWN_DOMAINS.contains(&node.domain.as_str());
        let is_constant = is_known && has_fixed_output && inputs.all(|input| self.is_fixed(input));
        self.is_constant.push(is_constant);
        let computed = node.outputs.iter().filter(|output| !output.is_empty());
        self.origins.extend(computed.map(|output| (output.as_str(), Origin::Node(at))));
        let mut new_bytes = 0;
        if !is_constant && self.is_needed.get(at) == Some(&true) {
            new_bytes = self.take_weights(at, node, seen);
            for name in uses(node).filter(|name| matches!(self.origins.get(*name), Some(Origin::Node(_)))) {
                self.last_uses.insert(name, at);
            }
        }
        self.new_bytes.push(new_bytes);
    }

    /// Whether a value depends on no input.
    fn is_fixed(&self, name: &str) -> bool {
        match self.origins.get(name) {
            Some(Origin::Initializer(_)) => true,
            Some(Origin::Node(at)) => self.is_constant.get(*at) == Some(&true),
            Some(Origin::Input) | None => false,
        }
    }

    /// Notes the initializers that no earlier node needed. Returns their external bytes.
    fn take_weights(&mut self, at: usize, node: &'g Node, seen: &mut Part<'g>) -> u64 {
        let mut new = self.include(at, seen);
        new.sort_unstable();
        let tensors = new.into_iter().filter_map(|number| self.graph.initializers.get(number));
        let mut bytes = 0_u64;
        for tensor in tensors.chain(&node.initializers) {
            bytes = bytes.saturating_add(tensor.external_bytes);
            self.order.push(tensor.name.clone());
        }
        bytes
    }

    /// Adds a node to a part, with the constant nodes and the initializers that it needs. Returns the initializers that
    /// the part did not have.
    fn include(&self, at: usize, part: &mut Part<'g>) -> Vec<usize> {
        let (mut open, mut new) = (vec![at], Vec::new());
        while let Some(at) = open.pop() {
            let Some(node) = self.graph.nodes.get(at).filter(|_| part.nodes.insert(at)) else { continue };
            for name in uses(node) {
                match self.origins.get(name) {
                    Some(Origin::Initializer(number)) if part.initializers.insert(*number) => new.push(*number),
                    Some(Origin::Node(number)) if self.is_constant.get(*number) == Some(&true) => open.push(*number),
                    _ => {}
                }
            }
        }
        new
    }

    /// The names of the initializers, in the order in which nodes need them.
    pub(super) fn order_of_use(self) -> Vec<String> {
        self.order
    }

    pub(super) fn node_count(&self) -> usize {
        self.graph.nodes.len()
    }

    /// For each node, the external bytes that no earlier one needs.
    pub(super) fn new_bytes(&self) -> &[u64] {
        &self.new_bytes
    }

    /// The values that pass each position: that one of the nodes before it computes, and one of those from it on needs.
    /// Each with the node that computes it, and the last one that needs it.
    pub(super) fn passing(&self) -> impl Iterator<Item = (&'g str, Range<usize>)> {
        self.last_uses.iter().filter_map(|(name, last)| match self.origins.get(name) {
            Some(Origin::Node(at)) if self.is_constant.get(*at) == Some(&false) && at < last => {
                Some((*name, *at..*last))
            }
            _ => None,
        })
    }

    /// The operator of the node that computes a value.
    pub(super) fn operator_of(&self, name: &str) -> &'g str {
        match self.origins.get(name) {
            Some(Origin::Node(at)) => self.graph.nodes.get(*at).map_or("", |node| node.operator.as_str()),
            _ => "",
        }
    }

    /// The parts between these positions among the nodes.
    ///
    /// # Errors
    /// `UNSUPPORTED` for an output of the graph that no node computes.
    pub(super) fn split_at(&self, positions: &[usize]) -> Result<Vec<Part<'g>>> {
        let ends = positions.iter().copied().chain([self.node_count()]);
        let starts = [0].into_iter().chain(positions.iter().copied());
        let mut parts: Vec<_> = starts.zip(ends).map(|(start, end)| self.part(start..end)).collect();
        let given: Vec<&str> = parts.iter().flat_map(|part| part.outputs.iter().copied()).collect();
        for output in self.graph.outputs.iter().filter(|output| !given.contains(&output.as_str())) {
            match (self.origins.get(output.as_str()), parts.last_mut()) {
                (Some(Origin::Node(at)), Some(last)) => {
                    self.include(*at, last);
                    last.outputs.push(output);
                }
                (Some(Origin::Initializer(number)), Some(last)) => {
                    last.initializers.insert(*number);
                    last.outputs.push(output);
                }
                (Some(Origin::Input), _) => {} // it passes no part
                _ => {
                    let what = format!("nothing computes \"{output}\", which is an output of the graph");
                    return Err(Error::new(ErrorKind::Unsupported, what));
                }
            }
        }
        Ok(parts)
    }

    fn part(&self, range: Range<usize>) -> Part<'g> {
        let mut part = Part::default();
        let constant = |at: &usize| self.is_constant.get(*at) == Some(&true);
        for at in range.clone().filter(|at| !constant(at) && self.is_needed.get(*at) == Some(&true)) {
            self.include(at, &mut part);
        }
        let nodes = || part.nodes.iter().filter_map(|at| self.graph.nodes.get(*at));
        let mut known = BTreeSet::new();
        let inputs = nodes().flat_map(uses).filter(|name| match self.origins.get(name) {
            Some(Origin::Input) => true,
            Some(Origin::Node(at)) => *at < range.start && !constant(at),
            Some(Origin::Initializer(_)) | None => false,
        });
        let inputs = inputs.filter(|name| known.insert(*name)).collect();
        let leaves = |name: &&str| {
            let is_used_later = self.last_uses.get(name).is_some_and(|last| *last >= range.end);
            is_used_later || self.graph.outputs.iter().any(|output| output == name)
        };
        let computed = part.nodes.iter().filter(|at| !constant(at)).filter_map(|at| self.graph.nodes.get(*at));
        let outputs = computed.flat_map(|node| node.outputs.iter().map(String::as_str)).filter(leaves).collect();
        Part { inputs, outputs, ..part }
    }
}

impl Part<'_> {
    /// As [`super`] describes it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "nodes": ranges(&self.nodes),
            "initializers": ranges(&self.initializers),
            "inputs": self.inputs,
            "outputs": self.outputs,
        })
    }
}

/// For each node, whether an output of the graph depends on it.
fn needed(graph: &Graph) -> Vec<bool> {
    let mut wanted: HashSet<&str> = graph.outputs.iter().map(String::as_str).collect();
    let mut needed: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for node in graph.nodes.iter().rev() {
        let is_needed = node.outputs.iter().any(|output| wanted.contains(output.as_str()));
        if is_needed {
            wanted.extend(uses(node));
        }
        needed.push(is_needed);
    }
    needed.reverse();
    needed
}

/// The names that a node and the graphs in its attributes need.
fn uses(node: &Node) -> impl Iterator<Item = &str> {
    let names = node.inputs.iter().chain(&node.captured).map(String::as_str);
    names.filter(|name| !name.is_empty())
}

/// The half-open ranges of consecutive numbers.
fn ranges(numbers: &BTreeSet<usize>) -> Vec<[usize; 2]> {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some([_, end]) if end == number => *end += 1,
            _ => ranges.push([*number, number + 1]),
        }
    }
    ranges
}
