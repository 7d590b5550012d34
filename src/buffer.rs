//! The memory of tensors.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// The memory of a tensor: an ArrayBuffer in the browser, a `Vec` natively.
#[doc(hidden)]
pub trait Buffer: Sized + 'static {
    /// Allocates a zeroed buffer of `byte_length` bytes.
    ///
    /// # Errors
    /// `LIMIT` if there is not enough memory.
    fn allocate(byte_length: u64) -> Result<Self>;

    /// Length in bytes.
    fn byte_length(&self) -> u64;

    /// Changes the length to `byte_length` bytes: appends zeros or truncates the buffer.
    ///
    /// # Errors
    /// Those of [`Buffer::allocate`].
    fn resize(&mut self, byte_length: u64) -> Result<()>;

    /// Copies `bytes` to the offset `at`.
    ///
    /// # Errors
    /// `INTERNAL` if they do not fit.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Copies the bytes of `range` in `from` to the offset `at`.
    ///
    /// # Errors
    /// `INTERNAL` if `range` is out of bounds or does not fit.
    fn copy(&mut self, at: u64, from: &Self, range: Range<u64>) -> Result<()>;

    /// Whether the memory is still available. A failed read may have detached it.
    fn is_intact(&self) -> bool {
        true
    }

    /// Another handle to the same memory, for writes from another thread. `None` if the memory cannot be shared.
    fn share(&self) -> Option<Self> {
        None
    }

    /// Checks that elements of this dtype may be written to the buffer. A buffer of bytes takes all dtypes.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the caller's buffer is an array of other elements.
    fn check_elements(&self, _dtype: &Dtype) -> Result<()> {
        Ok(())
    }

    /// Passes the bytes of `range` to `visit` in order, in one or more pieces. If the buffer is outside the address
    /// space of the program, the bytes are copied through a scratch buffer.
    ///
    /// # Errors
    /// `INTERNAL` if `range` is out of bounds; those of `visit`.
    fn inspect(&self, range: Range<u64>, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Copies the bytes to a new buffer.
    ///
    /// # Errors
    /// Those of [`Buffer::allocate`].
    fn duplicate(&self) -> Result<Self> {
        let mut copy = Self::allocate(self.byte_length())?;
        let mut at = 0;
        self.inspect(0..self.byte_length(), &mut |bytes| {
            copy.write(at, bytes)?;
            at += bytes.len() as u64;
            Ok(())
        })?;
        Ok(copy)
    }
}

impl Buffer for Vec<u8> {
    fn allocate(byte_length: u64) -> Result<Self> {
        let mut buffer = Vec::new();
        Buffer::resize(&mut buffer, byte_length)?;
        Ok(buffer)
    }

    fn byte_length(&self) -> u64 {
        self.len() as u64
    }

    fn resize(&mut self, byte_length: u64) -> Result<()> {
        let no_memory = || Error::new(ErrorKind::Limit, format!("{byte_length} bytes cannot be allocated"));
        let length = usize::try_from(byte_length).map_err(|_| no_memory())?;
        self.try_reserve_exact(length.saturating_sub(self.len())).map_err(|_| no_memory())?;
        Vec::resize(self, length, 0);
        self.shrink_to_fit();
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let slot = usize::try_from(at).ok().and_then(|at| self.get_mut(at..)?.get_mut(..bytes.len()));
        slot.ok_or_else(out_of_bounds)?.copy_from_slice(bytes);
        Ok(())
    }

    fn copy(&mut self, at: u64, from: &Self, range: Range<u64>) -> Result<()> {
        self.write(at, from.get(range.start as usize..range.end as usize).ok_or_else(out_of_bounds)?)
    }

    fn inspect(&self, range: Range<u64>, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        visit(self.get(range.start as usize..range.end as usize).ok_or_else(out_of_bounds)?)
    }
}

fn out_of_bounds() -> Error {
    Error::new(ErrorKind::Internal, "a read or a write is out of bounds of a buffer")
}
