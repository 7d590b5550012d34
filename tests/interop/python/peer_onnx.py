"""The packages `onnx` and `onnxruntime`: random models, and graphs whose weights weightstream wrote.

    python3 peer_onnx.py split ORIGINAL GRAPH   checks that a graph has the same initializers and outputs
    python3 peer_onnx.py cast ORIGINAL GRAPH    the same for cast weights, whose outputs may differ a little
"""

import json
import sys

import exchange
import numpy
import onnx
import onnxruntime
from exchange import Tensor
from onnx import TensorProto, helper, numpy_helper

DTYPES = dict(
    F64=TensorProto.DOUBLE, F32=TensorProto.FLOAT, F16=TensorProto.FLOAT16, BF16=TensorProto.BFLOAT16,
    BOOL=TensorProto.BOOL, I64=TensorProto.INT64, I32=TensorProto.INT32, I16=TensorProto.INT16, I8=TensorProto.INT8,
    U64=TensorProto.UINT64, U32=TensorProto.UINT32, U16=TensorProto.UINT16, U8=TensorProto.UINT8,
    C64=TensorProto.COMPLEX64, C128=TensorProto.COMPLEX128, F8_E4M3=TensorProto.FLOAT8E4M3FN,
    F8_E5M2=TensorProto.FLOAT8E5M2, F8_E4M3FNUZ=TensorProto.FLOAT8E4M3FNUZ, F8_E5M2FNUZ=TensorProto.FLOAT8E5M2FNUZ,
    F8_E8M0=TensorProto.FLOAT8E8M0,
)
NAMES = {number: name for name, number in DTYPES.items()}
SIZES = {**exchange.PLAIN, "C64": 8, "C128": 16} | {name: 1 for name in DTYPES if name.startswith("F8")}


def write(noise, folder):
    tensors = list(noise.tensors(SIZES))
    raw = [helper.make_tensor(t.name, DTYPES[t.dtype], t.shape, t.data, raw=True) for t in tensors]
    save(folder / "raw.onnx", raw, tensors)
    save(folder / "external.onnx", raw, tensors, save_as_external_data=True, location="external.data", size_threshold=0)
    # Python changes the bits of some NaNs, so floats are read back from the field.
    typed = [helper.make_tensor(t.name, t.data_type, t.dims, values(t)) for t in raw if t.data_type in INTEGERS]
    save(folder / "typed.onnx", typed, [t for t in tensors if DTYPES[t.dtype] in INTEGERS])
    network(noise, folder / "network.onnx")


INTEGERS = {DTYPES[name] for name in ("BOOL", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8")}


def values(tensor):
    return numpy_helper.to_array(tensor).flatten().tolist()


def save(file, initializers, tensors, **options):
    graph = helper.make_graph([], "graph", [], [], initializers)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), file, **options)
    exchange.expect(file, tensors, {})


def network(noise, file):
    """A model with weights in the graph and in the branches of an If node, in raw_data and in fields."""
    random = numpy.random.default_rng(noise.randrange(1 << 32))
    weight = lambda *shape: random.standard_normal(shape).astype(numpy.float32)
    info = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    inner, bias, last = weight(64, 64), weight(64), weight(64, 16)
    branch = lambda operator: helper.make_graph(
        [helper.make_node(operator, ["h", "w"], ["r"])], "branch", [], [info("r", 4, 64)],
        [numpy_helper.from_array(weight(64, 64) if operator == "MatMul" else weight(64), "w")],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "inner"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["h"]),
        helper.make_node("ReduceSum", ["h"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["cond"]),
        helper.make_node("If", ["cond"], ["b"], then_branch=branch("MatMul"), else_branch=branch("Add")),
        helper.make_node("Reshape", ["b", "shape"], ["s"]),
        helper.make_node("MatMul", ["s", "last"], ["y"]),
    ]
    arrays = dict(inner=inner, bias=bias, last=last, zero=numpy.float32(0), shape=numpy.array([4, 64]))
    initializers = [numpy_helper.from_array(numpy.asarray(array), name) for name, array in arrays.items()]
    initializers[0] = helper.make_tensor("inner", TensorProto.FLOAT, inner.shape, inner.flatten().tolist())
    graph = helper.make_graph(nodes, "network", [info("x", 4, 64)], [info("y", 4, 16)], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save_model(model, file)
    exchange.expect(file, *read(file))


def read(file):
    return [listed(name, tensor) for name, tensor in initializers(onnx.load(file).graph, "")], None


def initializers(graph, prefix):
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from initializers(attribute.g, f"{prefix}{node.output[0]}/{attribute.name}/")
    for tensor in graph.initializer:
        yield prefix + tensor.name, tensor


def listed(name, tensor):
    data = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
    return Tensor(name, NAMES[tensor.data_type], list(tensor.dims), data)


def split(original, graph, is_cast):
    onnx.checker.check_model(graph)
    contents = lambda file: sorted(json.dumps(tensor.to_json()) for tensor in read(file)[0])
    if not is_cast:
        assert contents(original) == contents(graph), "the initializers differ"
    outline = onnx.load(graph, load_external_data=False)
    if not outline.graph.output:
        return
    large = [tensor for _, tensor in initializers(outline.graph, "") if tensor.ByteSize() > 4096]
    assert not large, f"these weights are in the graph: {[tensor.name for tensor in large]}"
    for seed in range(8):
        inputs = {"x": numpy.random.default_rng(seed).standard_normal((4, 64)).astype(numpy.float32)}
        expected, found = (onnxruntime.InferenceSession(file).run(None, inputs) for file in (original, graph))
        tolerance = 0.05 * numpy.abs(expected[0]).max() if is_cast else 0
        assert numpy.abs(expected[0] - found[0]).max() <= tolerance, "the outputs differ"


match sys.argv[1:]:
    case ["split" | "cast" as command, original, graph]:
        split(original, graph, command == "cast")
    case _:
        exchange.run(write, read)
