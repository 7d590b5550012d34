"""The package `ztensor` 1.2."""

import exchange
import numpy
import ztensor
from arrays import array, name_of
from exchange import LOGICAL, PLAIN, Parts, Tensor

CHECKSUMS = ["none", "crc32c", "sha256"]


def write(noise, folder):
    dense, sparse, empty = folder / "dense.zt", folder / "sparse.zt", folder / "empty.zt"
    tensors = list(noise.tensors(PLAIN))
    with ztensor.Writer(str(dense)) as writer:
        for at, tensor in enumerate(tensors):
            compress, checksum = [False, True, 19][at % 3], CHECKSUMS[at // 3 % 3]
            writer.write_numpy(tensor.name, array(tensor), compress=compress, checksum=checksum)
            # The writer stores a scalar as an array of one dimension.
            tensor.shape = tensor.shape or [1]
    exchange.expect(dense, tensors, checksums=CHECKSUMS[1:])

    tensors = []
    with ztensor.Writer(str(sparse)) as writer:
        for at in range(6):
            rows, columns, count = noise.randrange(1, 9), noise.randrange(1, 9), noise.randrange(20) if at else 0
            values = array(Tensor("", "F32", [count], noise.data(count * 4)))
            indices = numpy.array([noise.randrange(columns) for _ in range(count)], "uint64")
            starts = numpy.array(sorted([0, count, *(noise.randrange(count + 1) for _ in range(rows - 1))]), "uint64")
            coords = numpy.array([noise.randrange(2) for _ in range(3 * count)], "uint64")
            for layout, shape, parts in [
                ("sparse_csr", [rows, columns], dict(values=values, indices=indices, indptr=starts)),
                ("sparse_coo", [2, 2, 2], dict(values=values, coords=coords)),
                ("überraschung", [count], dict(values=values, zeros=coords)),
            ]:
                attributes = {"bits": at, "naïve ✓": '"層"', "scale": 0.5} if at % 2 else None
                tensor = ztensor.Tensor(parts, shape=shape, dtype="float32", format=layout, attributes=attributes)
                name = noise.name(f"{layout}.{at}")
                writer.write(name, tensor, compress=at % 2 == 1, checksum=CHECKSUMS[at % 3])
                tensors.append(to_tensor(name, tensor))
    exchange.expect(sparse, tensors, checksums=CHECKSUMS[1:])

    ztensor.Writer(str(empty)).finish()
    exchange.expect(empty, [])


def to_tensor(name, tensor):
    parts = [(role, name_of(data.dtype), data.tobytes()) for role, data in tensor.components.items()]
    if tensor.format == "dense":
        return Tensor(name, name_of(tensor.dtype), list(tensor.shape), parts[0][2])
    return Parts(name, name_of(tensor.dtype), list(tensor.shape), tensor.format, parts, tensor.attributes or {})


def read(file):
    with ztensor.Reader(file) as reader:
        return [one(reader, reader.metadata(name)) for name in reader.keys()], None


def one(reader, metadata):
    name, shape, layout = metadata.name, list(metadata.shape), metadata.format
    # `read` itself would reshape elements of logical types to the shape of the tensor, which may fail.
    part = lambda role: reader._inner._read_component_raw(name, role)[0].tobytes()
    parts = [(role, dtype_of(component), part(role)) for role, component in metadata.components.items()]
    dtypes = {role: dtype for role, dtype, _ in parts}
    dtype = dtypes.get("data") or dtypes.get("values") or parts[0][1]
    attributes = metadata.attributes or {}
    if layout.startswith("gguf."):
        # The layout of ggml blocks in the registry of version 2.
        layout, dtype = "dense", layout.removeprefix("gguf.").removesuffix("/1").upper()
    if layout == "dense":
        return Tensor(name, dtype, shape, parts[0][2], attributes)
    return Parts(name, dtype, shape, layout, parts, attributes)


def dtype_of(component):
    """The dtype of a component. A logical type that is not in the list has weightstream's name already."""
    logical = component.get("type")
    return LOGICAL.get(logical, logical) or name_of(component["dtype"])


exchange.run(write, read)
