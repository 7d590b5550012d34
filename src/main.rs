//! The `weightstream` command.

#[cfg(not(target_arch = "wasm32"))]
mod cli;

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    cli::run()
}

/// The browser's face is the library; the package is built as a whole, and this is not part of it there.
#[cfg(target_arch = "wasm32")]
fn main() {}
