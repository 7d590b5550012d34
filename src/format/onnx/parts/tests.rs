use super::super::parse::parse;
use super::super::tests::{Message, message, model, tensor};
use super::{KEY, Marked, marked, order_of_use};
use crate::error::ErrorKind;
use crate::index::Parsed;
use crate::window::Window;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const F32: u64 = 1;

/// An F32 initializer with this number of elements, in another file.
fn weight(name: &str, elements: u64) -> Message {
    let entries = [("location", "model.safetensors"), ("offset", "0"), ("length", &(4 * elements).to_string())];
    let entry =
        |tensor: Message, (key, value): &(&str, &str)| tensor.message(13, message().bytes(1, key).bytes(2, value));
    entries.iter().fold(tensor(name, F32, &[elements]), entry).varint(14, 1)
}

fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let inputs = inputs.iter().fold(message(), |node, input| node.bytes(1, input));
    outputs.iter().fold(inputs, |node, output| node.bytes(2, output)).bytes(4, operator)
}

fn value(name: &str, data_type: u64) -> Message {
    message().bytes(1, name).message(2, message().message(1, message().varint(1, data_type)))
}

fn graph(nodes: Vec<Message>, weights: Vec<Message>) -> Message {
    let graph = nodes.into_iter().fold(message(), |graph, node| graph.message(1, node));
    weights.into_iter().fold(graph, |graph, weight| graph.message(5, weight))
}

/// A chain of layers: each adds a residual to its input multiplied by a weight.
fn layers(count: usize, operator: &str) -> Message {
    let (mut nodes, mut weights) = (Vec::new(), Vec::new());
    for layer in 0..count {
        let name = |what: &str| format!("{what}{layer}");
        let input = format!("h{layer}");
        nodes.push(node(operator, &[&input, &name("w")], &[&name("m")]));
        nodes.push(node("Add", &[&name("m"), &input], &[&format!("h{}", layer + 1)]));
        weights.push(weight(&name("w"), MIB));
    }
    let output = format!("h{count}");
    graph(nodes, weights).message(11, value("h0", F32)).message(12, value(&output, F32))
}

fn parts(marked: &Marked) -> Value {
    let Ok(Parsed::WithData(index, _)) = parse(&Window::whole(&marked.model)) else { panic!() };
    let mark = index.metadata.get("metadata_props").unwrap().get(KEY).unwrap().as_str().unwrap();
    serde_json::from_str(mark).unwrap()
}

/// The type that the graph states for a value.
fn stated(model: &[u8], name: &str) -> Option<u64> {
    super::graph::Graph::read(&Window::whole(model)).unwrap().stated_types.get(name).copied().flatten()
}

#[test]
fn a_graph_is_split_where_the_fewest_values_pass() {
    let found = marked(&model(layers(3, "MatMul")), "model.apr").unwrap();
    let part = |at: u64| {
        json!({
            "nodes": [[2 * at, 2 * at + 2]], "initializers": [[at, at + 1]],
            "inputs": [format!("h{at}")], "outputs": [format!("h{}", at + 1)],
        })
    };
    assert_eq!(parts(&found), json!({ "weights": "model.apr", "parts": [part(0), part(1), part(2)] }));
    assert_eq!([1, 2, 3].map(|at| stated(&found.model, &format!("h{at}"))), [Some(F32); 3]);
    assert_eq!(found.obstacle, None);
}

#[test]
fn a_model_has_at_most_sixteen_parts() {
    let found = marked(&model(layers(100, "MatMul")), "model.apr").unwrap();
    assert!((8..=16).contains(&found.part_count), "{}", found.part_count);
}

#[test]
fn a_second_mark_replaces_the_first() {
    let first = marked(&model(layers(3, "MatMul")), "model.apr").unwrap();
    let second = marked(&first.model, "model.apr").unwrap();
    assert_eq!(second.model, first.model);
}

#[test]
fn a_value_of_unknown_type_passes_no_cut_and_is_named() {
    let found = marked(&model(layers(3, "Unknown")), "model.apr").unwrap();
    // The residual has a known type only where the operator does not decide.
    assert_eq!(found.part_count, 1);
    let why = found.obstacle.unwrap();
    assert!(why.starts_with("the type of \"") && why.contains("Unknown") || why.contains("Add"), "{why}");
}

#[test]
fn nodes_that_depend_on_no_input_are_in_each_part_that_needs_them() {
    let nodes = vec![
        node("DequantizeLinear", &["shared", "scale"], &["s"]),
        node("Constant", &[], &["c"]).message(5, message().bytes(1, "value").message(5, tensor("", 7, &[1]))),
        node("MatMul", &["x", "w"], &["a"]),
        node("Mul", &["a", "s"], &["b"]),
        node("MatMul", &["b", "v"], &["d"]),
        node("Mul", &["d", "s"], &["e"]),
        node("Reshape", &["e", "c"], &["y"]),
    ];
    let weights = vec![weight("w", MIB), weight("v", MIB), tensor("shared", 2, &[1]).bytes(9, [7]), weight("scale", 1)];
    let file = model(graph(nodes, weights).message(11, value("x", F32)).message(12, value("y", F32)));
    let expected = json!([
        { "nodes": [[0, 1], [2, 4]], "initializers": [[0, 1], [2, 4]], "inputs": ["x"], "outputs": ["b"] },
        { "nodes": [[0, 2], [4, 7]], "initializers": [[1, 4]], "inputs": ["b"], "outputs": ["y"] },
    ]);
    assert_eq!(parts(&marked(&file, "w").unwrap())["parts"], expected);
    assert_eq!(order_of_use(&Window::whole(&file)).unwrap(), ["w", "shared", "scale", "v"]);
}

#[test]
fn random_values_are_computed_once() {
    let nodes = vec![
        node("RandomNormalLike", &["shape"], &["r"]),
        node("MatMul", &["r", "w"], &["a"]),
        node("MatMul", &["a", "v"], &["b"]),
        node("Add", &["b", "r"], &["y"]),
    ];
    let weights = vec![tensor("shape", F32, &[1]).bytes(9, [0; 4]), weight("w", MIB), weight("v", MIB)];
    let found = marked(&model(graph(nodes, weights).message(12, value("y", F32))), "w").unwrap();
    let found = parts(&found);
    assert_eq!(found["parts"][1]["inputs"], json!(["a", "r"]));
}

#[test]
fn graphs_in_attributes_use_values_and_weights_of_their_own() {
    let inner = graph(vec![node("MatMul", &["a", "own"], &["t"])], vec![weight("own", MIB)]);
    let inner = inner.message(12, value("t", F32));
    let branch = message().bytes(1, "then_branch").message(6, inner);
    let nodes = vec![
        node("MatMul", &["x", "w"], &["a"]),
        node("Identity", &["a"], &["b"]),
        node("If", &["condition"], &["i"]).message(5, branch),
        node("Add", &["i", "b"], &["y"]),
    ];
    let file = graph(nodes, vec![weight("w", MIB)]);
    let file = file.message(11, value("x", F32)).message(11, value("condition", 9)).message(12, value("y", F32));
    let file = model(file);
    let found = parts(&marked(&file, "w").unwrap());
    assert_eq!(found["parts"][1]["inputs"], json!(["a", "condition"]));
    assert_eq!(order_of_use(&Window::whole(&file)).unwrap(), ["w", "i/then_branch/own"]);
}

#[test]
fn a_graph_in_an_attribute_may_use_the_names_of_outer_outputs() {
    let inner = || graph(vec![node("Add", &["x", "x"], &["y"])], Vec::new()).message(12, value("y", F32));
    let branch = message().bytes(1, "then_branch").message(6, inner());
    let nodes = vec![node("If", &["condition"], &["y"]).message(5, branch)];
    let file = graph(nodes, Vec::new()).message(11, value("x", F32)).message(11, value("condition", 9));
    let found = parts(&marked(&model(file.message(12, value("y", F32)).message(5, weight("w", 1))), "w").unwrap());
    assert_eq!(
        found["parts"],
        json!([
            { "nodes": [[0, 1]], "initializers": [], "inputs": ["condition", "x"], "outputs": ["y"] },
        ])
    );
}

#[test]
fn nodes_that_no_output_depends_on_are_in_no_part() {
    let unused = graph(vec![node("MatMul", &["h0", "dead"], &["unused"])], vec![weight("dead", 8 * MIB)]);
    let file = model(Message([unused.0, layers(3, "MatMul").0].concat()));
    let found = parts(&marked(&file, "w").unwrap());
    let all: Vec<_> = found["parts"].as_array().unwrap().iter().map(|part| part["nodes"].clone()).collect();
    assert_eq!(all, [json!([[1, 3]]), json!([[3, 5]]), json!([[5, 7]])]);
}

#[test]
fn outputs_may_be_inputs_and_initializers() {
    let file = layers(2, "MatMul").message(12, value("h0", F32)).message(12, value("w0", F32));
    let found = parts(&marked(&model(file), "w").unwrap());
    let last = &found["parts"][1];
    assert_eq!((&last["outputs"], &last["initializers"]), (&json!(["h2", "w0"]), &json!([[0, 2]])));
}

#[test]
fn types_follow_from_operators() {
    let nodes = vec![
        node("LSTM", &["x"], &["", "hidden"]),
        node("QuantizeLinear", &["hidden", "scale", ""], &["bytes"]),
        node("QuantizeLinear", &["hidden", "scale", "unknown"], &["of_unknown"]),
        node("LayerNormalization", &["x", "half"], &["normalized"]),
        node("Shape", &["x"], &["shape"]),
        node("Unknown", &["x"], &["other"]).bytes(7, "custom"),
    ];
    let weights = vec![weight("scale", 1), tensor("half", 10, &[1]).bytes(9, [0; 2])];
    let file = model(graph(nodes, weights).message(11, value("x", F32)));
    let graph = super::graph::Graph::read(&Window::whole(&file)).unwrap();
    let types = super::types::Types::of(&graph);
    let expected = [("bytes", Some(2)), ("of_unknown", None), ("normalized", Some(10)), ("shape", Some(7))];
    for (name, expected) in expected.into_iter().chain([("other", None), ("", None)]) {
        assert_eq!(types.of_value(name), expected, "{name}");
    }
}

#[test]
fn long_chains_of_constants_are_walked_once() {
    let mut nodes = Vec::new();
    let name = |at: usize| format!("c{at}");
    let mut constants = vec!["c0".to_owned()];
    for at in 0..3000 {
        nodes.push(node("Identity", &[constants.last().unwrap()], &[&name(at + 1)]));
        constants.push(name(at + 1));
    }
    let mut value_name = "x".to_owned();
    for at in 0..3000 {
        let next = format!("y{at}");
        nodes.push(node("Add", &[&value_name, "c3000"], &[&next]));
        value_name = next;
    }
    let file = graph(nodes, vec![weight("c0", MIB)]).message(11, value("x", F32)).message(12, value(&value_name, F32));
    assert_eq!(marked(&model(file), "w").unwrap().part_count, 1);
}

#[test]
fn refuses_graphs_whose_parts_would_lack_something() {
    let kind = |graph: Message| marked(&model(graph), "w").err().map(|error| error.kind);
    let unsorted = graph(vec![node("Add", &["b", "x"], &["a"]), node("Add", &["x", "x"], &["b"])], Vec::new());
    assert_eq!(kind(unsorted), Some(ErrorKind::Format));
    assert_eq!(kind(graph(Vec::new(), Vec::new()).message(12, value("y", F32))), Some(ErrorKind::Unsupported));
    assert_eq!(kind(message().message(15, message())), Some(ErrorKind::Unsupported));
}
