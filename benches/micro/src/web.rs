//! Exports for a page that measures the kernels.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::{Kernel, kernels};
use std::cell::RefCell;
use wasm_bindgen::prelude::wasm_bindgen;

thread_local! {
    static KERNELS: RefCell<Vec<Kernel>> = RefCell::new(kernels());
}

/// The names of the kernels.
#[wasm_bindgen(js_name = kernelNames)]
pub fn kernel_names() -> Vec<String> {
    KERNELS.with_borrow(|all| all.iter().map(|kernel| kernel.name.to_owned()).collect())
}

/// How many bytes one run of a kernel processes.
#[wasm_bindgen(js_name = kernelBytes)]
pub fn kernel_bytes(index: usize) -> f64 {
    KERNELS.with_borrow(|all| all.get(index).map_or(0.0, |kernel| kernel.bytes as f64))
}

/// Runs a kernel `times` times.
#[wasm_bindgen(js_name = runKernel)]
pub fn run_kernel(index: usize, times: u32) {
    KERNELS.with_borrow_mut(|all| {
        if let Some(kernel) = all.get_mut(index) {
            (0..times).for_each(|_| (kernel.run)());
        }
    });
}
