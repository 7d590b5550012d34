//! Recognizes the tensors of an adapter by their names: which belong to the same update.
//!
//! Sources: `peft.utils.save_and_load` of the Python package `peft` 0.21; `convert_lora_to_gguf.py` and
//! `llama-adapter.cpp` of llama.cpp; `networks/lora.py` of kohya-ss/sd-scripts.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Index;
use std::collections::BTreeMap;

/// The tensors of an adapter that belong to one weight. Numbers are positions in the index of the adapter.
#[derive(Debug, Default, Clone)]
pub(super) struct Pair {
    pub(super) convention: Convention,
    /// `lora_A`, `lora_down`: with a row for each of the rank. Of embeddings in GGUF, with a column.
    pub(super) down: Option<usize>,
    /// `lora_B`, `lora_up`: with a column for each of the rank.
    pub(super) up: Option<usize>,
    /// The norms of rows (DoRA).
    pub(super) magnitude: Option<usize>,
    /// A scalar, `alpha`, which the update is multiplied by and divided by the rank.
    pub(super) alpha: Option<usize>,
}

/// Which program named the tensors.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Convention {
    /// The path of a module in `model`.
    #[default]
    Peft,
    /// Like `Peft`, of an embedding, whose weight is the transposed product.
    PeftEmbedding,
    /// The path of a module with underscores.
    Kohya,
    /// The name of a tensor.
    Gguf,
}

impl Convention {
    fn is_of_peft(self) -> bool {
        matches!(self, Convention::Peft | Convention::PeftEmbedding)
    }
}

/// What a tensor is in a pair.
#[derive(Debug, Clone, Copy)]
enum Role {
    Down,
    Up,
    Magnitude,
    Alpha,
}

/// The endings of names.
const ENDINGS: [(&str, Convention, Role); 13] = [
    (".lora_A.weight", Convention::Peft, Role::Down),
    (".lora_B.weight", Convention::Peft, Role::Up),
    (".lora_A.default.weight", Convention::Peft, Role::Down),
    (".lora_B.default.weight", Convention::Peft, Role::Up),
    (".lora_embedding_A", Convention::PeftEmbedding, Role::Down),
    (".lora_embedding_B", Convention::PeftEmbedding, Role::Up),
    (".lora_magnitude_vector.weight", Convention::Peft, Role::Magnitude),
    (".lora_magnitude_vector", Convention::Peft, Role::Magnitude),
    (".lora_down.weight", Convention::Kohya, Role::Down),
    (".lora_up.weight", Convention::Kohya, Role::Up),
    (".alpha", Convention::Kohya, Role::Alpha),
    (".lora_a", Convention::Gguf, Role::Down),
    (".lora_b", Convention::Gguf, Role::Up),
];

/// Parts of names that other kinds of adapters have.
const OTHER_KINDS: [(&str, &str); 6] = [
    (".hada_w", "LoHa"),
    (".lokr_w", "LoKr"),
    (".oft_", "OFT"),
    (".dora_scale", "DoRA of kohya's scripts"),
    (".lora_mid.", "LoCon with a core"),
    (".lora_B.bias", "LoRA with a bias"),
];

/// The tensors of an adapter.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// By the name of the module or tensor that they update.
    pub(super) updates: BTreeMap<String, Pair>,
    /// Other tensors, which replace those of the model, with their positions. Only adapters of PEFT have any.
    pub(super) replacements: Vec<(String, usize)>,
}

impl Pairs {
    /// Sorts the tensors of an adapter.
    ///
    /// # Errors
    /// `UNSUPPORTED` for tensors of another kind of adapter; `FORMAT` if a factor is missing.
    pub(super) fn of(index: &Index) -> Result<Self> {
        let mut pairs = Pairs::default();
        for (at, name) in index.tensors.names().enumerate() {
            if let Some((_, kind)) = OTHER_KINDS.iter().find(|(part, _)| name.contains(part)) {
                let error = Error::new(ErrorKind::Unsupported, format!("the adapter is {kind}, not LoRA"));
                return Err(error
                    .in_tensor(name)
                    .advise("Merge it with the program that made it, and load the result."));
            }
            let ending = ENDINGS.iter().find_map(|(ending, convention, role)| {
                name.strip_suffix(ending).map(|base| (base, *convention, *role))
            });
            let Some((base, convention, role)) = ending else {
                pairs.replacements.push((name.to_owned(), at));
                continue;
            };
            let pair = pairs.updates.entry(base.to_owned()).or_default();
            match role {
                Role::Down => pair.down = Some(at),
                Role::Up => pair.up = Some(at),
                Role::Magnitude => pair.magnitude = Some(at),
                Role::Alpha => pair.alpha = Some(at),
            }
            if matches!(role, Role::Down | Role::Up) {
                pair.convention = convention;
            }
        }
        let is_of_peft = pairs.updates.values().any(|pair| pair.convention.is_of_peft());
        if let Some((name, _)) = pairs.replacements.first().filter(|_| !is_of_peft && !pairs.updates.is_empty()) {
            let error = Error::new(ErrorKind::Unsupported, "the adapter has a tensor that is no factor of an update");
            return Err(error.in_tensor(name).advise("Merge it with the program that made it, and load the result."));
        }
        for (base, pair) in &pairs.updates {
            if pair.down.is_none() || pair.up.is_none() {
                let what = "the adapter has only one of the two factors of an update";
                return Err(Error::new(ErrorKind::Format, what).in_tensor(base));
            }
        }
        if pairs.updates.is_empty() {
            let error = Error::new(ErrorKind::Unsupported, "the file has no tensors of a LoRA adapter");
            return Err(error.advise("Adapters of PEFT, of kohya's scripts and in GGUF are read."));
        }
        Ok(pairs)
    }

    /// Whether `adapter_config.json` is needed: names are those of PEFT, and no tensor states `alpha`.
    pub(super) fn need_config(&self) -> bool {
        self.updates.values().any(|pair| pair.convention.is_of_peft() && pair.alpha.is_none())
    }
}
