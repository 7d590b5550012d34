//! The numbers of the fields of messages, from `onnx.proto`.

/// Fields of ModelProto.
pub(super) mod model {
    pub(in super::super) const IR_VERSION: u32 = 1;
    pub(in super::super) const PRODUCER_NAME: u32 = 2;
    pub(in super::super) const PRODUCER_VERSION: u32 = 3;
    pub(in super::super) const DOMAIN: u32 = 4;
    pub(in super::super) const MODEL_VERSION: u32 = 5;
    pub(in super::super) const DOC_STRING: u32 = 6;
    pub(in super::super) const GRAPH: u32 = 7;
    pub(in super::super) const OPSET_IMPORT: u32 = 8;
    pub(in super::super) const METADATA_PROPS: u32 = 14;
    pub(in super::super) const TRAINING_INFO: u32 = 20;
    pub(in super::super) const FUNCTIONS: u32 = 25;
    pub(in super::super) const CONFIGURATION: u32 = 26;
}

/// Fields of GraphProto.
pub(super) mod graph {
    pub(in super::super) const NODE: u32 = 1;
    pub(in super::super) const INITIALIZER: u32 = 5;
    #[cfg(writes)]
    pub(in super::super) const INPUT: u32 = 11;
    #[cfg(writes)]
    pub(in super::super) const OUTPUT: u32 = 12;
    #[cfg(writes)]
    pub(in super::super) const VALUE_INFO: u32 = 13;
    pub(in super::super) const SPARSE_INITIALIZER: u32 = 15;
}

/// Fields of ValueInfoProto, of TypeProto in it, and of the tensor in that.
#[cfg(writes)]
pub(super) mod value_info {
    pub(in super::super) const NAME: u32 = 1;
    pub(in super::super) const TYPE: u32 = 2;
    pub(in super::super) const TENSOR_TYPE: u32 = 1;
    pub(in super::super) const ELEMENT_TYPE: u32 = 1;
}

/// Fields of NodeProto.
pub(super) mod node {
    pub(in super::super) const INPUT: u32 = 1;
    pub(in super::super) const OUTPUT: u32 = 2;
    pub(in super::super) const OP_TYPE: u32 = 4;
    pub(in super::super) const ATTRIBUTE: u32 = 5;
    #[cfg(writes)]
    pub(in super::super) const DOMAIN: u32 = 7;
}

/// Fields of AttributeProto.
pub(super) mod attribute {
    pub(in super::super) const NAME: u32 = 1;
    pub(in super::super) const INTEGER: u32 = 3;
    pub(in super::super) const TENSOR: u32 = 5;
    pub(in super::super) const GRAPH: u32 = 6;
    pub(in super::super) const TENSORS: u32 = 10;
    pub(in super::super) const GRAPHS: u32 = 11;
}

/// Fields of FunctionProto.
pub(super) mod function {
    pub(in super::super) const NAME: u32 = 1;
    pub(in super::super) const NODE: u32 = 7;
    pub(in super::super) const DOMAIN: u32 = 10;
    pub(in super::super) const OVERLOAD: u32 = 13;
}

/// Fields of TrainingInfoProto.
pub(super) mod training {
    pub(in super::super) const INITIALIZATION: u32 = 1;
    pub(in super::super) const ALGORITHM: u32 = 2;
}

/// Fields of TensorProto.
pub(super) mod tensor {
    pub(in super::super) const DIMS: u32 = 1;
    pub(in super::super) const DATA_TYPE: u32 = 2;
    pub(in super::super) const SEGMENT: u32 = 3;
    pub(in super::super) const FLOAT_DATA: u32 = 4;
    pub(in super::super) const INT32_DATA: u32 = 5;
    pub(in super::super) const INT64_DATA: u32 = 7;
    pub(in super::super) const NAME: u32 = 8;
    pub(in super::super) const RAW_DATA: u32 = 9;
    pub(in super::super) const DOUBLE_DATA: u32 = 10;
    pub(in super::super) const UINT64_DATA: u32 = 11;
    pub(in super::super) const EXTERNAL_DATA: u32 = 13;
    pub(in super::super) const DATA_LOCATION: u32 = 14;
}
