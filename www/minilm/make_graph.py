"""Writes the ONNX graph of all-MiniLM-L6-v2 without its weights: a file for each layer, and `graph.json`.

    pip install onnx==1.22.0
    python make_graph.py model.safetensors OUT

`model.safetensors` is the demo model as one file: `weightstream convert all-MiniLM-L6-v2.apr model.safetensors
--no-metadata`. The graph refers to the weights by their offsets in this file. README.md describes the parts.
"""

import json
import os
import struct
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, checker, helper, numpy_helper

LOCATION = "model.safetensors"
LAYERS = 6
HIDDEN = 384
HEADS = 12
HEAD = HIDDEN // HEADS
EPSILON = 1e-12

# The first opset with Gelu, and an IR version that has it.
OPSET = 20
IR_VERSION = 9


class Part:
    """A part of the graph: nodes, constants and weights."""

    def __init__(self, title: str, ranges: dict[str, tuple[list[int], int, int]]):
        self.title = title
        self.name = title.lower().replace(" ", "-")
        self.ranges = ranges
        self.used: dict[str, list[int]] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, **attributes) -> str:
        """Adds a node with one output. Returns the name of the output."""
        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, values, dtype) -> str:
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def weight(self, name: str) -> str:
        """Refers to a tensor of the model."""
        shape, start, end = self.ranges[name]
        self.used[name] = [start, end]
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": LOCATION, "offset": start, "length": end - start}.items():
            tensor.external_data.add(key=key, value=str(value))
        self.initializers.append(tensor)
        return name

    def linear(self, x: str, name: str) -> str:
        """PyTorch stores the matrix of a linear layer as [outputs, inputs]."""
        return self.op("Gemm", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), transB=1)

    def layer_norm(self, x: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)

    def write(self, folder: Path, inputs: list, output: tuple[str, str, list]) -> str:
        """Writes the ONNX file. Returns the entry of `graph.json`."""
        given, name, shape = output
        self.nodes.append(helper.make_node("Identity", [given], [name]))
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION
        model.producer_name = "make_graph.py"
        path = folder / f"{self.name}.onnx"
        path.write_bytes(model.SerializeToString(deterministic=True))
        checker.check_model(onnx.load(path, load_external_data=False))
        used = sorted(self.used.items(), key=lambda item: item[1])
        weights = ",".join(f"\n      {json.dumps(name)}: {place}" for name, place in used)
        return f'    {{"name": "{self.name}", "title": "{self.title}", "weights": {{{weights}}}}}'


def integers(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, ["sentences", "tokens"])


def hidden() -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["sentences x tokens", HIDDEN])


def embeddings(part: Part) -> str:
    """The sum of the embeddings of token, position and segment, with one row for each token."""
    words = part.op("Gather", part.weight("embeddings.word_embeddings.weight"), "input_ids")
    segments = part.op("Gather", part.weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
    tokens = part.op("Shape", "input_ids", start=1)
    zero, one = part.constant([0], np.int64), part.constant([1], np.int64)
    positions = part.op("Slice", part.weight("embeddings.position_embeddings.weight"), zero, tokens, zero, one)
    total = part.op("Add", part.op("Add", words, segments), positions)
    return part.op("Reshape", part.layer_norm(total, "embeddings.LayerNorm"), part.constant([-1, HIDDEN], np.int64))


def encoder_layer(part: Part, number: int) -> str:
    prefix = f"encoder.layer.{number}"
    attention = self_attention(part, f"{prefix}.attention.self")
    attention = part.linear(attention, f"{prefix}.attention.output.dense")
    attention = part.layer_norm(part.op("Add", attention, "hidden"), f"{prefix}.attention.output.LayerNorm")
    inner = part.op("Gelu", part.linear(attention, f"{prefix}.intermediate.dense"), approximate="none")
    outer = part.linear(inner, f"{prefix}.output.dense")
    return part.layer_norm(part.op("Add", outer, attention), f"{prefix}.output.LayerNorm")


def self_attention(part: Part, name: str) -> str:
    heads = part.constant([HEADS, HEAD], np.int64)
    shape = part.op("Concat", part.op("Shape", "attention_mask"), heads, axis=0)

    def split(which: str, order: list[int]) -> str:
        return part.op("Transpose", part.op("Reshape", part.linear("hidden", f"{name}.{which}"), shape), perm=order)

    scores = part.op("MatMul", split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]))
    scores = part.op("Mul", scores, part.constant(HEAD**-0.5, np.float32))
    probabilities = part.op("Softmax", part.op("Add", scores, padding(part)), axis=-1)
    mixed = part.op("Transpose", part.op("MatMul", probabilities, split("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    return part.op("Reshape", mixed, part.constant([-1, HIDDEN], np.int64))


def padding(part: Part) -> str:
    """0 for each token, and for padding a number that becomes 0 in the softmax."""
    mask = part.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = part.op("Unsqueeze", mask, part.constant([1, 2], np.int64))
    mask = part.op("Sub", mask, part.constant(1, np.float32))
    return part.op("Mul", mask, part.constant(1e9, np.float32))


def pooling(part: Part) -> str:
    """The mean over the tokens of each sentence, with length 1."""
    tail = part.constant([HIDDEN], np.int64)
    rows = part.op("Reshape", "hidden", part.op("Concat", part.op("Shape", "attention_mask"), tail, axis=0))
    mask = part.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = part.op("Unsqueeze", mask, part.constant([2], np.int64))
    axis = part.constant([1], np.int64)
    total = part.op("ReduceSum", part.op("Mul", rows, mask), axis, keepdims=0)
    mean = part.op("Div", total, part.op("ReduceSum", mask, axis, keepdims=0))
    return part.op("LpNormalization", mean, axis=-1, p=2)


def read_header(model: Path) -> bytes:
    """The JSON header of a SafeTensors file, with its padding."""
    with model.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return file.read(length)


def tensor_ranges(header: bytes) -> dict[str, tuple[list[int], int, int]]:
    """The shape of each F32 tensor and its range in the file."""
    data = 8 + len(header)
    entries = ((name, entry["shape"], entry["data_offsets"]) for name, entry in json.loads(header).items()
               if entry["dtype"] == "F32")
    return {name: (shape, data + start, data + end) for name, shape, (start, end) in entries}


def main(model: Path, folder: Path) -> None:
    # The checker looks for the weights in the current folder.
    folder, model = folder.resolve(), model.resolve()
    os.chdir(model.parent)
    header = read_header(model)
    ranges = tensor_ranges(header)
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["sentences x tokens", HIDDEN]
    part = Part("Embeddings", ranges)
    output = (embeddings(part), "hidden_out", rows)
    entries = [part.write(folder, [integers("input_ids"), integers("token_type_ids")], output)]
    for number in range(LAYERS):
        part = Part(f"Layer {number}", ranges)
        output = (encoder_layer(part, number), "hidden_out", rows)
        entries.append(part.write(folder, [hidden(), integers("attention_mask")], output))
    part = Part("Pooling", ranges)
    output = (pooling(part), "embedding", ["sentences", HIDDEN])
    part.write(folder, [hidden(), integers("attention_mask")], output)
    parts = ",\n".join(entries)
    (folder / "graph.json").write_text(f'{{\n  "location": "{LOCATION}",\n  "parts": [\n{parts}\n  ]\n}}\n')


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
