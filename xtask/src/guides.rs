//! Checks what the documents for users repeat: the list of documents, the tested versions, and configurations.

use std::fs;

use serde_json::Value;

use crate::sources;

const INDEX: &str = "docs/README.md";

/// A manifest with pinned packages.
const RUNTIMES: &str = "tests/runtimes/package.json";
const TOOLS: &str = "tests/package/package.json";
const SERVERS: &str = "tests/package/servers/package.json";

/// Pinned packages, and the document that states their version, after this text.
const PINS: [(&str, &str, &str, &str); 30] = [
    (RUNTIMES, "onnxruntime-web", INDEX, "onnxruntime-web "),
    (RUNTIMES, "onnxruntime-web", "docs/onnxruntime.md", "ONNX Runtime Web "),
    (RUNTIMES, "onnxruntime-web", "docs/service-worker.md", "ONNX Runtime Web "),
    (RUNTIMES, "onnxruntime-web", "docs/transformers.md", "ONNX Runtime Web "),
    (RUNTIMES, "@huggingface/transformers", INDEX, "@huggingface/transformers "),
    (RUNTIMES, "@huggingface/transformers", "docs/transformers.md", "The tests run transformers.js "),
    (RUNTIMES, "@wllama/wllama", INDEX, "@wllama/wllama "),
    (RUNTIMES, "@wllama/wllama", "docs/wllama.md", "The tests run wllama "),
    (RUNTIMES, "@mlc-ai/web-llm", INDEX, "@mlc-ai/web-llm "),
    (RUNTIMES, "@mlc-ai/web-llm", "docs/tvmjs.md", "`@mlc-ai/web-llm` "),
    (RUNTIMES, "@mlc-ai/web-runtime", INDEX, "@mlc-ai/web-runtime "),
    (RUNTIMES, "@mlc-ai/web-runtime", "docs/tvmjs.md", "`@mlc-ai/web-runtime` "),
    (RUNTIMES, "@tensorflow/tfjs-core", INDEX, "@tensorflow/tfjs-core "),
    (RUNTIMES, "@tensorflow/tfjs-core", "docs/tfjs.md", "The tests run TensorFlow.js "),
    (RUNTIMES, "@vladmandic/face-api", "docs/tfjs.md", "face-api "),
    (TOOLS, "vite5", INDEX, "| nothing | "),
    (TOOLS, "vite", INDEX, ", "),
    (TOOLS, "vite7", INDEX, ", "),
    ("tests/package/vite8/package.json", "vite", INDEX, ", "),
    (TOOLS, "webpack", INDEX, "| nothing | "),
    (TOOLS, "esbuild", INDEX, "or `init` | "),
    (TOOLS, "rollup", INDEX, "or a plugin | "),
    (TOOLS, "typescript-oldest", INDEX, "5.4 or newer | "),
    (TOOLS, "typescript-5.7", INDEX, ", "),
    (TOOLS, "typescript-5.9", INDEX, ", "),
    (TOOLS, "typescript", INDEX, ", "),
    ("tests/package/next/package.json", "next", INDEX, "a client component | "),
    (SERVERS, "@cloudflare/workerd-linux-64", INDEX, "workerd "),
    (SERVERS, "@deno/linux-x64-glibc", INDEX, "… | "),
    (SERVERS, "@oven/bun-linux-x64-baseline", INDEX, "| nothing | "),
];

/// The crates of the bridges in their lock file.
const CRATES: [&str; 2] = ["burn-store", "candle-core"];

#[test]
fn the_index_links_to_every_document() {
    let index = read(INDEX);
    let is_guide = |path: &&String| path.starts_with("docs/") && path.ends_with(".md") && *path != INDEX;
    let of_environments = read("docs/environments.md");
    for path in sources::files(&sources::root()).unwrap().iter().filter(is_guide) {
        let link = path.trim_start_matches("docs/");
        let is_linked = [&index, &of_environments].iter().any(|text| text.contains(&format!("]({link}")));
        assert!(is_linked, "{INDEX} or docs/environments.md should link to {link}");
    }
}

#[test]
fn documents_state_the_versions_that_the_tests_run() {
    for (manifest, package, document, text) in PINS {
        let manifest: Value = serde_json::from_str(&read(manifest)).unwrap();
        let tables = ["dependencies", "devDependencies", "optionalDependencies"];
        let pin = tables.iter().find_map(|table| manifest[table][package].as_str()).unwrap();
        let version = pin.strip_prefix("npm:").and_then(|pin| pin.rsplit_once('@')).map_or(pin, |(_, version)| version);
        states(document, &format!("{text}{version}"));
    }
    let lock = read("bridges/Cargo.lock");
    for name in CRATES {
        let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap();
        states(INDEX, &format!("{name} {}", rest.split('"').next().unwrap()));
    }
}

#[test]
fn documents_have_the_configurations_that_the_command_line_prints() {
    let folder = "publish/src/check/configuration";
    for entry in fs::read_dir(sources::root().join(folder)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let block = format!("\n{}\n```\n", read(&format!("{folder}/{name}")).trim_end());
        assert!(read("docs/servers.md").contains(&block), "docs/servers.md should have a block with {folder}/{name}");
    }
}

/// Checks that a document states a version, and not only the start of a longer one.
fn states(document: &str, text: &str) {
    let content = read(document).split_whitespace().collect::<Vec<_>>().join(" ");
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
    assert!(content.split(text).skip(1).any(is_end), "{document} should state: {text}");
}

fn read(path: &str) -> String {
    fs::read_to_string(sources::root().join(path)).unwrap()
}
