//! Names of combinations of target and features that the sources often need.

use cfg_aliases::cfg_aliases;

fn main() {
    cfg_aliases! {
        // Where the code runs.
        web: { target_arch = "wasm32" },
        native: { not(web) },
        // Features that have an effect only natively.
        http_client: { all(feature = "http", native) },
        maps: { all(feature = "mmap", native) },
        signs: { all(feature = "signatures", native) },
        writes: { all(feature = "write", native) },
        // Features that have an effect only in browsers.
        npm: { all(feature = "js", web) },
        workers: { all(feature = "web-workers", web) },
        // Where URLs can be read: natively with a client, and in browsers with `fetch`.
        remote: { any(feature = "http", web) },
    }
}
