//! Runs the Rust tests of the library in a browser: cargo starts it instead of the module with the tests. It is
//! `wasm-bindgen-test-runner` of the version in `Cargo.lock`.

use std::env;

fn main() -> anyhow::Result<()> {
    wasm_bindgen_cli::wasm_bindgen_test_runner::run_cli_with_args(env::args_os())
}
