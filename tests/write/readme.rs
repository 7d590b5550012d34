//! The table of formats in the README is generated from the registry, and the registry matches the code.

use super::corpus::{fixtures, root};
use super::model::{Folder, to, varied_for};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use weightstream::internals::format::{Format, formats};
use weightstream::internals::index::Algorithm;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{Compression, ConvertOptions, DigestAlgorithm};

const HEADER: &str = "| format | read | checked by | written | `--compress` | `--digest` | several files |\n\
                      | --- | --- | --- | --- | --- | --- | --- |\n";

/// With `UPDATE_README=1` in the environment, the test updates the table in the README.
#[test]
fn the_table_of_formats_in_the_readme_matches_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let table = formats().iter().map(row).fold(HEADER.to_owned(), |table, row| table + &row);
    if readme.contains(&table) {
        return;
    }
    let advice = "update it with `UPDATE_README=1 cargo test --test write readme`";
    assert!(std::env::var_os("UPDATE_README").is_some(), "the README should have this table ({advice}):\n\n{table}");
    let start = readme.find("| format | read |").expect("the README has no table that begins with `| format | read |`");
    let length = readme[start..].find("\n\n").map_or(readme.len() - start, |end| end + 1);
    fs::write(&path, [&readme[..start], &table, &readme[start + length..]].concat()).unwrap();
}

#[test]
fn the_registry_has_an_entry_for_every_format_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/format");
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let names: BTreeSet<_> = folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let registered: BTreeSet<_> = formats().iter().map(|format| format.name.to_owned()).collect();
    assert_eq!(names, registered);
}

#[test]
fn the_registry_lists_the_versions_and_checksums_that_are_read() {
    let folder = Folder::new();
    let mut paths: Vec<_> = fixtures().into_iter().map(|fixture| root().join(fixture.path)).collect();
    for format in weightstream::internals::write::formats() {
        folder.write("m.safetensors", &varied_for(&[format]));
        folder.convert("m.safetensors", format.name, &to(format)).unwrap();
        paths.push(folder.path(format.name));
    }
    let readers: Vec<_> = paths.into_iter().filter_map(|path| Reader::open(path).ok()).collect();
    for format in formats() {
        let (mut versions, mut checksums) = (BTreeSet::new(), BTreeSet::new());
        for reader in readers.iter().filter(|reader| reader.metadata().format == format.name) {
            versions.insert(reader.metadata().version.as_str());
            checksums.extend(reader.verify(&()).unwrap().checksums.into_iter().map(Algorithm::name));
        }
        assert_eq!(versions, format.versions.iter().copied().collect(), "the versions of {}", format.name);
        assert_eq!(checksums, format.checksums.iter().copied().collect(), "the checksums of {}", format.name);
    }
}

#[test]
fn the_registry_lists_the_options_that_writers_support() {
    let folder = Folder::new();
    for format in weightstream::internals::write::formats() {
        folder.write("m.safetensors", &varied_for(&[format]));
        let writer = format.writer().unwrap();
        let takes = |options: &ConvertOptions| folder.convert("m.safetensors", "out", options).is_ok();
        assert!(takes(&to(format)), "{}", format.name);
        for compression in [Compression::Lz4, Compression::Zstd] {
            let is_taken = takes(&to(format).compression(compression));
            assert_eq!(is_taken, writer.compressions.contains(&compression), "{} {compression:?}", format.name);
        }
        for digest in [DigestAlgorithm::Crc32c, DigestAlgorithm::Sha256, DigestAlgorithm::Blake3] {
            let is_taken = takes(&to(format).digest(Some(digest)));
            assert_eq!(is_taken, writer.digests.contains(&digest), "{} {digest:?}", format.name);
        }
        for alignment in writer.alignments {
            assert!(takes(&to(format).alignment(Some(*alignment))), "{} {alignment}", format.name);
        }
        let shards = takes(&to(format).max_shard_bytes(Some(200_000)));
        assert_eq!(shards, writer.shards, "{}", format.name);
    }
}

fn row(format: &Format) -> String {
    let written = match format.writer() {
        Some(writer) => {
            let compressions = writer.compressions.iter().map(|compression| compression.name());
            let digests = writer.digests.iter().map(|digest| digest.name());
            let shards = if writer.shards { "yes" } else { "–" };
            format!("yes | {} | {} | {shards}", listed(compressions), listed(digests))
        }
        None => "– | – | – | –".to_owned(),
    };
    let (versions, checksums) = (format.versions.iter().copied(), format.checksums.iter().copied());
    format!("| {} | {} | {} | {written} |\n", format.title, listed(versions), listed(checksums))
}

fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() { "–".to_owned() } else { words.join(", ") }
}
