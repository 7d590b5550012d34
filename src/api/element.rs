//! Bytes as the elements of typed slices.

use crate::dtype::ArrayKind;
use crate::error::{Error, ErrorKind, Result};
use bytemuck::Pod;
use std::borrow::Cow;

/// A type of elements that a tensor can be read as: `f32`, `f64` and the integers of 8 to 64 bits.
pub trait Element: Sealed {}

impl<T: Sealed> Element for T {}

/// Only this crate implements [`Element`].
pub trait Sealed: Pod {
    /// The dtypes with such elements.
    const KIND: ArrayKind;

    /// Converts an element whose bytes are in little-endian order.
    fn to_native(self) -> Self;
}

macro_rules! elements {
    ($($element:ty, $kind:ident;)+) => {$(
        impl Sealed for $element {
            const KIND: ArrayKind = ArrayKind::$kind;

            fn to_native(self) -> Self {
                <$element>::from_le_bytes(self.to_ne_bytes())
            }
        }
    )+};
}

elements! {
    f32, F32;
    f64, F64;
    i8, I8;
    u8, U8;
    i16, I16;
    u16, U16;
    i32, I32;
    u32, U32;
    i64, I64;
    u64, U64;
}

/// The elements in little-endian bytes. They are borrowed if the bytes are borrowed and aligned.
///
/// # Errors
/// `FORMAT` if the last element is incomplete.
pub(super) fn elements<T: Element>(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, [T]>> {
    if !bytes.len().is_multiple_of(size_of::<T>()) {
        let what = format!("its {} bytes are not a whole number of elements of {} bytes", bytes.len(), size_of::<T>());
        return Err(Error::new(ErrorKind::Format, what));
    }
    if let (Cow::Borrowed(bytes), true) = (&bytes, cfg!(target_endian = "little"))
        && let Ok(borrowed) = bytemuck::try_cast_slice(bytes)
    {
        return Ok(Cow::Borrowed(borrowed));
    }
    let mut copied = zeros(bytes.len() / size_of::<T>())?;
    bytemuck::cast_slice_mut::<T, u8>(&mut copied).copy_from_slice(&bytes);
    reorder(&mut copied);
    Ok(Cow::Owned(copied))
}

/// Elements that are zero.
///
/// # Errors
/// `LIMIT` if there is not enough memory.
pub(super) fn zeros<T: Element>(length: usize) -> Result<Vec<T>> {
    let mut zeros: Vec<T> = Vec::new();
    let no_memory = |_| Error::new(ErrorKind::Limit, format!("{length} elements cannot be allocated"));
    zeros.try_reserve_exact(length).map_err(no_memory)?;
    zeros.resize(length, T::zeroed());
    Ok(zeros)
}

/// Converts elements whose bytes are in little-endian order.
pub(super) fn reorder<T: Element>(elements: &mut [T]) {
    if cfg!(target_endian = "big") {
        elements.iter_mut().for_each(|element| *element = element.to_native());
    }
}
