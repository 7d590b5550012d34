//! Loads every fixture and compares its tensors, dtypes and bytes with those that its writer stored.

use crate::corpus;
use crate::corpus::{ExpectedTensor, Fixture, folder_of, root};
use futures::TryStreamExt;
use futures::executor::block_on;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::rc::Rc;
use weightstream::Error;
use weightstream::internals::dtype::{Dtype, element_count};
use weightstream::internals::format;
use weightstream::internals::index::{Layout, Parsed, Tensor};
use weightstream::internals::loader::{Loaded, Loader, Options, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::window::Window;

#[test]
fn every_fixture_has_the_expected_contents() {
    let fixtures = corpus::fixtures();
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut failures = Vec::new();
    for fixture in &fixtures {
        failures.extend(check(fixture).err().map(|failure| format!("{}: {failure}", fixture.path)));
        let (files, tensors) = counts.entry(fixture.folder()).or_default();
        (*files, *tensors) = (*files + 1, *tensors + fixture.expected.tensors.len());
    }
    for (folder, (files, tensors)) in &counts {
        println!("{folder:<12} {files:>4} fixtures {tensors:>5} tensors");
    }
    assert!(failures.is_empty(), "{} fixtures failed:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(counts, counts_in_index(&fixtures));
}

#[test]
fn every_format_has_fixtures_in_its_folder() {
    let fixtures = corpus::fixtures();
    for format in format::formats() {
        let mut in_folder = fixtures.iter().filter(|fixture| fixture.folder() == format.name);
        let is_detected = |fixture: &Fixture| match format::parse(&Window::whole(fixture.bytes())) {
            Ok(Parsed::WithData(index, _)) => index.format == format.name,
            _ => format::detect(fixture.bytes()).map(|found| found.name) == Some(format.name),
        };
        assert!(in_folder.any(is_detected), "tests/fixtures/{} has no file of the format", format.name);
    }
}

#[test]
fn every_bad_file_is_rejected_with_the_expected_error() {
    let text = fs::read_to_string(root().join("bad/MANIFEST.json")).unwrap();
    let manifest: BTreeMap<String, Bad> = serde_json::from_str(&text).unwrap();
    let formats: BTreeSet<_> = corpus::fixtures().iter().map(|fixture| fixture.folder().to_owned()).collect();
    let mut failures = Vec::new();
    for (name, bad) in &manifest {
        if !formats.iter().any(|format| name.starts_with(format.as_str())) {
            continue;
        }
        let bytes = fs::read(root().join("bad").join(name)).unwrap();
        assert_eq!(sha256(&bytes), bad.sha256, "{name}");
        let source = MemorySource::new(vec![(name.clone(), bytes.into())]).unwrap();
        let (stage, error) = rejection(source);
        let found = (stage, error.as_ref().map_or("none", Error::code));
        println!("{name}: {}", error.as_ref().map_or_else(|| "accepted".to_owned(), Error::to_string));
        if found != (bad.refused_at.as_str(), bad.code.as_str()) {
            failures.push(format!("{name} should be {} at {}, but: {found:?} {error:?}", bad.code, bad.refused_at));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn files_maps_and_memory_give_the_same_contents() {
    let mut compared = 0;
    for fixture in corpus::fixtures() {
        let path = root().join(&fixture.path);
        // SAFETY: no process writes to the fixtures during the test.
        let readers = [Reader::open(&path), unsafe { Reader::open_mapped(&path) }];
        let files = fixture.files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())).collect();
        match Reader::from_bytes(files) {
            Ok(in_memory) => {
                for reader in readers.map(Result::unwrap) {
                    assert_eq!(reader.metadata(), in_memory.metadata(), "{}", fixture.path);
                    assert_eq!(reader.tensors(), in_memory.tensors(), "{}", fixture.path);
                    compared += compare_components(&reader, &in_memory);
                }
            }
            Err(error) => {
                for reader in readers {
                    assert_eq!(reader.unwrap_err().kind, error.kind, "{}", fixture.path);
                }
            }
        }
    }
    assert!(compared > 1000, "{compared} components");
}

/// Compares the bytes of all components, and returns the number of components.
fn compare_components(one: &Reader, other: &Reader) -> usize {
    let bytes = |reader: &Reader, name: &str, role: &str| {
        let mut bytes = Vec::new();
        let read = reader.read_pieces(name, role, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
        read.map(|verified| (verified, bytes))
    };
    let mut count = 0;
    for tensor in one.tensors() {
        for component in &tensor.components {
            let (name, role) = (&tensor.name, &component.role);
            assert!(bytes(one, name, role) == bytes(other, name, role), "{name}");
            count += 1;
        }
    }
    count
}

/// The entry of a file in `bad/MANIFEST.json`.
#[derive(Deserialize)]
struct Bad {
    sha256: String,
    refused_at: String,
    code: String,
}

/// Returns the stage at which a file is rejected, and the error.
fn rejection(source: MemorySource) -> (&'static str, Option<Error>) {
    block_on(async {
        let opened = async {
            let loader = Rc::new(Loader::open(source, Options::default()).await?);
            loader.load_index().await?;
            Ok(loader)
        };
        match opened.await {
            Err(error) => ("open", Some(error)),
            Ok(loader) => ("verify", loader.verify(Rc::new(())).await.err()),
        }
    })
}

fn check(fixture: &Fixture) -> Result<(), String> {
    block_on(async {
        let loader = Loader::open(fixture.source(), Options::default()).await.map_err(|e| e.to_string())?;
        let loader = Rc::new(loader);
        loader.load_metadata().await.map_err(|e| e.to_string())?;
        let index = loader.load_index().await.map_err(|e| e.to_string())?;
        let expected = expected_tensors(fixture)?;
        let names: BTreeSet<_> = index.names().collect();
        equal("names", &names, &expected.keys().map(String::as_str).collect())?;
        equal("number of tensors", &index.len(), &expected.len())?;
        let offsets: Vec<_> = index.iter().map(|tensor| (tensor.shard, tensor.first_byte())).collect();
        equal("file order", &offsets.is_sorted(), &true)?;

        let mut whole = BTreeMap::new();
        for tensor in &index {
            let in_tensor = |failure: String| format!("{:?}: {failure}", tensor.name);
            let expected = &expected[&tensor.name];
            // Of quantized tensors, references list the codes.
            let stored = match tensor.components.as_slice() {
                [codes] if tensor.layout.name() == "quantized" => &codes.dtype,
                _ => &tensor.dtype,
            };
            equal("dtype", &stored.name(), &expected.dtype.as_str()).map_err(in_tensor)?;
            equal("shape", &tensor.shape, &expected.shape).map_err(in_tensor)?;
            if tensor.layout == Layout::Dense {
                let parts: Vec<_> = tensor.components.iter().map(|part| (&*part.role, &part.dtype)).collect();
                equal("components", &parts, &vec![("data", &tensor.dtype)]).map_err(in_tensor)?;
            }
            let loaded = loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await;
            let loaded = loaded.map_err(|e| e.to_string())?;
            equal("bytes from load_tensor()", &contents(&loaded), &expected.components).map_err(in_tensor)?;
            whole.insert(tensor.name.clone(), loaded);
        }
        let streamed = loader.tensors(None, Rc::new(())).await.map_err(|e| e.to_string())?;
        let streamed: Vec<_> = streamed.try_collect().await.map_err(|e| e.to_string())?;
        equal("number of streamed tensors", &streamed.len(), &expected.len())?;
        for loaded in &streamed {
            equal("bytes from tensors()", &contents(loaded), &expected[&loaded.tensor.name].components)?;
        }
        for tensor in &index {
            check_rows(&loader, &tensor, &whole[&tensor.name]).await?;
        }
        loader.verify(Rc::new(())).await.map_err(|e| e.to_string())?;
        Ok(())
    })
}

/// Loads some rows of a dense tensor and compares them with the same bytes of the whole tensor.
async fn check_rows(loader: &Rc<Loader<MemorySource>>, tensor: &Tensor, whole: &Loaded<Vec<u8>>) -> Result<(), String> {
    let Some((&row_count, row_shape)) = tensor.shape.split_first() else { return Ok(()) };
    let row_bytes = element_count(row_shape).and_then(|elements| tensor.dtype.byte_length(elements));
    let (Layout::Dense, Ok(Some(row_bytes)), true) = (&tensor.layout, row_bytes, row_count > 0) else { return Ok(()) };
    let (first, end) = (row_count / 3, row_count - row_count / 4);
    let request = TensorRequest::default().with_rows(Some(first..end));
    let loaded = loader.load_tensor(&tensor.name, request, Rc::new(())).await.map_err(|e| e.to_string())?;
    let bytes = (first * row_bytes) as usize..(end * row_bytes) as usize;
    equal("rows", &loaded.components[0].buffer.as_slice(), &&whole.components[0].buffer[bytes])
}

/// The expected tensor, with the dtype as weightstream spells it.
struct ExpectedContent {
    dtype: String,
    shape: Vec<u64>,
    components: Contents,
}

/// The length and the SHA-256 of each component, by role.
type Contents = BTreeMap<String, (u64, String)>;

fn contents(loaded: &Loaded<Vec<u8>>) -> Contents {
    let content = |buffer: &[u8]| (buffer.len() as u64, sha256(buffer));
    loaded.components.iter().map(|c| (c.role.to_string(), content(&c.buffer))).collect()
}

fn expected_tensors(fixture: &Fixture) -> Result<BTreeMap<String, ExpectedContent>, String> {
    let expected_content = |tensor: &ExpectedTensor| {
        let dtype = our_dtype(fixture.folder(), tensor);
        let mut shape = tensor.numpy_shape.clone().unwrap_or_else(|| tensor.shape.clone());
        if fixture.path.starts_with("aero/from_gguf") {
            shape.reverse(); // the tool that wrote it copies shapes in the order of GGUF
        }
        Ok((tensor.name.clone(), ExpectedContent { dtype, shape, components: expected_contents(tensor)? }))
    };
    let mut tensors: BTreeMap<_, _> =
        fixture.tensors_of_the_model().iter().map(expected_content).collect::<Result<_, String>>()?;
    // APRN has no tensors. Its payload is listed as one.
    if let Some(sha256) = fixture.expected.metadata["payload_uncompressed_sha256"].as_str() {
        let length = fixture.expected.metadata["uncompressed_size"].as_u64().unwrap();
        let components = [("data".to_owned(), (length, sha256.to_owned()))].into();
        let dtype = "U8".to_owned();
        tensors.insert("payload".to_owned(), ExpectedContent { dtype, shape: vec![length], components });
    }
    Ok(tensors)
}

fn expected_contents(tensor: &ExpectedTensor) -> Result<Contents, String> {
    if let Some(components) = &tensor.components {
        return Ok(components.iter().map(|(role, c)| (role.clone(), (c.nbytes, c.sha256.clone()))).collect());
    }
    if let (Some(length), Some(sha256)) = (tensor.nbytes, &tensor.sha256) {
        return Ok([("data".to_owned(), (length, sha256.clone()))].into());
    }
    match tensor.decoded.as_ref().and_then(Value::as_object) {
        Some(decoded) => Ok(decoded.iter().map(decoded_component).collect()),
        None => Err(format!("the fixture does not state the bytes of {:?}", tensor.name)),
    }
}

/// A component whose values the fixture states: F32 for `values`, U64 for indices. Coordinates are stored dimension by
/// dimension.
fn decoded_component((role, numbers): (&String, &Value)) -> (String, (u64, String)) {
    let mut bytes = Vec::new();
    let mut pending = vec![numbers];
    while let Some(next) = pending.pop() {
        match next {
            Value::Array(list) => pending.extend(list.iter().rev()),
            number if role == "values" => bytes.extend((number.as_f64().unwrap() as f32).to_le_bytes()),
            number => bytes.extend(number.as_u64().unwrap().to_le_bytes()),
        }
    }
    let role = if role == "coords_soa" { "coords" } else { role };
    (role.to_owned(), (bytes.len() as u64, sha256(&bytes)))
}

/// Converts the format's spelling of a dtype to that of weightstream.
fn our_dtype(folder: &str, tensor: &ExpectedTensor) -> String {
    let spelling = tensor.dtype.as_str();
    match (folder, spelling) {
        ("safetensors" | "gguf", _) => spelling.to_owned(),
        ("burnpack", "Flex32") => "F32".to_owned(),
        ("burnpack", "Bool(U32)") => "U32".to_owned(),
        ("burnpack", _) if spelling.starts_with("Bool") => "BOOL".to_owned(),
        ("burnpack", _) if spelling.starts_with("QFloat") => {
            let value = spelling.split("value: ").nth(1).and_then(|rest| rest.split(',').next());
            format!("QFLOAT_{}", value.unwrap())
        }
        ("apr", "q4" | "q8") => format!("APR_{}", spelling.to_uppercase()),
        ("aero", "packed") => packed_dtype(tensor),
        ("ztensor", _) => ztensor_dtype(tensor),
        ("onnx", _) => onnx_dtype(tensor).to_owned(),
        ("hdf5" | "tfjs" | "mlc", _) => full_dtype(spelling),
        ("tflite", "INT4" | "UINT4" | "INT2") => spelling.to_owned(),
        ("tflite", _) => full_dtype(&spelling.to_lowercase()),
        ("npy" | "npz", _) => numpy_dtype(spelling),
        ("pytorch", _) => torch_dtype(spelling),
        _ => spelling.to_uppercase(),
    }
}

/// The ggml types of the AERO fixtures; `packed` if more bytes are stored than the type needs.
fn packed_dtype(tensor: &ExpectedTensor) -> String {
    let number = tensor.quant_params.as_ref().and_then(|params| params["ggml_type"].as_u64());
    let dtype = match number {
        Some(2) => "Q4_0",
        Some(3) => "Q4_1",
        Some(6) => "Q5_0",
        Some(7) => "Q5_1",
        Some(8) => "Q8_0",
        Some(10) => "Q2_K",
        Some(11) => "Q3_K",
        Some(12) => "Q4_K",
        Some(13) => "Q5_K",
        Some(14) => "Q6_K",
        Some(20) => "IQ4_NL",
        Some(34) => "TQ1_0",
        Some(35) => "TQ2_0",
        other => panic!("unknown ggml type {other:?}: add it to the table of this test"),
    };
    let needed = element_count(&tensor.shape).and_then(|elements| Dtype::from_name(dtype).byte_length(elements));
    if needed == Ok(tensor.nbytes) { dtype.to_owned() } else { "packed".to_owned() }
}

/// zTensor files spell dtypes in full or abbreviated. A component may have a logical dtype, and the layout may name a
/// ggml block type.
fn ztensor_dtype(tensor: &ExpectedTensor) -> String {
    let blocks = tensor.layout.as_deref().and_then(|layout| layout.strip_prefix("gguf.")?.strip_suffix("/1"));
    if let Some(blocks) = blocks {
        return blocks.to_uppercase();
    }
    let components = tensor.components.iter().flatten();
    let logical = components.filter_map(|(_, component)| component.logical.as_deref()).next();
    match logical.unwrap_or(&tensor.dtype) {
        "complex64" => "C64".to_owned(),
        "complex128" => "C128".to_owned(),
        "f8_e4m3fn" => "F8_E4M3".to_owned(),
        "f4_e2m1" => "F4".to_owned(),
        spelling => {
            let short = spelling.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i");
            short.to_uppercase()
        }
    }
}

/// The dtype of a name in full: `float32` is F32.
fn full_dtype(name: &str) -> String {
    match name {
        "complex64" => "C64".to_owned(),
        "complex128" => "C128".to_owned(),
        "float8_e4m3fn" => "F8_E4M3".to_owned(),
        "float8_e5m2" => "F8_E5M2".to_owned(),
        _ => {
            let short = name.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i");
            short.to_uppercase()
        }
    }
}

/// NumPy spells dtypes with their byte order, kind and number of bytes.
fn numpy_dtype(spelling: &str) -> String {
    let (kind, bytes) = spelling[1..].split_at(1);
    match kind {
        "b" => "BOOL".to_owned(),
        "V" => format!("V{bytes}"),
        _ => format!("{}{}", kind.to_uppercase(), 8 * bytes.parse::<u32>().unwrap()),
    }
}

/// PyTorch spells dtypes in full, with other names for 8-bit floats.
fn torch_dtype(spelling: &str) -> String {
    match spelling {
        "complex64" => "C64".to_owned(),
        "complex128" => "C128".to_owned(),
        "float8_e8m0fnu" => "F8_E8M0".to_owned(),
        _ if spelling.starts_with("float8") => {
            let short = spelling.replace("float8", "f8");
            short.strip_suffix("fn").unwrap_or(&short).to_uppercase()
        }
        _ => spelling
            .replace("bfloat", "bf")
            .replace("float", "f")
            .replace("uint", "u")
            .replace("int", "i")
            .to_uppercase(),
    }
}

/// ONNX spells types in full. 4-bit and 6-bit floats that do not fill whole bytes keep their name.
fn onnx_dtype(tensor: &ExpectedTensor) -> &str {
    let (name, fills_bytes) = (tensor.dtype.as_str(), tensor.shape.iter().product::<u64>().is_multiple_of(4));
    match name {
        "FLOAT" => "F32",
        "DOUBLE" => "F64",
        "FLOAT16" => "F16",
        "BFLOAT16" => "BF16",
        "COMPLEX64" => "C64",
        "COMPLEX128" => "C128",
        "FLOAT8E4M3FN" => "F8_E4M3",
        "FLOAT8E4M3FNUZ" => "F8_E4M3FNUZ",
        "FLOAT8E5M2" => "F8_E5M2",
        "FLOAT8E5M2FNUZ" => "F8_E5M2FNUZ",
        "FLOAT8E8M0" => "F8_E8M0",
        "FLOAT4E2M1" if fills_bytes => "F4",
        "FLOAT6E2M3" if fills_bytes => "F6_E2M3",
        "FLOAT6E3M2" if fills_bytes => "F6_E3M2",
        "INT64" => "I64",
        "INT32" => "I32",
        "INT16" => "I16",
        "INT8" => "I8",
        "UINT64" => "U64",
        "UINT32" => "U32",
        "UINT16" => "U16",
        "UINT8" => "U8",
        other => other,
    }
}

/// The numbers of files and tensors in INDEX.json, by folder, for the folders that exist. Checks the SHA-256 of each
/// file.
fn counts_in_index(fixtures: &[Fixture]) -> BTreeMap<&str, (usize, usize)> {
    let entries: Vec<Entry> = serde_json::from_slice(&fs::read(root().join("INDEX.json")).unwrap()).unwrap();
    let folders: BTreeSet<_> = fixtures.iter().map(Fixture::folder).collect();
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| folders.contains(folder_of(&entry.path))) {
        let fixture = fixtures.iter().find(|fixture| fixture.path == entry.path);
        let fixture = fixture.unwrap_or_else(|| panic!("{} is missing", entry.path));
        assert_eq!(sha256(fixture.bytes()), entry.sha256, "{}", entry.path);
        let (files, tensors) = counts.entry(fixture.folder()).or_default();
        (*files, *tensors) = (*files + 1, *tensors + entry.tensors);
    }
    counts
}

/// An entry of INDEX.json.
#[derive(Deserialize)]
struct Entry {
    path: String,
    sha256: String,
    tensors: usize,
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, expected {expected:?}"))
}
