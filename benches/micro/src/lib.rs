//! Benchmarks of individual decoders, digests and parsers, natively (`cargo bench -p micro-benchmarks`) and in a
//! browser (`cargo xtask bench --kernels`).

#![warn(clippy::too_many_lines)]

mod inputs;
#[cfg(target_arch = "wasm32")]
mod web;

use std::hint::black_box;
use weightstream::Dtype;
use weightstream::internals::codec::cast::Cast;
use weightstream::internals::codec::digest::digest_of;
use weightstream::internals::codec::{crc32, lz4, zstd};
use weightstream::internals::format;
use weightstream::internals::index::Digest;
use weightstream::internals::window::Window;

/// A function to benchmark.
pub struct Kernel {
    /// The name of the kernel.
    pub name: &'static str,
    /// How many bytes one run digests, decodes or parses.
    pub bytes: usize,
    /// One run.
    pub run: Box<dyn FnMut()>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.name, self.bytes)
    }
}

/// The size of the buffer through which bytes are copied from JavaScript to wasm memory.
const SCRATCH_BYTES: usize = 256 << 10;

/// All kernels with their inputs.
pub fn kernels() -> Vec<Kernel> {
    let mut all = vec![
        digest("CRC-32", |bytes| crc32::append(0, bytes)),
        digest("CRC-32, sparse", |bytes| weightstream_kernels::crc::crc32(0, bytes)),
        digest("CRC-32, crc32fast", crc32fast::hash),
        digest("CRC-32C", |bytes| crc32::append_castagnoli(0, bytes)),
        digest("CRC-32C, sparse", |bytes| weightstream_kernels::crc::crc32c(0, bytes)),
        digest("CRC-32C, crc32c", crc32c::crc32c),
        digest("BLAKE3", |bytes| digest_of(bytes, Digest::Blake3([0; 32]))),
        digest("SHA-256", |bytes| digest_of(bytes, Digest::Sha256([0; 32]))),
    ];
    for (name, zstd_name, content) in [
        ("LZ4, floats", "Zstandard, floats", inputs::floats()),
        ("LZ4, planes of BF16", "Zstandard, planes of BF16", inputs::bf16_planes()),
        ("LZ4, 8-bit quanta", "Zstandard, 8-bit quanta", inputs::quanta()),
        ("LZ4, highly compressible", "Zstandard, highly compressible", inputs::sparse()),
    ] {
        all.push(lz4(name, &content));
        all.push(zstd(zstd_name, &content));
    }
    all.push(cast("Q8_0 to F32", Dtype::Q8_0, 34));
    all.push(cast("Q4_K to F32", Dtype::Q4_K, 144));
    all.push(cast("F16 to F32", Dtype::F16, 2));
    all.push(parse("SafeTensors, 10,000 tensors", inputs::safetensors()));
    all.push(parse("GGUF, 50,000 tokens", inputs::gguf()));
    all
}

fn digest<T>(name: &'static str, digest: impl Fn(&[u8]) -> T + 'static) -> Kernel {
    let mut bytes = inputs::floats();
    bytes.truncate(SCRATCH_BYTES);
    Kernel { name, bytes: bytes.len(), run: Box::new(move || _ = black_box(digest(black_box(&bytes)))) }
}

/// Converts blocks of `block` bytes to F32. The bytes of the kernel are those of the floats.
fn cast(name: &'static str, from: Dtype, block: usize) -> Kernel {
    let mut stored = inputs::quanta();
    stored.truncate(stored.len() - stored.len() % block);
    let convert = move || {
        let Ok(mut cast) = Cast::new(&from, &Dtype::F32) else { return 0 };
        let mut floats = 0;
        for chunk in stored.chunks(SCRATCH_BYTES) {
            let converted = cast.push(chunk, &mut |bytes| {
                floats += black_box(bytes).len();
                Ok(())
            });
            assert_eq!(converted, Ok(()));
        }
        assert_eq!(cast.finish(), Ok(()));
        floats
    };
    Kernel { name, bytes: convert(), run: Box::new(move || _ = convert()) }
}

fn lz4(name: &'static str, content: &[u8]) -> Kernel {
    let mut stored = Vec::new();
    for block in content.chunks(lz4::MAX_BLOCK_BYTES) {
        let block = lz4_flex::block::compress(block);
        stored.extend((block.len() as u32).to_le_bytes());
        stored.extend(block);
    }
    let length = content.len();
    let run = move || {
        let mut decoder = lz4::Lz4Blocks::new(stored.len() as u64, length as u64);
        for chunk in stored.chunks(SCRATCH_BYTES) {
            let decoded = decoder.push(chunk, &mut |bytes| {
                black_box(bytes);
                Ok(())
            });
            assert_eq!(decoded, Ok(()));
        }
        assert_eq!(decoder.finish(), Ok(()));
    };
    Kernel { name, bytes: length, run: Box::new(run) }
}

fn zstd(name: &'static str, content: &[u8]) -> Kernel {
    let level = structured_zstd::encoding::CompressionLevel::Level(3);
    let stored = structured_zstd::encoding::compress_slice_to_vec(content, level);
    let length = content.len();
    let run = move || {
        let mut decoder = zstd::Zstd::new(stored.len() as u64, zstd::DecodedLength::Exactly(length as u64));
        let mut decoded = Vec::new();
        let outcome = decoder.push(black_box(&stored), &mut |bytes| {
            decoded.extend_from_slice(bytes);
            Ok(())
        });
        assert!(outcome.is_ok() && decoded.len() == length);
    };
    Kernel { name, bytes: length, run: Box::new(run) }
}

fn parse(name: &'static str, file: Vec<u8>) -> Kernel {
    let bytes = file.len();
    let run = move || assert!(format::parse(&Window::whole(black_box(&file))).is_ok());
    Kernel { name, bytes, run: Box::new(run) }
}
