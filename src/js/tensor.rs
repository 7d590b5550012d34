//! Converts a loaded tensor to a JavaScript object.

use super::{shape_array, value};
use crate::dtype::{ArrayKind, Dtype};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Layout;
use crate::loader::{Loaded, LoadedComponent};
use crate::source::js_buffer::JsBuffer;
use js_sys::{
    BigInt64Array, BigUint64Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Map, Uint8Array,
    Uint16Array, Uint32Array,
};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Engines without this class report an error only when the constructor is called.
    type Float16Array;
    #[wasm_bindgen(constructor, catch)]
    fn new(memory: &JsValue, byte_offset: u32, length: u32) -> Result<Float16Array, JsValue>;
}

/// Returns a `Tensor`. Its typed arrays are views of the buffers that the bytes were read into, without a copy. F16 is
/// a `Float16Array` only if it was `wanted`: older engines do not have this class.
pub(super) fn from_loaded(loaded: Loaded<JsBuffer>, wanted: Option<&Dtype>) -> Result<JsValue> {
    let Loaded { tensor, dtype: loaded_dtype, layout, shape, components, verified } = loaded;
    let map = Map::new();
    let mut dense_data = JsValue::UNDEFINED;
    for LoadedComponent { role, dtype, buffer } in components {
        let is_half = dtype == Dtype::F16 && wanted == Some(&Dtype::F16);
        let data = typed_array(&buffer, dtype.array_kind(), is_half).map_err(|e| e.in_tensor(&tensor.name))?;
        if layout == Layout::Dense {
            dense_data = data.clone();
        }
        let component = value::object([("dtype", dtype.name().into()), ("data", data)]);
        map.set(&(&*role).into(), &component);
    }
    Ok(value::object([
        ("name", tensor.name.as_str().into()),
        ("dtype", loaded_dtype.name().into()),
        ("shape", shape_array(&shape).into()),
        ("layout", layout.name().into()),
        ("data", dense_data),
        ("components", map.into()),
        ("verified", verified.map_or(JsValue::NULL, JsValue::from)),
    ]))
}

fn typed_array(buffer: &JsBuffer, kind: ArrayKind, is_half: bool) -> Result<JsValue> {
    buffer.check_attached()?;
    let bytes: &Uint8Array = buffer.bytes();
    let item_bytes = match kind {
        ArrayKind::I8 | ArrayKind::U8 => 1,
        ArrayKind::I16 | ArrayKind::U16 => 2,
        ArrayKind::F32 | ArrayKind::I32 | ArrayKind::U32 => 4,
        ArrayKind::F64 | ArrayKind::I64 | ArrayKind::U64 => 8,
    };
    let (memory, offset, length) = (bytes.buffer(), bytes.byte_offset(), bytes.length() / item_bytes);
    if offset % item_bytes != 0 {
        let what = format!("`into` starts at byte {offset} of its buffer, but the elements have {item_bytes} bytes");
        let error = Error::new(ErrorKind::InvalidArgument, what);
        return Err(error.advise(format!("Pass a view that starts at a multiple of {item_bytes} bytes.")));
    }
    if is_half {
        let view = Float16Array::new(&memory, offset, length);
        return view.map(JsValue::from).map_err(|_| Error::new(ErrorKind::Unsupported, "there is no Float16Array"));
    }
    macro_rules! view {
        ($array:ident) => {
            $array::new_with_byte_offset_and_length(&memory, offset, length).into()
        };
    }
    Ok(match kind {
        ArrayKind::F32 => view!(Float32Array),
        ArrayKind::F64 => view!(Float64Array),
        ArrayKind::I8 => view!(Int8Array),
        ArrayKind::U8 => view!(Uint8Array),
        ArrayKind::I16 => view!(Int16Array),
        ArrayKind::U16 => view!(Uint16Array),
        ArrayKind::I32 => view!(Int32Array),
        ArrayKind::U32 => view!(Uint32Array),
        ArrayKind::I64 => view!(BigInt64Array),
        ArrayKind::U64 => view!(BigUint64Array),
    })
}
