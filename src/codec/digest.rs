//! Computes digests incrementally, and compares them with the values that files state.

use super::crc32;
use crate::algorithm::Algorithm;
use crate::buffer::Buffer;
use crate::digest::Digest;
use crate::digest_state::{BLOCK_BYTES, DigestState, WORDS_BYTES};
use crate::error::{Error, ErrorKind, Result};
use sha2::Digest as _;
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use std::hash::Hasher as _;
#[cfg(feature = "xxh3")]
use twox_hash::XxHash3_64;

/// Computes a digest incrementally.
#[derive(Debug, Clone)]
pub struct Hasher(State);

#[derive(Debug, Clone)]
enum State {
    Crc32(u32),
    #[cfg(feature = "crc32c")]
    Crc32c(u32),
    #[cfg(feature = "xxh3")]
    Xxh3(Xxh3),
    Sha256(Box<sha2::Sha256>),
    Blake3(Box<blake3::Hasher>),
}

#[cfg(feature = "xxh3")]
#[derive(Clone)]
struct Xxh3(Box<XxHash3_64>);

impl Hasher {
    /// Creates a hasher with the algorithm of `like`. The value of `like` is not used.
    pub fn new(like: Digest) -> Self {
        Hasher(match like {
            Digest::Crc32(_) => State::Crc32(0),
            #[cfg(feature = "crc32c")]
            Digest::Crc32c(_) => State::Crc32c(0),
            #[cfg(feature = "xxh3")]
            Digest::Xxh3(_) => State::Xxh3(Xxh3(Box::default())),
            Digest::Sha256(_) => State::Sha256(Box::default()),
            Digest::Blake3(_) => State::Blake3(Box::default()),
        })
    }

    /// Adds the next bytes.
    #[inline(never)] // avoids copies of five algorithms at every call site
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Crc32(crc) => *crc = crc32::append(*crc, bytes),
            #[cfg(feature = "crc32c")]
            State::Crc32c(crc) => *crc = crc32::append_castagnoli(*crc, bytes),
            #[cfg(feature = "xxh3")]
            State::Xxh3(Xxh3(hasher)) => hasher.write(bytes),
            State::Sha256(hasher) => hasher.update(bytes),
            State::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    /// Whether digests with the algorithm of `like` can be combined from digests of consecutive parts.
    pub fn can_append(like: Digest) -> bool {
        match like {
            Digest::Crc32(_) => true,
            #[cfg(feature = "crc32c")]
            Digest::Crc32c(_) => true,
            _ => false,
        }
    }

    /// Appends the bytes of `next`, which were `length` bytes. Returns false and does nothing if
    /// [`Hasher::can_append`] is false for the algorithm.
    pub fn append(&mut self, next: Hasher, length: u64) -> bool {
        match (&mut self.0, next.0) {
            (State::Crc32(crc), State::Crc32(next)) => *crc = crc32::combine(*crc, next, length),
            #[cfg(feature = "crc32c")]
            (State::Crc32c(crc), State::Crc32c(next)) => *crc = crc32c::crc32c_combine(*crc, next, length as usize),
            _ => return false,
        }
        true
    }

    /// Continues a computation of SHA-256. `None` if the state cannot be one.
    pub fn resume(state: &DigestState) -> Option<Self> {
        let (words, rest) = state.bytes().split_at_checked(WORDS_BYTES)?;
        let mut serialized = SerializedState::<sha2::Sha256>::default();
        let (core, buffer) = serialized.split_at_mut_checked(WORDS_BYTES)?;
        let (blocks, buffer) = buffer.split_at_mut_checked(size_of::<u64>())?;
        for (to, word) in core.as_chunks_mut::<4>().0.iter_mut().zip(words.as_chunks::<4>().0) {
            *to = u32::from_be_bytes(*word).to_le_bytes();
        }
        blocks.copy_from_slice(&(state.offset / BLOCK_BYTES).to_le_bytes());
        let (length, buffer) = buffer.split_first_mut()?;
        *length = rest.len() as u8;
        buffer.get_mut(..rest.len())?.copy_from_slice(rest);
        SerializableState::deserialize(&serialized).ok().map(|hasher| Hasher(State::Sha256(Box::new(hasher))))
    }

    /// Whether this is the current state of a SHA-256.
    pub(crate) fn is_in(&self, state: &DigestState) -> bool {
        match (&self.0, Hasher::resume(state)) {
            (State::Sha256(hasher), Some(Hasher(State::Sha256(stated)))) => hasher.serialize() == stated.serialize(),
            _ => false,
        }
    }

    /// The current state, if the algorithm is SHA-256. `offset` is the number of bytes that were added.
    pub fn state(&self, offset: u64) -> Option<DigestState> {
        let State::Sha256(hasher) = &self.0 else { return None };
        let serialized = hasher.serialize();
        let (words, buffer) = serialized.split_at_checked(WORDS_BYTES)?;
        let (_, buffer) = buffer.split_at_checked(size_of::<u64>())?;
        let (length, buffer) = buffer.split_first()?;
        let words = words.as_chunks::<4>().0.iter().flat_map(|word| u32::from_le_bytes(*word).to_be_bytes());
        DigestState::new(offset, words.chain(buffer.get(..usize::from(*length))?.iter().copied()).collect())
    }

    /// Returns the digest of all bytes.
    pub fn finish(self) -> Digest {
        match self.0 {
            State::Crc32(crc) => Digest::Crc32(crc),
            #[cfg(feature = "crc32c")]
            State::Crc32c(crc) => Digest::Crc32c(crc),
            #[cfg(feature = "xxh3")]
            State::Xxh3(Xxh3(hasher)) => Digest::Xxh3(hasher.finish()),
            State::Sha256(hasher) => Digest::Sha256(hasher.finalize().into()),
            State::Blake3(hasher) => Digest::Blake3(hasher.finalize().into()),
        }
    }
}

#[cfg(feature = "xxh3")]
impl std::fmt::Debug for Xxh3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Xxh3")
    }
}

/// Compares a computed digest with the stated one, and returns the name of the algorithm.
///
/// # Errors
/// `CHECKSUM` if they differ.
pub fn compare(computed: Digest, stated: Digest) -> Result<Algorithm> {
    if computed == stated {
        return Ok(computed.algorithm());
    }
    let what = format!("the bytes have the {} {computed}, but should have {stated}", computed.algorithm());
    Err(Error::new(ErrorKind::Checksum, what))
}

/// Returns the digest of `bytes` with the algorithm of `like`.
pub fn digest_of(bytes: &[u8], like: Digest) -> Digest {
    match like {
        Digest::Crc32(_) => Digest::Crc32(crc32::checksum(bytes)),
        #[cfg(feature = "crc32c")]
        Digest::Crc32c(_) => Digest::Crc32c(crc32::append_castagnoli(0, bytes)),
        #[cfg(feature = "xxh3")]
        Digest::Xxh3(_) => Digest::Xxh3(XxHash3_64::oneshot(bytes)),
        Digest::Sha256(_) => Digest::Sha256(sha2::Sha256::digest(bytes).into()),
        Digest::Blake3(_) => Digest::Blake3(blake3::hash(bytes).into()),
    }
}

/// Returns the digest of a buffer with the algorithm of `like`.
///
/// # Errors
/// `INVALID_ARGUMENT` if the caller has detached the memory of the buffer.
pub fn digest_of_buffer<B: Buffer>(buffer: &B, like: Digest) -> Result<Digest> {
    let mut hasher = Hasher::new(like);
    buffer.inspect(0..buffer.byte_length(), &mut |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(hasher.finish())
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::digest::from_hex;

    #[allow(clippy::unwrap_used, reason = "a test")]
    fn hex<const N: usize>(text: &str) -> [u8; N] {
        from_hex(text).unwrap_or([0; N])
    }

    /// The published check values and test vectors of the algorithms.
    #[test]
    fn matches_the_published_test_vectors() {
        let published = [
            (&b"123456789"[..], Digest::Crc32(0xcbf4_3926)),
            (b"123456789", Digest::Crc32c(0xe306_9283)),
            (b"", Digest::Xxh3(0x2d06_8005_38d3_94c2)),
            (b"abc", Digest::Sha256(hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"))),
            (b"", Digest::Blake3(hex("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"))),
        ];
        for (bytes, stated) in published {
            let mut hasher = Hasher::new(stated);
            for piece in bytes.chunks(2) {
                hasher.update(piece);
            }
            assert_eq!(compare(hasher.finish(), stated), Ok(stated.algorithm()));
            assert_eq!(digest_of(bytes, stated), stated);
            let (first, second) = bytes.split_at(bytes.len() / 3);
            let (mut whole, mut rest) = (Hasher::new(stated), Hasher::new(stated));
            whole.update(first);
            rest.update(second);
            assert_eq!(whole.append(rest, second.len() as u64), Hasher::can_append(stated));
            assert_eq!(whole.finish() == stated, Hasher::can_append(stated) || bytes.is_empty());
        }
    }

    #[test]
    fn continues_sha_256_from_a_state() {
        let bytes: Vec<u8> = (0..1000_u32).map(|number| (number * 7 + number / 13) as u8).collect();
        let like = Digest::Sha256([0; 32]);
        for at in [0, 1, 63, 64, 65, 127, 128, 500, 1000] {
            let mut before = Hasher::new(like);
            before.update(&bytes[..at]);
            let state = before.state(at as u64).unwrap();
            let stated = DigestState::parse(at as u64, &state.to_string()).unwrap();
            assert_eq!(stated, state);
            let mut resumed = Hasher::resume(&stated).unwrap();
            resumed.update(&bytes[at..]);
            assert_eq!(resumed.finish(), digest_of(&bytes, like), "{at}");
        }
        // The initial words of FIPS 180-4, section 5.3.3.
        let initial = Hasher::new(like).state(0).unwrap().to_string();
        assert_eq!(initial, "6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19");
        assert_eq!(DigestState::parse(1, &initial), None, "one byte is missing");
    }

    #[test]
    fn rejects_a_different_digest() {
        let error = compare(Digest::Crc32(0), Digest::Crc32(1)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Checksum);
        assert!(error.what.contains("crc32 00000000, but should have 00000001"), "{}", error.what);
    }
}
