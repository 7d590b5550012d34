//! Compares decoders with the `gguf` package, and with values that packages or definitions give for other types.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use super::*;
use crate::codec::cast::Cast;
use crate::codec::digest;
use crate::digest::Digest;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dequantize").join(name)
}

fn expected() -> Map<String, Value> {
    serde_json::from_slice(&fs::read(fixture("expected.json")).unwrap()).unwrap()
}

fn decoded(dtype: &Dtype, stored: &[u8], piece_bytes: usize) -> Vec<u8> {
    let (mut cast, mut out) = (Cast::new(dtype, &Dtype::F32).unwrap(), Vec::new());
    for piece in stored.chunks(piece_bytes) {
        cast.push(piece, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
    }
    cast.finish().unwrap();
    out
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect()
}

/// The number of floats between two floats.
fn distance(a: f32, b: f32) -> u64 {
    let ordered = |x: f32| {
        let magnitude = i64::from(x.to_bits() & 0x7fff_ffff);
        if x.is_sign_negative() { -1 - magnitude } else { magnitude }
    };
    ordered(a).abs_diff(ordered(b))
}

/// Returns the worst difference in ulps, if the values differ.
fn difference(found: &[f32], expected: &[f32]) -> Option<String> {
    let pairs = found.iter().zip(expected).enumerate();
    let differences = pairs.filter(|(_, (x, y))| x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan()));
    let (at, (x, y)) = differences.max_by_key(|(_, (x, y))| distance(**x, **y))?;
    Some(format!("value {at} is {x:e} instead of {y:e}: {} ulps", distance(*x, *y)))
}

#[test]
fn every_type_decodes_to_the_bits_of_the_reference() {
    let mut failures = Vec::new();
    for (name, facts) in expected() {
        let dtype = Dtype::from_name(name.trim_end_matches("-not-finite"));
        let stored = fs::read(fixture(&format!("{name}.bin"))).unwrap();
        let bytes = decoded(&dtype, &stored, stored.len());
        assert_eq!(bytes.len() as u64, 4 * facts["values"].as_u64().unwrap(), "{name}");
        let first_values = floats(&fs::read(fixture(&format!("{name}.f32.bin"))).unwrap());
        let sha256: Digest = format!("sha256:{}", facts["sha256"].as_str().unwrap()).parse().unwrap();
        if let Some(difference) = difference(&floats(&bytes), &first_values) {
            failures.push(format!("{name}: {difference}"));
        } else if !name.starts_with("F8_")
            && !name.ends_with("-not-finite")
            && digest::digest_of(&bytes, sha256) != sha256
        {
            failures.push(format!("{name}: a value after the first {} differs", first_values.len()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_decoder_has_a_fixture() {
    let expected = expected();
    let names = Dtype::ALL.iter().map(Dtype::name).chain([APR_Q4, APR_Q8]);
    for name in names.filter(|name| decoder_of(&Dtype::from_name(name)).is_some()) {
        assert!(expected.contains_key(name) || ["F64", "F32"].contains(&name), "{name}");
    }
}

#[test]
fn the_split_of_the_bytes_does_not_change_the_values() {
    for name in expected().keys().filter(|name| !name.contains("-not-finite")) {
        let stored = fs::read(fixture(&format!("{name}.bin"))).unwrap();
        let dtype = Dtype::from_name(name);
        let whole = decoded(&dtype, &stored, stored.len());
        for piece_bytes in [1, 7, 293] {
            assert!(decoded(&dtype, &stored, piece_bytes) == whole, "{name} in pieces of {piece_bytes} bytes");
        }
    }
}

#[test]
fn padding_after_the_last_element_is_dropped() {
    let stored = fs::read(fixture("APR_Q4.bin")).unwrap();
    let apr_q4 = Dtype::from_name(APR_Q4);
    let mut out = Vec::new();
    let mut cast = Cast::new(&apr_q4, &Dtype::F32).unwrap().with_elements(33);
    cast.push(&stored[..36], &mut |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    cast.finish().unwrap();
    assert_eq!(out, decoded(&apr_q4, &stored, stored.len())[..4 * 33]);
    let mut short = Cast::new(&apr_q4, &Dtype::F32).unwrap().with_elements(65);
    short.push(&stored[..36], &mut |_| Ok(())).unwrap();
    assert_eq!(short.finish().unwrap_err().what, "its last 1 elements are missing");
}
