//! Writes the JavaScript glue and the final module for a module that the compiler built.
//!
//! The output is that of `wasm-bindgen --target web --experimental-reset-state-function`. Installing that program
//! takes minutes, because it comes with a test runner and its HTTP server and client. Compiling only its library takes
//! a fraction of that time. `xtask` runs this program instead of linking the library, so that tasks that do not build
//! the package do not compile it.

use std::env;

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [module, name, folder] = arguments.as_slice() else {
        bail!("usage: xtask-bindgen <module> <name of the glue> <folder>");
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).out_name(name.to_str().context("the name is not UTF-8")?).web(true)?.typescript(true);
    // Without an argument, `init` of the glue fetches the module next to the glue.
    bindgen.omit_default_module_path(false);
    // After a panic the next `open` gets a new instance of the module.
    bindgen.reset_state_function(true);
    bindgen.generate(folder)
}
