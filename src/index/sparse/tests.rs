//! Tests of the checks, whole and in pieces.

use super::*;
use crate::error::Error;
use crate::index::values::ValueRule;
use proptest::prelude::*;

/// A tensor, and the outcome of its checks if the bytes come in chunks of `chunk` bytes.
fn outcome(layout: Layout, shape: &[u64], parts: &[(&'static str, Dtype, Vec<u8>)], chunk: usize) -> String {
    let component = |(role, dtype, bytes): &(&'static str, Dtype, Vec<u8>)| Component {
        role: (*role).into(),
        rule: (*dtype == Dtype::U32 && *role == "indices").then_some(ValueRule::IncreasingColumns),
        ..Component::raw(dtype.clone(), 0..bytes.len() as u64)
    };
    let components: Vec<_> = parts.iter().map(component).collect();
    let data = Component::raw(Dtype::F32, 0..0);
    let dense = Tensor::dense("t".to_owned(), Dtype::F32, shape.to_vec(), data);
    let tensor = Tensor { layout, components, ..dense };
    let lengths: Vec<_> = parts.iter().map(|(.., bytes)| bytes.len() as u64).collect();
    let check = || {
        let mut rows = None;
        for (at, mut check) in index_checks(&tensor, &lengths)? {
            rows.take().into_iter().for_each(|rows| check.with_rows(rows));
            parts[at].2.chunks(chunk).try_for_each(|bytes| check.push(bytes))?;
            rows = check.take_rows();
        }
        Ok(())
    };
    check().map_or_else(|error: Error| error.what, |()| "ok".to_owned())
}

fn csr(indices: &[u16], indptr: &[i32], chunk: usize) -> String {
    let indices: Vec<_> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
    let indptr: Vec<_> = indptr.iter().flat_map(|index| index.to_le_bytes()).collect();
    let values = vec![0; indices.len() / 2];
    let parts = [("values", Dtype::U8, values), ("indices", Dtype::U16, indices), ("indptr", Dtype::I32, indptr)];
    outcome(Layout::SparseCsr, &[3, 300], &parts, chunk)
}

fn coo(coords: &[u8], values: usize) -> String {
    let parts = [("values", Dtype::U8, vec![0; values]), ("coords", Dtype::U8, coords.to_vec())];
    outcome(Layout::SparseCoo, &[2, 5], &parts, 1)
}

#[test]
fn indices_of_rows_are_checked() {
    assert_eq!(csr(&[0, 299, 1], &[0, 2, 2, 3], 3), "ok");
    assert_eq!(csr(&[], &[0, 0, 0, 0], 3), "ok");
    let wrong = csr(&[0, 300, 1], &[0, 2, 2, 3], 3);
    assert_eq!(wrong, "element 1 of `indices` is 300, but must be below 300, the size of its dimension");
    assert_eq!(csr(&[0], &[1, 1, 1, 1], 3), "element 0 of `indptr` is 1, but must be 0");
    assert_eq!(csr(&[0], &[0, 1, 0, 1], 3), "element 2 of `indptr` is 0, but must not be below the previous one, 1");
    assert_eq!(csr(&[0], &[0, 0, 0, 2], 3), "element 3 of `indptr` is 2, but must be 1, the number of values");
    assert_eq!(csr(&[0], &[0, 0, -1, 1], 3), "element 2 of `indptr` is negative");
    assert_eq!(csr(&[0], &[0, 1, 1], 3), "`indptr` has 3 elements, but its tensor needs 4");
}

#[test]
fn coordinates_are_checked_against_their_dimension() {
    assert_eq!(coo(&[0, 1, 1, 4, 0, 3], 3), "ok");
    assert_eq!(coo(&[], 0), "ok");
    assert_eq!(coo(&[0, 2, 4, 0], 2), "element 1 of `coords` is 2, but must be below 2, the size of its dimension");
    assert_eq!(coo(&[0, 1, 4, 5], 2), "element 3 of `coords` is 5, but must be below 5, the size of its dimension");
    assert_eq!(coo(&[0, 1, 4], 2), "it has 2 values but 3 coords; each needs 2");
}

#[test]
fn indices_must_be_whole_integers() {
    let csr = |dtype: Dtype, bytes: usize| {
        let parts = [("values", Dtype::U8, vec![0]), ("indices", dtype, vec![0; bytes])];
        outcome(Layout::SparseCsr, &[1, 1], &parts, 1)
    };
    assert_eq!(csr(Dtype::F32, 4), "`indices` are F32, but must be integers");
    assert_eq!(csr(Dtype::U32, 5), "`indices` has 5 bytes, which are not whole elements of U32");
    assert_eq!(csr(Dtype::Other("u64 in lz9".into()), 5), "ok", "what cannot be decoded cannot be checked");
}

#[test]
fn columns_of_a_row_increase_if_the_format_requires_it() {
    let csr = |indices: &[u32], indptr: &[u32]| {
        let bytes = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
        let values = vec![0; indices.len()];
        let parts = [
            ("indices", Dtype::U32, bytes(indices)),
            ("indptr", Dtype::U32, bytes(indptr)),
            ("values", Dtype::U8, values),
        ];
        outcome(Layout::SparseCsr, &[4, 9], &parts, 3)
    };
    assert_eq!(csr(&[1, 5, 0, 8, 3], &[0, 2, 2, 4, 5]), "ok");
    assert_eq!(
        csr(&[1, 5, 0, 8, 3], &[0, 1, 1, 4, 5]),
        "element 2 of `indices` is 0, but must be above the one before it in its row, 5"
    );
    assert_eq!(
        csr(&[1, 1], &[0, 2, 2, 2, 2]),
        "element 1 of `indices` is 1, but must be above the one before it in its row, 1"
    );
}

#[test]
fn there_are_at_most_as_many_values_as_elements() {
    let claimed = |layout: Layout, index_role: &'static str| {
        let part = |role: &'static str, dtype| Component { role: role.into(), ..Component::raw(dtype, 0..10) };
        let components = [part("values", Dtype::F32), part(index_role, Dtype::U64)];
        check_counts(&layout, &[3, 4], &components, &[Some(1 << 30), Some(1 << 31)]).unwrap_err().what
    };
    let what = "it has 268435456 values, but its shape [3, 4] has only 12 elements";
    assert_eq!(claimed(Layout::SparseCsr, "indices"), what);
    assert_eq!(claimed(Layout::SparseCoo, "coords"), what);
}

#[test]
fn rows_need_a_matrix() {
    let wrong = outcome(Layout::SparseCsr, &[3], &[], 1);
    assert_eq!(wrong, "its layout is sparse_csr, which does not allow the shape [3]");
}

proptest! {
    #[test]
    fn any_split_gives_the_same_outcome(
        indices in proptest::collection::vec(0u16..310, 0..20),
        indptr in proptest::collection::vec(0i32..20, 4),
        chunk in 1usize..20,
    ) {
        prop_assert_eq!(csr(&indices, &indptr, chunk), csr(&indices, &indptr, 1000));
    }
}
