//! CBOR: zTensor manifests, compressed components of sparse tensors, and Burnpack metadata.

use super::alone;
use super::ceiling::{assert_rejected, read};
use super::generated::{head, number, numbers, object, sparse, text, ztensor};
use weightstream::ErrorKind;

/// CBOR values of many kinds that take more memory than bytes in the file.
fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let many = |count: usize, item: &[u8]| [head(4, count), item.repeat(count)].concat();
    vec![
        ("zeros", many(5 << 20, b"\0")),
        ("empty arrays", many(5 << 20, b"\x80")),
        ("arrays with one item", many(2 << 20, b"\x81\0")),
        ("maps with one entry", many(2 << 20, b"\xa1\0\0")),
        ("an indefinite-length array", [&b"\x9f"[..], &vec![0; 5 << 20], b"\xff"].concat()),
        ("a byte string in chunks", [&b"\x5f"[..], &b"\x41a".repeat(2 << 20), b"\xff"].concat()),
        ("forged counts", b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff".repeat(100)),
        ("nested arrays", vec![0x81; 5 << 20]),
        ("nested tags", vec![0xc1; 5 << 20]),
    ]
}

#[cfg(feature = "burnpack")]
#[test]
fn burnpack_metadata_with_many_values_uses_bounded_memory() {
    let _alone = alone();
    for (what, content) in contents() {
        for key in ["metadata", "tensors", "scalars", "other"] {
            let inner =
                if matches!(key, "metadata" | "tensors") { object(&[("a", content.clone())]) } else { content.clone() };
            let cbor = object(&[(key, inner)]);
            let file = [b"NRUB\x01\0", &(cbor.len() as u32).to_le_bytes()[..], &cbor].concat();
            let (outcome, _) = read(&format!("{what} in `{key}`"), file);
            assert!(outcome.is_err() || what == "a byte string in chunks", "{what} in {key}");
        }
    }
}

#[cfg(feature = "ztensor")]
#[test]
fn ztensor_manifests_with_many_values_use_bounded_memory() {
    let _alone = alone();
    for (what, content) in contents() {
        let attributes = object(&[("version", text("1.2")), ("attributes", object(&[("a", content.clone())]))]);
        _ = read(&format!("{what} in attributes"), ztensor(&[], &attributes));
        let tensors = object(&[("version", text("1.2")), ("objects", object(&[("t", content)]))]);
        _ = read(&format!("{what} as a tensor"), ztensor(&[], &tensors));
    }
}

#[cfg(feature = "ztensor")]
#[test]
fn decoded_components_of_sparse_tensors_are_bounded_by_the_shape() {
    let _alone = alone();
    let csr = ["values", "indices", "indptr"];
    for blocks in [100, 8000] {
        assert_rejected("CSR of [3, 4]", ErrorKind::Limit, sparse("sparse_csr", &[3, 4], &csr, blocks));
        let coo = ["values", "coords"];
        assert_rejected("COO of [3, 4]", ErrorKind::Limit, sparse("sparse_coo", &[3, 4], &coo, blocks));
    }
    for shape in [[1 << 20, 1 << 20], [1 << 31, 1 << 31]] {
        let (outcome, _) = read("large CSR", sparse("sparse_csr", &shape, &csr, 8000));
        assert!(outcome.is_err());
        let (outcome, _) = read("large COO", sparse("sparse_coo", &shape, &["values", "coords"], 8000));
        assert!(outcome.is_err());
    }
}

#[cfg(feature = "ztensor")]
#[test]
fn many_unknown_encodings_and_algorithms_take_no_quadratic_time() {
    let _alone = alone();
    let tensors: Vec<(String, Vec<u8>)> = (0..40_000)
        .map(|at| {
            let data = [
                ("dtype", text("u8")),
                ("offset", number(64)),
                ("length", number(0)),
                ("encoding", text(&format!("unknown encoding number {at}"))),
                ("digest", text(&format!("algorithm{at}:00"))),
            ];
            let components = object(&[("data", object(&data))]);
            (
                format!("t{at}"),
                object(&[("shape", numbers(&[0])), ("format", text("dense")), ("components", components)]),
            )
        })
        .collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let (outcome, _) = read(
        "40,000 encodings",
        ztensor(&[0; 56], &object(&[("version", text("1.2")), ("objects", object(&tensors))])),
    );
    assert_eq!(outcome, Ok(()));
}
