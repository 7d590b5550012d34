"""Converts tensors to and from numpy arrays."""

import ml_dtypes
import numpy

# The dtypes of numpy and ml_dtypes, by weightstream's names.
TYPES = dict(
    F64="float64", F32="float32", F16="float16", BF16=ml_dtypes.bfloat16, BOOL="bool",
    I64="int64", I32="int32", I16="int16", I8="int8", U64="uint64", U32="uint32", U16="uint16", U8="uint8",
)  # fmt: skip
NAMES = {numpy.dtype(dtype): name for name, dtype in TYPES.items()}


def array(tensor):
    return numpy.frombuffer(tensor.data, numpy.dtype(TYPES[tensor.dtype])).reshape(tensor.shape)


def name_of(dtype):
    """Weightstream's name of a numpy dtype, or of a dtype that is given by its numpy name."""
    return NAMES[numpy.dtype(TYPES["BF16"] if dtype == "bfloat16" else dtype)]
