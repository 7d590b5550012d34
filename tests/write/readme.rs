//! The table of formats in the README, held to what the code does.

use super::corpus::{fixtures, root};
use super::model::{Folder, varied};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use weightstream::internals::format::FORMATS;
use weightstream::native::Reader;
use weightstream::write::{Compression, ConvertOptions, DigestAlgorithm, TargetFormat};

/// How people call the formats, in the order of the table.
const TITLES: [(&str, &str); 7] = [
    ("apr", "APR v2, and what its tools shipped before"),
    ("safetensors", "SafeTensors"),
    ("gguf", "GGUF"),
    ("aero", "AERO and AEROSET"),
    ("burnpack", "Burnpack"),
    ("embd", "EMBD `.weights`"),
    ("ztensor", "zTensor"),
];

#[test]
fn the_table_of_formats_in_the_readme_is_true() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let table = table();
    assert!(readme.contains(&table), "the README should have this table:\n\n{table}\n");
    let known: BTreeSet<_> = TITLES.iter().map(|(name, _)| *name).collect();
    let read = FORMATS.iter().map(|format| format.name).filter(|name| *name != "manifest");
    assert_eq!(read.collect::<BTreeSet<_>>(), known);
}

fn table() -> String {
    let mut table = String::from(
        "| format | read | checked by | written | `--compress` | `--digest` | several files |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (name, title) in TITLES {
        let (versions, checksums) = read(name);
        let written = match TargetFormat::from_name(name) {
            Some(format) => written(format),
            None => "– | – | – | –".to_owned(),
        };
        table += &format!("| {title} | {} | {} | {written} |\n", listed(versions), listed(checksums));
    }
    table
}

/// The versions that the fixtures of a format have, and what we write of it, and what these can be checked by.
fn read(name: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut versions, mut checksums) = (BTreeSet::new(), BTreeSet::new());
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    if let Some(format) = TargetFormat::from_name(name) {
        folder.convert("m.safetensors", "written", &ConvertOptions::default().with_format(format)).unwrap();
    }
    let paths = fixtures().into_iter().map(|fixture| root().join(fixture.path));
    for path in paths.chain([folder.path("written")]) {
        let Ok(reader) = Reader::open(path) else { continue };
        if reader.metadata().format == name {
            versions.insert(reader.metadata().version.clone());
            checksums.extend(reader.verify(&()).unwrap().checksums.into_iter().map(str::to_owned));
        }
    }
    (versions, checksums)
}

/// What a conversion takes: whether it is written, by which options, and whether in several files.
fn written(format: TargetFormat) -> String {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    let takes = |options: &ConvertOptions| folder.convert("m.safetensors", "out", options).is_ok();
    let options = ConvertOptions::default().with_format(format);
    assert!(takes(&options));
    let compressions = [(Compression::Lz4, "lz4"), (Compression::Zstd, "zstd")];
    let compressions =
        compressions.into_iter().filter(|(compression, _)| takes(&options.clone().with_compression(*compression)));
    let digests =
        [(DigestAlgorithm::Crc32c, "crc32c"), (DigestAlgorithm::Sha256, "sha256"), (DigestAlgorithm::Blake3, "blake3")];
    let digests = digests.into_iter().filter(|(digest, _)| takes(&options.clone().with_digest(Some(*digest))));
    let several = takes(&options.clone().with_max_shard_bytes(Some(200_000)));
    let names = |names: Vec<&str>| listed(names.into_iter().map(str::to_owned).collect());
    let (compressions, digests) =
        (compressions.map(|(_, name)| name).collect(), digests.map(|(_, name)| name).collect());
    format!("yes | {} | {} | {}", names(compressions), names(digests), if several { "yes" } else { "–" })
}

fn listed(words: BTreeSet<String>) -> String {
    if words.is_empty() { "–".to_owned() } else { words.into_iter().collect::<Vec<_>>().join(", ") }
}
