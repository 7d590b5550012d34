//! Damaged models. Whatever `verify` refuses is refused before its bytes are passed on: otherwise a conversion would
//! give damaged bytes fresh checksums.

use super::model::{Folder, noise, safetensors_file, to};
use serde_json::json;
use std::fs;
use std::path::Path;
use weightstream::Result;
use weightstream::internals::format::{Format, aero, apr, embd, safetensors, ztensor};
use weightstream::internals::loader::Options;
use weightstream::internals::native::{Reader, RemoteReader};
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::write::{
    Compression, ConvertOptions, DigestAlgorithm, Extent, ExtractOptions, Input, TensorOrder, convert, extract_npy,
};

/// Layers in the order of their names, which is not the order of the computation.
fn model() -> Vec<u8> {
    let layers: Vec<_> = [0, 1, 10, 2, 3].iter().map(|layer| format!("layers.{layer}.weight")).collect();
    let tensors = layers.iter().zip(1..).map(|(name, seed)| (&**name, "F32", &[5, 15][..], noise(seed, 300)));
    safetensors_file(json!({}), &tensors.collect::<Vec<_>>())
}

/// Models with checksums of files: a folder for each, with the name of the file to open.
fn models() -> Vec<(Folder, &'static str)> {
    let sharded = |format: &'static Format| to(format).max_shard_bytes(Some(1200));
    let cases: [(&str, ConvertOptions); 7] = [
        ("m.apr", to(&apr::FORMAT)),
        ("m.apr", to(&apr::FORMAT).compression(Compression::Lz4)),
        ("m.apr", sharded(&apr::FORMAT)),
        ("m.weights", to(&embd::FORMAT)),
        ("m.aero", to(&aero::FORMAT)),
        ("m.aeroset.json", sharded(&aero::FORMAT)),
        ("m.zt", to(&ztensor::FORMAT).digest(Some(DigestAlgorithm::Sha256))),
    ];
    let write = |(name, options): (&str, ConvertOptions)| {
        let folder = Folder::new();
        let source = Folder::new();
        source.write("m.safetensors", &model());
        let converted = folder.convert(source.path("m.safetensors"), name, &options).unwrap();
        let name = converted.path.file_name().unwrap().to_str().unwrap().to_owned();
        (folder, &*name.leak())
    };
    cases.into_iter().map(write).collect()
}

/// Calls `check` with damaged copies of all models, and the name of the file to open.
fn each_damaged(check: &dyn Fn(&Folder, &str)) {
    for (folder, opened) in models() {
        let mut count = 0;
        for name in folder.names() {
            let whole = fs::read(folder.path(&name)).unwrap();
            for at in (0..whole.len()).step_by(whole.len() / 12 + 1).chain([whole.len() - 1]) {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x10;
                folder.write(&name, &damaged);
                if Reader::open(folder.path(opened)).is_ok_and(|reader| reader.verify(&()).is_err()) {
                    check(&folder, opened);
                    count += 1;
                }
            }
            folder.write(&name, &whole);
        }
        assert!(count > 3, "{opened}: {count}");
        let out = Folder::new();
        folder.convert(opened, "again.safetensors", &to(&safetensors::FORMAT)).unwrap();
        convert(&folder.open(opened), &out.path("again.apr"), &ConvertOptions::default(), &()).unwrap();
    }
}

fn remote(folder: &Folder, opened: &str) -> Result<RemoteReader<MemorySource>> {
    let mut names = folder.names();
    names.sort_by_key(|name| name != opened);
    let files = names.into_iter().map(|name| (name.clone(), fs::read(folder.path(&name)).unwrap().into()));
    RemoteReader::open_source(MemorySource::new(files.collect())?, Options::default())
}

#[test]
fn what_verify_refuses_is_not_converted() {
    each_damaged(&|folder, opened| {
        let input = folder.open(opened);
        let refused = input.verify(&()).unwrap_err();
        for options in [
            to(&apr::FORMAT),
            to(&apr::FORMAT).compression(Compression::Auto),
            to(&safetensors::FORMAT).order(TensorOrder::Layers),
        ] {
            let out = Folder::new();
            let error = convert(&input, &out.path("out"), &options, &()).unwrap_err();
            assert_eq!(error.kind, refused.kind, "{opened}: {error}, but verify: {refused}");
            assert_eq!(out.names(), [""; 0], "{opened}");
        }
    });
}

#[test]
fn what_verify_refuses_at_a_url_is_not_converted() {
    each_damaged(&|folder, opened| {
        let Ok(input) = remote(folder, opened) else { return };
        input.verify(&()).unwrap_err();
        for order in [TensorOrder::Source, TensorOrder::Layers] {
            let out = Folder::new();
            convert(&input, &out.path("out"), &to(&apr::FORMAT).order(order), &()).unwrap_err();
            assert_eq!(out.names(), [""; 0], "{opened}");
        }
    });
    for (folder, opened) in models() {
        let out = Folder::new();
        let input = remote(&folder, opened).unwrap();
        convert(&input, &out.path("out"), &to(&apr::FORMAT).order(TensorOrder::Layers), &()).unwrap();
    }
}

/// As `inspect --sha256` and `diff` do.
#[test]
fn what_verify_refuses_is_refused_by_a_call_that_reads_all_tensors() {
    let read_all = |input: &dyn Input| -> Result<Vec<String>> {
        let checked = input.begin()?.unwrap();
        for tensor in checked.tensors() {
            for component in &tensor.components {
                checked.read_pieces(tensor, &component.role, &mut |_| Ok(()))?;
            }
        }
        checked.compare_files(Extent::Whole, &())
    };
    each_damaged(&|folder, opened| {
        read_all(&folder.open(opened)).unwrap_err();
    });
}

#[test]
fn one_tensor_of_a_damaged_file_is_not_extracted_unless_it_has_a_digest_of_its_own() {
    let folder = Folder::new();
    folder.write("m.safetensors", &model());
    let name = "layers.1.weight";
    let extract = |input: &dyn Input, out: &Path| extract_npy(input, name, out, &ExtractOptions::default(), &());
    for (to_name, has_digests) in [("m.apr", false), ("m.aero", true)] {
        folder.convert("m.safetensors", to_name, &ConvertOptions::default()).unwrap();
        let mut bytes = fs::read(folder.path(to_name)).unwrap();
        let damaged = folder.open(to_name).tensor("layers.3.weight").unwrap().first_byte();
        bytes[damaged as usize] ^= 1;
        folder.write(to_name, &bytes);
        for input in [Box::new(folder.open(to_name)) as Box<dyn Input>, Box::new(remote(&folder, to_name).unwrap())] {
            let out = Folder::new();
            let extracted = extract(&*input, &out.path("t.npy"));
            assert_eq!(extracted.is_ok(), has_digests, "{to_name}");
            assert_eq!(out.names().is_empty(), !has_digests);
        }
    }
}

/// No digest shows that the indices of a sparse tensor are wrong.
#[test]
fn sparse_tensors_with_wrong_indices_are_not_converted() {
    let rules = super::corpus::root().join("rules");
    let mut refused = 0;
    for entry in fs::read_dir(rules).unwrap() {
        let path = entry.unwrap().path();
        let Ok(reader) = Reader::open(&path) else { continue };
        let verified = reader.verify(&());
        let out = Folder::new();
        let converted = convert(&reader, &out.path("out"), &to(&ztensor::FORMAT).allow_loss(true), &());
        if verified.is_err() {
            converted.unwrap_err();
            assert_eq!(out.names(), [""; 0]);
            refused += 1;
        }
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn shards_of_two_models_are_not_confused() {
    let (one, other) = (Folder::new(), Folder::new());
    let file = |seed: u64| {
        safetensors_file(json!({}), &[("a", "U8", &[500], noise(seed, 500)), ("b", "U8", &[500], noise(9, 500))])
    };
    for (folder, seed) in [(&one, 1), (&other, 2)] {
        folder.write("m.safetensors", &file(seed));
        folder.convert("m.safetensors", "m.apr", &to(&apr::FORMAT).max_shard_bytes(Some(800))).unwrap();
    }
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(one.path("m.apr")).unwrap()).unwrap();
    for stated in manifest["shards"].as_array().unwrap() {
        let bytes = fs::read(one.path(stated["file"].as_str().unwrap())).unwrap();
        let footer = &bytes[bytes.len() - 16..][..4];
        assert_eq!(stated["crc32"], format!("{:08x}", u32::from_le_bytes(footer.try_into().unwrap())));
        assert_eq!(stated["sha256"].as_str().unwrap().len(), 64);
    }
    let shard = "m-00001-of-00002.apr";
    fs::copy(other.path(shard), one.path(shard)).unwrap();
    assert_eq!(one.open("m.apr").verify(&()).unwrap_err().code(), "CHECKSUM");
    one.convert("m.apr", "out.safetensors", &ConvertOptions::default()).unwrap_err();
    // The CRC alone shows it, too.
    let mut without = manifest.clone();
    without["shards"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|shard| _ = shard.as_object_mut().unwrap().remove("sha256"));
    one.write("m.apr", without.to_string().as_bytes());
    assert_eq!(one.open("m.apr").verify(&()).unwrap_err().code(), "CHECKSUM");
}
