//! What is measured: a runtime, a model and a connection, with the runtime's own loader and with weightstream.

use std::collections::BTreeMap;
use std::fmt;

use super::models::{Model, OWN, Variant};

/// A run of 1 GiB over the slow line takes minutes, limited by the line and not by the machine.
const MAX_ROUNDS_LARGE: usize = 3;
const MAX_ROUNDS_SLOW: usize = 3;
const MAX_ROUNDS_LARGE_SLOW: usize = 1;

pub(super) struct Scenario {
    pub(super) runtime: Runtime,
    pub(super) model: Model,
    pub(super) connection: Connection,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    Onnx,
    /// Without copies of the weights in another layout, which take memory of their own.
    OnnxUnpacked,
    /// A session for each part of the graph, compared with a download of the same files that computes nothing.
    OnnxStreamed,
    Transformers,
}

impl Runtime {
    pub(super) fn name(self) -> &'static str {
        match self {
            Runtime::Onnx => "onnxruntime",
            Runtime::OnnxUnpacked => "onnxruntime-unpacked",
            Runtime::OnnxStreamed => "onnxruntime-streamed",
            Runtime::Transformers => "transformers",
        }
    }

    /// The first part of the names of modules in `benches/page/runtimes`.
    pub(super) fn module(self) -> &'static str {
        match self {
            Runtime::Onnx => "onnxruntime",
            Runtime::OnnxUnpacked => "unpacked",
            Runtime::OnnxStreamed => "streamed",
            Runtime::Transformers => "transformers",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Runtime::Onnx => "ONNX Runtime Web",
            Runtime::OnnxUnpacked => "ONNX Runtime Web, `disable_prepacking`",
            Runtime::OnnxStreamed => "ONNX Runtime Web, `streamed`",
            Runtime::Transformers => "transformers.js",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    Loopback,
    /// 100 Mb/s.
    Slow,
}

/// How the weights are loaded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Own,
    Ours(Variant),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// The first visit in a new profile.
    Cold,
    /// The second visit.
    Warm,
    /// The first visit, with a connection that breaks in the middle of the weights.
    Cut,
}

/// The result of a visit.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) ms: f64,
    pub(super) peak_bytes: Option<u64>,
    /// How often the page had to start over.
    pub(super) errors: usize,
    /// What was received of the model.
    pub(super) model_bytes: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Sample { ms, peak_bytes, model_bytes, .. } = self;
        write!(f, "{ms:.0} ms, {} MiB, {model_bytes} bytes received", peak_bytes.unwrap_or_default() >> 20)
    }
}

/// All results of a scenario.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<(Way, State), Vec<Sample>>);

impl Samples {
    pub(super) fn add(&mut self, way: Way, state: State, sample: Sample) {
        self.0.entry((way, state)).or_default().push(sample);
    }

    /// The samples of the rounds, in their order.
    pub(super) fn of(&self, way: Way, state: State) -> impl Iterator<Item = &Sample> {
        self.0.get(&(way, state)).into_iter().flatten()
    }
}

pub(super) fn all() -> Vec<Scenario> {
    let mut all = Vec::new();
    for model in [Model::MiniLm, Model::MiniLmInt8, Model::Large] {
        for runtime in [Runtime::Onnx, Runtime::Transformers] {
            for connection in [Connection::Loopback, Connection::Slow] {
                all.push(Scenario { runtime, model, connection });
            }
        }
    }
    let runtime = Runtime::OnnxUnpacked;
    all.push(Scenario { runtime, model: Model::Large, connection: Connection::Loopback });
    let streamed = |model| Scenario { runtime: Runtime::OnnxStreamed, model, connection: Connection::Slow };
    all.extend([Model::MiniLm, Model::Large].map(streamed));
    all
}

impl Scenario {
    /// The name on the command line.
    pub(super) fn name(&self) -> String {
        let line = match self.connection {
            Connection::Loopback => "loopback",
            Connection::Slow => "line",
        };
        format!("{}-{}-{line}", self.runtime.name(), self.model.name())
    }

    pub(super) fn ways(&self) -> Vec<Way> {
        let variants = self.model.variants().iter().copied();
        let is_measured = |variant: &Variant| match self.runtime {
            Runtime::OnnxStreamed => *variant == Variant::ByLayer,
            // Over the slow line, a raw file of 1 GiB takes the same time with either loader.
            _ if self.is_long() => *variant == Variant::F16,
            _ => *variant != Variant::ByLayer,
        };
        let variants = variants.filter(is_measured);
        [Way::Own].into_iter().chain(variants.map(Way::Ours)).collect()
    }

    pub(super) fn has_warm(&self) -> bool {
        !self.is_long() && self.runtime != Runtime::OnnxStreamed
    }

    /// Whether there is an output to compare. A download has none.
    pub(super) fn has_output(&self, way: Way) -> bool {
        way != Way::Own || self.runtime != Runtime::OnnxStreamed
    }

    pub(super) fn max_rounds(&self) -> usize {
        match (self.model, self.connection) {
            (Model::Large, Connection::Slow) => MAX_ROUNDS_LARGE_SLOW,
            (Model::Large, Connection::Loopback) => MAX_ROUNDS_LARGE,
            (_, Connection::Slow) => MAX_ROUNDS_SLOW,
            (_, Connection::Loopback) => usize::MAX,
        }
    }

    /// The largest ratio of the time to that of the runtime's own loader.
    pub(super) fn time_goal(&self, variant: Variant, state: State) -> Option<f64> {
        match (state, self.connection, variant) {
            (State::Cold, Connection::Loopback, Variant::Raw) => Some(0.95),
            (State::Cold, Connection::Slow, Variant::Lz4) => Some(0.75),
            (State::Cold, Connection::Slow, Variant::F16) => Some(0.55),
            (State::Warm, _, Variant::Raw) => Some(0.6),
            (State::Cold, Connection::Slow, Variant::ByLayer) => Some(1.05),
            _ => None,
        }
    }

    /// The largest ratio of the renderer's peak to that with the runtime's own loader.
    pub(super) fn peak_goal(&self, variant: Variant, state: State) -> Option<f64> {
        let goal = if self.runtime == Runtime::OnnxUnpacked { 0.4 } else { 0.45 };
        (self.model == Model::Large && variant == Variant::Raw && state == State::Cold).then_some(goal)
    }

    fn is_long(&self) -> bool {
        self.model == Model::Large && self.connection == Connection::Slow
    }
}

impl Way {
    /// The second part of the name of a module in `benches/page/runtimes`.
    pub(super) fn loader(self) -> &'static str {
        match self {
            Way::Own => "own",
            Way::Ours(_) => "ours",
        }
    }

    /// The folder of the model.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Way::Own => OWN,
            Way::Ours(variant) => variant.name(),
        }
    }

    /// Whether it is also measured with a connection that breaks.
    pub(super) fn is_cut(self, scenario: &Scenario) -> bool {
        scenario.runtime != Runtime::OnnxStreamed && scenario.ways().iter().take(2).any(|way| *way == self)
    }

    /// Whether the weights are the same.
    pub(super) fn is_exact(self) -> bool {
        self != Way::Ours(Variant::F16)
    }
}
