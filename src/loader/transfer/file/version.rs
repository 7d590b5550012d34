//! Proof that all responses are of one version of the file.

use super::ModelFile;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use crate::loader::transfer::remote::Proof;
use crate::loader::transfer::seen_blocks::SeenBlocks;
use crate::source::{RangeResponse, Source};
use std::ops::Range;
use std::rc::Rc;

impl<S: Source> ModelFile<S> {
    /// Requires that all later reads are of one version of the file, because the caller joins their bytes. Without a
    /// strong ETag, each response must overlap what was read before.
    pub(crate) fn keep_one_version(&self) {
        if let Some(joined) = &self.joined {
            return joined.keep_one_version();
        }
        // Bytes in memory do not change, and those of a signed file are compared with the signature.
        if !self.source.is_immutable() && self.signed.is_none() {
            self.seen.get_or_init(Rc::default);
        }
    }

    /// Requests `range`. If the response must be compared with earlier ones, returns their blocks too; the response
    /// then starts at one of them, or at the start of the file.
    pub(super) async fn request_one_version(
        &self,
        range: Range<u64>,
    ) -> Result<(RangeResponse<S::Body>, Proof, Option<Rc<SeenBlocks>>)> {
        let Some(seen) = self.seen.get() else {
            let answer = self.source.read(range).await?;
            let proof = self.check_version(&answer)?;
            return Ok((answer, proof, None));
        };
        let requested = if self.must_overlap() { seen.around(&range, self.file_length()) } else { range.clone() };
        let is_first = self.identity.borrow().is_none();
        let answer = self.source.read(requested).await?;
        let proof = self.check_version(&answer)?;
        if proof == Proof::Strong || (is_first && answer.identity.etag.is_some()) {
            return Ok((answer, proof, None));
        }
        self.lacks_proof.set(true);
        let needed = seen.around(&range, self.file_length());
        if answer.start <= needed.start {
            return Ok((answer, proof, Some(Rc::clone(seen))));
        }
        drop(answer);
        let answer = self.source.read(needed).await?;
        let proof = self.check_version(&answer)?;
        Ok((answer, proof, Some(Rc::clone(seen))))
    }

    /// Whether the next response will probably have a strong ETag, which proves that the file did not change.
    pub(crate) fn expects_proof(&self) -> bool {
        self.is_proven() || self.identity.borrow().as_ref().is_some_and(|known| known.etag.is_some())
    }

    /// Whether no response needs a proof: the bytes do not change, or each of the joined files has its own proofs.
    fn is_proven(&self) -> bool {
        self.source.is_immutable() || self.joined.is_some()
    }

    /// Whether two responses had the same strong ETag.
    pub(crate) fn has_stable_etag(&self) -> bool {
        self.has_stable_etag.get()
    }

    /// Whether a response without a strong ETag is an exception on this server.
    pub(crate) fn server_repeats_etag(&self) -> bool {
        self.server_repeats_etag.get()
    }

    /// Whether ranges can be read in any order.
    pub(crate) fn is_readable_anywhere(&self) -> bool {
        !self.comes_from_start() && !self.must_overlap()
    }

    /// Whether every response must overlap what was read before, so that a second connection is of no use.
    pub(crate) fn must_overlap(&self) -> bool {
        self.seen.get().is_some() && (self.lacks_proof.get() || !self.expects_proof())
    }

    /// Whether responses prove that they are of one version, so that several connections can read parts of one tensor.
    /// An equal date is not enough: it counts in whole seconds, and the parts are not compared with each other.
    pub(crate) fn proves_version(&self) -> bool {
        self.is_proven() || (self.has_stable_etag() && !self.lost_etag.get())
    }

    /// Whether several responses can have parts of one tensor: they prove that they are of one version.
    pub(crate) fn can_join_responses(&self) -> bool {
        self.proves_version() && !self.must_overlap() && !self.comes_from_start()
    }

    /// The version of the file, once a response has stated it.
    #[cfg(writes)]
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity.borrow().clone()
    }

    fn check_version(&self, answer: &RangeResponse<S::Body>) -> Result<Proof> {
        let now = &answer.identity;
        let mut identity = self.identity.borrow_mut();
        let earlier = identity.get_or_insert_with(Identity::default);
        if let Some(change) = now.change_since(earlier) {
            return Err(Error::new(ErrorKind::Changed, format!("the file changed while it was loaded: {change}")));
        }
        let has_same_etag = now.etag.is_some() && now.etag == earlier.etag;
        self.lost_etag.set(self.lost_etag.get() || (self.has_stable_etag() && !has_same_etag));
        self.has_stable_etag.set(self.has_stable_etag.get() || has_same_etag);
        self.server_repeats_etag.set(self.server_repeats_etag.get() || (has_same_etag && !answer.is_cached));
        let proof = match now.last_modified.is_some() && now.last_modified == earlier.last_modified {
            _ if has_same_etag || self.source.is_immutable() => Proof::Strong,
            true => Proof::Weak,
            false => Proof::None,
        };
        earlier.learn(now);
        Ok(proof)
    }
}
