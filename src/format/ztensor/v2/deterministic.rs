//! Checks for the core deterministic encoding of CBOR (RFC 8949, 4.2.1), which version 2 requires.

use crate::error::{Result, malformed};

/// The maximum nesting of values below the root (specification, 3.1).
const MAX_DEPTH: u32 = 32;

/// Checks that `manifest`, which begins at `start`, is one value in deterministic encoding: shortest heads, definite
/// lengths, ascending keys (hence no duplicates), shortest floats, no tags. The reader checks that text is UTF-8.
///
/// # Errors
/// `FORMAT` if the encoding is not deterministic.
pub(super) fn check(manifest: &[u8], start: u64) -> Result<()> {
    let mut validator = Validator { bytes: manifest, at: 0 };
    let outcome = match validator.value(MAX_DEPTH) {
        Ok(()) if validator.at < manifest.len() => Err("bytes follow it"),
        outcome => outcome,
    };
    let at = start + validator.at as u64;
    outcome.map_err(|reason| malformed(format!("the manifest is not deterministic CBOR: {reason}")).at(at..at + 1))
}

/// Validates a value. Its errors are the reason texts of error messages.
struct Validator<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Validator<'a> {
    /// Validates a value and all nested values, of at most `depth` further levels.
    fn value(&mut self, depth: u32) -> Result<(), &'static str> {
        let [first] = self.array()?;
        let (major, low) = (first >> 5, first & 0x1f);
        if major == 7 {
            return self.simple(low);
        }
        let argument = self.argument(low)?;
        match major {
            0 | 1 => Ok(()),
            2 | 3 => self.take(argument).map(drop),
            4 => self.items(argument, depth, |validator, below| validator.value(below)),
            5 => {
                let mut last: &[u8] = &[];
                self.items(argument, depth, |validator, below| {
                    let key_start = validator.at;
                    validator.value(below)?;
                    let key = validator.bytes.get(key_start..validator.at).unwrap_or_default();
                    if key <= last {
                        return Err("keys are not in ascending order");
                    }
                    last = key;
                    validator.value(below)
                })
            }
            _ => Err("it has a tag"),
        }
    }

    /// Validates `count` items of an array or a map. Each item takes at least one byte.
    fn items(
        &mut self,
        count: u64,
        depth: u32,
        mut each: impl FnMut(&mut Self, u32) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        for _ in 0..count {
            each(self, depth.checked_sub(1).ok_or("it is nested too deeply")?)?;
        }
        Ok(())
    }

    /// Reads the argument of a head, which must be in its shortest form.
    fn argument(&mut self, low: u8) -> Result<u64, &'static str> {
        let (argument, least) = match low {
            0..24 => return Ok(low.into()),
            24 => (u8::from_be_bytes(self.array()?).into(), 24),
            25 => (u16::from_be_bytes(self.array()?).into(), 1 << 8),
            26 => (u32::from_be_bytes(self.array()?).into(), 1 << 16),
            27 => (u64::from_be_bytes(self.array()?), 1 << 32),
            _ => return Err("a length is indefinite"),
        };
        if argument < least { Err("a number is not in its shortest form") } else { Ok(argument) }
    }

    /// Validates false, true, null or a float, which must be in its shortest form.
    fn simple(&mut self, low: u8) -> Result<(), &'static str> {
        let is_shortest = match low {
            20..23 => true,
            25 => {
                let bits = u16::from_be_bytes(self.array()?);
                bits & 0x7fff <= 0x7c00 || bits == 0x7e00 // NaN has one form
            }
            26 => {
                let value = f32::from_be_bytes(self.array()?);
                !value.is_nan() && !fits_f16(value)
            }
            27 => {
                let value = f64::from_be_bytes(self.array()?);
                !value.is_nan() && f64::from(value as f32) != value
            }
            _ => return Err("it has a simple value other than false, true and null"),
        };
        if is_shortest { Ok(()) } else { Err("a float is not in its shortest form") }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        self.take(N as u64)?.try_into().map_err(|_| TRUNCATED)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], &'static str> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length)).ok_or(TRUNCATED)?;
        let bytes = self.bytes.get(self.at..end).ok_or(TRUNCATED)?;
        self.at = end;
        Ok(bytes)
    }
}

const TRUNCATED: &str = "it ends in the middle of a value";

/// Whether a 16-bit float can represent the value exactly: its exponent is from -24 to 15, and no bit is set below the
/// last bit of the 16-bit float, whose value is at least 2^-24.
fn fits_f16(value: f32) -> bool {
    let (exponent, mantissa) = ((value.to_bits() >> 23) & 0xff, value.to_bits() & 0x7f_ffff);
    match exponent {
        0 => mantissa == 0,
        103..=142 => (mantissa | 1 << 23).trailing_zeros() >= 13 + 113u32.saturating_sub(exponent),
        255 => true,
        _ => false,
    }
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Examples of RFC 8949, appendix A, and their longer forms.
    #[test]
    fn accepts_only_the_shortest_form_of_a_value() {
        let shortest: [&[u8]; 16] = [
            b"\x17",
            b"\x18\x18",
            b"\x1b\x00\x00\x00\xe8\xd4\xa5\x10\x00",
            b"\x39\x03\xe7",
            b"\xf9\x3c\x00",
            b"\xf9\x00\x01", // 2^-24
            b"\xf9\x7c\x00",
            b"\xf9\x7e\x00",
            b"\xfa\x47\xc3\x50\x00",
            b"\xfa\x33\x00\x00\x00", // 2^-25
            b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a",
            b"\xf6",
            b"\x44\x01\x02\x03\x04",
            b"\x83\x01\x82\x02\x03\x80",
            b"\xa2\x01\x02\x03\x04",
            b"\xa3\x61a\x01\x61b\x02\x62aa\x03",
        ];
        for bytes in shortest {
            assert_eq!(check(bytes, 0), Ok(()), "{bytes:x?}");
        }
        let others: [&[u8]; 23] = [
            b"",
            b"\x18\x17",
            b"\x19\x00\xff",
            b"\x1a\x00\x00\xff\xff",
            b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff",
            b"\x58\x01a",
            b"\xfa\x3f\x80\x00\x00", // 1
            b"\xfa\x33\x80\x00\x00", // 2^-24
            b"\xfa\x7f\x80\x00\x00", // infinity
            b"\xfa\x00\x00\x00\x00",
            b"\xfa\x7f\xc0\x00\x00",
            b"\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00",
            b"\xf9\x7e\x01",
            b"\xf9\xfe\x00",
            b"\xf7",
            b"\xc1\x00",
            b"\x5f\x41a\xff",
            b"\x9f\xff",
            b"\x82\x01",
            b"\xa2\x61a\x01\x61a\x02",
            b"\xa2\x61b\x01\x61a\x02",
            b"\xa1\x61a",
            b"\x01\x01",
        ];
        for bytes in others {
            assert!(check(bytes, 0).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn rejects_nesting_beyond_32_levels_and_counts_beyond_the_end() {
        let nested = |levels: usize| [vec![0x81; levels], vec![0]].concat();
        assert_eq!(check(&nested(32), 0), Ok(()));
        assert!(check(&nested(33), 0).unwrap_err().what.contains("nested"));
        for major in [0x5b, 0x7b, 0x9b, 0xbb] {
            assert!(check(&[major, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 0).is_err());
        }
    }

    #[test]
    fn errors_have_a_position() {
        let error = check(b"\x82\x01\xc1\x00", 100).unwrap_err();
        assert_eq!(error.context.range, Some(103..104));
    }
}
