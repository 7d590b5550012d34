//! Digests of the input's bytes, for inputs of which no server states a version: a part records what it has read, and
//! the merge compares it with its own input.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;
use weightstream::Result;
use weightstream::internals::codec::digest::{Hasher, digest_of};
use weightstream::internals::index::{Digest, Tensor};
use weightstream::internals::loader::ModelMetadata;
use weightstream::internals::output::shares_bytes;
use weightstream::internals::progress::Progress;
use weightstream::internals::window::{Stop, Window};
use weightstream::internals::write::{Extent, Input};
use weightstream::internals::write::{Sources, check_cancelled};

/// An input that keeps the digest of each component that was read.
pub(super) struct Digesting<'a> {
    input: &'a dyn Input,
    /// By tensor and role.
    digests: RefCell<HashMap<(String, String), Digest>>,
}

impl<'a> Digesting<'a> {
    pub(super) fn new(input: &'a dyn Input) -> Self {
        Digesting { input, digests: RefCell::default() }
    }

    /// The digest of the bytes of these tensors, all of which were read. A tensor may be unread if it has the same
    /// bytes as the one before it.
    pub(super) fn digest(&self, tensors: &[Tensor], sources: &Sources) -> Result<String> {
        let digests = self.digests.borrow();
        let mut text = String::new();
        let mut previous: Option<(&Tensor, &Tensor)> = None;
        for tensor in tensors {
            let source = sources.get(tensor)?;
            let tied = previous.filter(|(previous, _)| shares_bytes(previous, tensor)).map(|(_, source)| source);
            for component in &source.components {
                let of = |source: &Tensor| digests.get(&(source.name.clone(), component.role.to_string())).copied();
                let digest = of(source).or_else(|| tied.and_then(of)).map(|digest| digest.to_string());
                text.push_str(&format!("{:?} {} {}\n", source.name, component.role, digest.unwrap_or_default()));
            }
            if tied.is_none() {
                previous = Some((tensor, source));
            }
        }
        Ok(digest_of(text.as_bytes(), sha256()).to_string())
    }

    /// Reads these tensors.
    pub(super) fn read(&self, tensors: &[Tensor], sources: &Sources, progress: &(dyn Progress + Sync)) -> Result<()> {
        for tensor in tensors {
            let source = sources.get(tensor)?;
            for component in &source.components {
                self.read_pieces(source, &component.role, &mut |_| check_cancelled(progress))?;
            }
        }
        Ok(())
    }
}

impl Input for Digesting<'_> {
    fn metadata(&self) -> &ModelMetadata {
        self.input.metadata()
    }

    fn tensors(&self) -> &[Tensor] {
        self.input.tensors()
    }

    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut hasher = Hasher::new(sha256());
        self.input.read_pieces(tensor, role, &mut |bytes| {
            hasher.update(bytes);
            emit(bytes)
        })?;
        self.digests.borrow_mut().insert((tensor.name.clone(), role.to_owned()), hasher.finish());
        Ok(())
    }

    fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        self.input.parse_first(parse)
    }

    fn modified(&self) -> Option<SystemTime> {
        self.input.modified()
    }

    fn urls(&self) -> Vec<&str> {
        self.input.urls()
    }

    fn version(&self) -> Option<String> {
        self.input.version()
    }

    fn paths(&self) -> Vec<&Path> {
        self.input.paths()
    }

    fn compare_files(&self, extent: Extent, progress: &(dyn Progress + Sync)) -> Result<Vec<String>> {
        self.input.compare_files(extent, progress)
    }
}

fn sha256() -> Digest {
    Digest::Sha256([0; 32])
}
