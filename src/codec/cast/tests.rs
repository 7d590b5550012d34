//! Compares casts with the `gguf` package, and with the definition of rounding to nearest.
#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;
use proptest::prelude::*;
use std::fs;
use std::path::Path;

fn vector(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/casts").join(name)).unwrap()
}

fn cast_pieces(from: &Dtype, to: &Dtype, pieces: &[&[u8]]) -> Result<Vec<u8>> {
    let (mut cast, mut out) = (Cast::new(from, to)?, Vec::new());
    for piece in pieces {
        cast.push(piece, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })?;
    }
    cast.finish().map(|()| out)
}

fn cast(from: Dtype, to: Dtype, bytes: &[u8]) -> Vec<u8> {
    cast_pieces(&from, &to, &[bytes]).unwrap()
}

fn bytes_of<const N: usize, T>(numbers: &[T], to_bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(to_bytes).collect()
}

fn halves(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks(2).map(|half| u16::from_le_bytes(half.try_into().unwrap())).collect()
}

#[test]
fn matches_the_bits_of_gguf() {
    for (from, to) in [
        (Dtype::F32, Dtype::Q8_0),
        (Dtype::F64, Dtype::Q8_0),
        (Dtype::F32, Dtype::Q4_0),
        (Dtype::F64, Dtype::Q4_0),
        (Dtype::F32, Dtype::F16),
        (Dtype::F64, Dtype::F16),
        (Dtype::F32, Dtype::BF16),
    ] {
        let [input, output] = [from.name().to_lowercase(), format!("{from}-to-{to}").to_lowercase()];
        let (found, expected) =
            (cast(from, to.clone(), &vector(&format!("{input}.bin"))), vector(&format!("{output}.bin")));
        assert_eq!(found.len(), expected.len());
        let unit = to.block().unwrap().bytes as usize;
        for (at, (found, expected)) in found.chunks(unit).zip(expected.chunks(unit)).enumerate() {
            assert_eq!(found, expected, "{output}: block {at}");
        }
    }
}

/// A 16-bit float format as defined by IEEE 754.
struct Half {
    dtype: Dtype,
    fraction_bits: u32,
    bias: i32,
}

const F16: Half = Half { dtype: Dtype::F16, fraction_bits: 10, bias: 15 };
const BF16: Half = Half { dtype: Dtype::BF16, fraction_bits: 7, bias: 127 };

impl Half {
    /// The bits of infinity.
    fn infinity(&self) -> u16 {
        (1 << 15) - (1 << self.fraction_bits)
    }

    /// The value of a positive number. For infinity, the value that would follow the largest number.
    fn value(&self, bits: u16) -> f64 {
        let exponent = i32::from(bits >> self.fraction_bits);
        let fraction = f64::from(bits & ((1 << self.fraction_bits) - 1)) / f64::from(1 << self.fraction_bits);
        match exponent {
            0 => fraction * 2f64.powi(1 - self.bias),
            _ => (1.0 + fraction) * 2f64.powi(exponent - self.bias),
        }
    }

    /// The number nearest to `x`, ties to even. Adjacent numbers differ by at most 54 bits, so their middle is exact.
    fn nearest(&self, x: f64) -> u16 {
        let (mut below, mut above) = (0, self.infinity());
        while above - below > 1 {
            let middle = below.midpoint(above);
            *(if self.value(middle) <= x.abs() { &mut below } else { &mut above }) = middle;
        }
        let tie = f64::midpoint(self.value(below), self.value(above));
        let is_above = if x.abs() == tie { below % 2 == 1 } else { x.abs() > tie };
        u16::from(x.is_sign_negative()) << 15 | if is_above { above } else { below }
    }

    fn check(&self, numbers: &[f64]) {
        let found = halves(&cast(Dtype::F64, self.dtype.clone(), &bytes_of(numbers, |x| x.to_le_bytes())));
        for (x, found) in numbers.iter().zip(found) {
            assert_eq!(found, self.nearest(*x), "{x:e} to {}", self.dtype);
        }
        let numbers: Vec<f32> = numbers.iter().map(|x| *x as f32).collect();
        let found = halves(&cast(Dtype::F32, self.dtype.clone(), &bytes_of(&numbers, |x| x.to_le_bytes())));
        for (x, found) in numbers.iter().zip(found) {
            assert_eq!(found, self.nearest(f64::from(*x)), "{x:e} to {}", self.dtype);
        }
    }
}

#[test]
fn every_value_and_every_tie_rounds_to_the_nearest_half() {
    for half in [F16, BF16] {
        for bits in 0..half.infinity() {
            let (number, next) = (half.value(bits), half.value(bits + 1));
            let tie = f64::midpoint(number, next);
            let (below, above) = (f64::from((tie as f32).next_down()), f64::from((tie as f32).next_up()));
            half.check(&[number, -number, tie, -tie, tie.next_down(), tie.next_up(), below, above, -above]);
        }
        half.check(&[f64::MAX, f64::MIN, f64::MIN_POSITIVE, f64::from_bits(1), 1e39, f64::INFINITY, f64::NEG_INFINITY]);
    }
}

#[test]
fn halves_convert_to_floats_of_the_same_value() {
    for half in [F16, BF16] {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let floats = cast(half.dtype.clone(), Dtype::F32, &bytes_of(&all, |bits| bits.to_le_bytes()));
        for (bits, float) in all.iter().zip(floats.chunks(4)) {
            let float = f32::from_le_bytes(float.try_into().unwrap());
            let magnitude = bits & 0x7fff;
            assert_eq!(float.is_sign_negative(), *bits >= 0x8000);
            match magnitude.cmp(&half.infinity()) {
                std::cmp::Ordering::Less => assert_eq!(f64::from(float.abs()), half.value(magnitude)),
                std::cmp::Ordering::Equal => assert!(float.is_infinite()),
                std::cmp::Ordering::Greater => assert!(float.is_nan()),
            }
        }
        assert_eq!(
            cast(half.dtype.clone(), half.dtype, &bytes_of(&all[..1000], |bits| bits.to_le_bytes())).len(),
            2000
        );
    }
}

#[test]
fn nan_stays_nan_for_every_payload() {
    for bits in [0x7f80_0001u32, 0x7f80_1fff, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff] {
        for to in [Dtype::F16, Dtype::BF16] {
            let half = halves(&cast(Dtype::F32, to.clone(), &bits.to_le_bytes()))[0];
            let widened = cast(to, Dtype::F32, &half.to_le_bytes());
            let widened = f32::from_le_bytes(widened.try_into().unwrap());
            assert!(widened.is_nan() && widened.is_sign_negative() == (bits >> 31 == 1), "{bits:x} to {half:x}");
        }
    }
}

#[test]
fn rejects_other_dtypes_and_incomplete_elements() {
    for (from, to) in [(Dtype::I32, Dtype::F16), (Dtype::F32, Dtype::Q4_1), (Dtype::Q8_1, Dtype::F32)] {
        assert_eq!(Cast::new(&from, &to).unwrap_err().kind, ErrorKind::Unsupported);
    }
    for (to, length) in [(Dtype::F16, 7), (Dtype::Q8_0, 4 * 31)] {
        assert_eq!(cast_pieces(&Dtype::F32, &to, &[&vec![0; length]]).unwrap_err().kind, ErrorKind::Format);
    }
}

proptest! {
    #[test]
    fn the_output_does_not_depend_on_the_pieces(
        blocks in proptest::collection::vec(any::<[u8; 32 * 8]>(), 0..80),
        cuts in proptest::collection::vec(0usize..20_000, 0..9),
        from in proptest::sample::select(vec![Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F8_E4M3]),
        to in proptest::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::Q8_0, Dtype::Q4_0]),
    ) {
        let (bytes, mut pieces) = (blocks.concat(), Vec::new());
        let mut rest = &bytes[..];
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(cast_pieces(&from, &to, &pieces), Ok(cast(from, to, &bytes)));
    }

    #[test]
    fn any_number_rounds_to_the_nearest_half(
        numbers in proptest::collection::vec(any::<f64>(), 100), scale in -160i32..160,
    ) {
        let scaled = numbers.iter().map(|x| x % 1.0 * 2f64.powi(scale));
        let numbers: Vec<f64> = scaled.chain(numbers.iter().copied()).collect();
        let numbers: Vec<f64> = numbers.into_iter().filter(|x| !x.is_nan()).collect();
        F16.check(&numbers);
        BF16.check(&numbers);
    }
}
