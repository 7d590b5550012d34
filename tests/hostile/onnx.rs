//! Malicious ONNX files.

use super::alone;
use super::ceiling::{assert_accepted, assert_rejected};
use weightstream::ErrorKind;

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field of bytes, or a message.
fn field(number: usize, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len()), content.to_vec()].concat()
}

fn model(graph: &[u8]) -> Vec<u8> {
    [&[8, 10][..], &field(7, graph)].concat()
}

/// Empty tensors with short names.
fn empty_tensors(count: usize) -> Vec<u8> {
    let tensor = |at: usize| field(5, &[&[8, 0, 16, 2][..], &field(8, format!("{at}").as_bytes())].concat());
    model(&(0..count).flat_map(tensor).collect::<Vec<_>>())
}

#[test]
fn many_tensors_are_bounded_by_the_memory_budget() {
    let _alone = alone();
    assert_accepted("90,000 tensors", empty_tensors(90_000));
    assert_rejected("300,000 tensors", ErrorKind::Limit, empty_tensors(300_000));
}

#[test]
fn many_metadata_entries_are_bounded_by_the_memory_budget() {
    let _alone = alone();
    let entry = |at: usize| field(14, &field(1, format!("{at}").as_bytes()));
    let file = [model(&[]), (0..1_000_000).flat_map(entry).collect()].concat();
    assert_rejected("a million metadata entries", ErrorKind::Limit, file);
}

#[test]
fn nodes_take_no_memory() {
    let _alone = alone();
    let node = field(1, &[field(2, b"out"), field(5, &field(1, b"name"))].concat());
    assert_accepted("500,000 nodes", model(&node.repeat(500_000)));
}

#[test]
fn names_in_nested_graphs_do_not_grow_without_limit() {
    let _alone = alone();
    let tensors: Vec<u8> =
        (0..2000).flat_map(|at| field(5, &[&[8, 0, 16, 2][..], &field(8, &varint(at))].concat())).collect();
    let output = field(2, &[b'a'; 60_000]);
    let graph = (0..32).fold(tensors, |graph, _| field(1, &[output.clone(), field(5, &field(6, &graph))].concat()));
    assert_rejected("paths of 2 MB", ErrorKind::Limit, model(&graph));
}
