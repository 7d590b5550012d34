//! Checks that decisions of the library which its JavaScript repeats are the same there. The scripts need them before
//! the module is loaded, or without it.

use std::collections::BTreeSet;
use std::fs;

use weightstream::Dtype;
use weightstream::internals::hub::Hub;
use weightstream::internals::index::{Algorithm, Digest};

use crate::parts::PARTS;
use crate::sources;

/// Constants in Rust, and in JavaScript.
const CONSTANTS: [[&str; 4]; 6] = [
    ["src/loader/transfer/file.rs", "FIRST_READ_BYTES", "src/js/source/head.js", "FIRST_READ_BYTES"],
    ["src/cache/opfs.rs", "DIRECTORY", "src/js/source/head.js", "CACHE"],
    ["src/cache/indexed.rs", "NAME", "src/js/source/head.js", "CACHE"],
    ["src/index/part.rs", "MAX_PARTS", "src/js/runtimes/wllama/wllama.js", "MAX_PARTS"],
    ["src/js/list.rs", "MAX_COMPARED", "src/js/loader/list.js", "MAX_KINDS"],
    ["src/js/progress.rs", "NEWEST_WEIGHT", "src/js/loader/progress.js", "NEWEST_WEIGHT"],
];

#[test]
fn constants_of_the_library_have_the_same_values_in_its_scripts() {
    for [rust, name, script, script_name] in CONSTANTS {
        let (value, in_script) = (constant(rust, name), constant(script, script_name));
        assert_eq!(value, in_script, "{name} in {rust}, and {script_name} in {script}");
    }
}

#[test]
fn scripts_number_the_parts_of_the_module_as_they_are_split() {
    let location = read("src/js/module/location.js");
    let (_, list) = location.split_once("export function deferredSources").unwrap();
    let mut rest = list;
    for part in PARTS {
        rest = rest.split_once(&format!("new URL(\"{}\", import.meta.url)", part.file)).expect(part.file).1;
    }
    let code = read("src/deferred.rs");
    let (_, variants) = code.split_once("enum Code {").unwrap();
    let (variants, _) = variants.split_once('}').unwrap();
    let names: Vec<_> = variants.lines().filter_map(|line| line.trim().strip_suffix(',')).collect();
    for (name, constant_name) in [("Cache", "CACHE"), ("Extras", "EXTRAS")] {
        let number = names.iter().position(|variant| *variant == name).unwrap();
        assert_eq!(constant("src/js/module/deferred.js", constant_name), number.to_string(), "{name}");
    }
}

#[test]
fn scripts_know_the_default_hub() {
    let endpoint = Hub::default().endpoint.replace('/', "\\/").replace('.', "\\.");
    assert!(read("src/js/source/head.js").contains(&format!("const HUB = /^(hf:|{endpoint}\\/)/i;")), "{endpoint}");
}

#[test]
fn scripts_know_the_algorithms_of_digests_that_options_may_state() {
    let script = read("src/js/options/options.js");
    let (_, rest) = script.split_once("const DIGEST = /^(").unwrap();
    let mut names: Vec<_> = rest.split_once(')').unwrap().0.split('|').collect();
    let all = [Algorithm::Blake3, Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Sha256, Algorithm::Xxh3];
    let lengths = [8, 16, 64];
    let is_read = |name: &&str| lengths.iter().any(|length| format!("{name}:{:0length$}", 0).parse::<Digest>().is_ok());
    let mut expected: Vec<_> = all.into_iter().map(Algorithm::name).filter(is_read).collect();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn scripts_know_the_curves_of_keys() {
    let curves = |path: &str| {
        let text = read(path);
        let names = text.split('"').filter(|name| name.starts_with("P-") && name.len() == "P-256".len());
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let of_scripts = curves("src/js/signature/trust.js");
    assert_eq!(of_scripts, curves("signatures/src/ecdsa.rs"));
    assert_eq!(of_scripts.len(), 3);
}

#[test]
fn blocks_of_dtypes_that_a_gpu_converts_have_the_same_sizes() {
    let script = read("src/js/gpu/dequantize.js");
    for name in ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K"] {
        let (_, entry) = script.split_once(&format!("\n  {name}: {{")).expect(name);
        let number = |field: &str| {
            let (_, rest) = entry.split_once(&format!("{field}: ")).expect(name);
            rest.split(',').next().and_then(|number| number.parse::<u64>().ok())
        };
        let block = Dtype::from_name(name).block().expect(name);
        assert_eq!(number("values"), Some(block.elements), "values of {name}");
        assert_eq!(number("bytes"), Some(block.bytes), "bytes of {name}");
    }
}

/// The value of a constant, written as in Rust or as in JavaScript.
fn constant(path: &str, name: &str) -> String {
    let text = read(path);
    let starts = [format!("const {name} = "), format!("const {name}: ")];
    let rest = starts.iter().find_map(|start| text.split_once(start)).expect(name).1;
    let (value, _) = rest.split_once(';').expect(name);
    let value = value.rsplit(" = ").next().unwrap_or(value).replace('_', "");
    match value.split_once(" << ") {
        Some((number, bits)) => (number.parse::<u64>().expect(name) << bits.parse::<u32>().expect(name)).to_string(),
        None => value,
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(sources::root().join(path)).expect(path)
}
