#![allow(clippy::panic, reason = "a test")]

use super::parse::parse;
use crate::error::{ErrorKind, Result};
use crate::index::{Encoding, Index, Parsed, Tensor};
use crate::loader::{Loader, Options};
use crate::native::Reader;
use crate::source::memory::MemorySource;
use crate::window::{Stop, Window};
use futures::executor::block_on;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

/// Writes the parts of a GGUF file.
struct Writer {
    bytes: Vec<u8>,
    version: u32,
    big_endian: bool,
}

impl Writer {
    fn new(version: u32, big_endian: bool, tensors: u64, pairs: u64) -> Self {
        let mut writer = Writer { bytes: b"GGUF".to_vec(), version, big_endian };
        writer.u32(version).count(tensors).count(pairs);
        writer
    }

    fn number(&mut self, little_endian: &[u8]) -> &mut Self {
        let mut bytes = little_endian.to_vec();
        if self.big_endian {
            bytes.reverse();
        }
        self.bytes.extend(bytes);
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.number(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.number(&value.to_le_bytes())
    }

    fn count(&mut self, value: u64) -> &mut Self {
        if self.version == 1 { self.u32(value as u32) } else { self.u64(value) }
    }

    fn string(&mut self, text: &[u8]) -> &mut Self {
        self.count(text.len() as u64).bytes.extend(text);
        self
    }

    fn pair(&mut self, key: &str, kind: u32) -> &mut Self {
        self.string(key.as_bytes()).u32(kind)
    }

    fn info(&mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> &mut Self {
        self.string(name.as_bytes()).u32(dims.len() as u32);
        for &dim in dims {
            self.count(dim);
        }
        self.u32(kind).u64(offset)
    }

    fn data(&mut self, alignment: usize, data: &[u8]) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
        self.bytes.extend(data);
        self.bytes.clone()
    }
}

fn parsed(file: &[u8]) -> Result<Index> {
    match parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Ok(other) => panic!("{other:?}"),
        Err(Stop::Failed(error)) => Err(error),
        Err(stop) => panic!("a whole file needs more: {stop:?}"),
    }
}

#[test]
fn metadata_keeps_its_types_in_every_version_and_byte_order() {
    for (version, big_endian) in [(1, false), (2, false), (3, false), (3, true)] {
        let mut writer = Writer::new(version, big_endian, 0, 8);
        writer.pair("u64", 10).u64(u64::MAX);
        writer.pair("i64", 11).u64(i64::MIN.cast_unsigned());
        writer.pair("i8", 1).number(&[0x80]);
        writer.pair("f32", 6).u32(0.1f32.to_bits());
        writer.pair("nan", 12).u64(f64::NAN.to_bits());
        writer.pair("bool", 7).number(&[1]);
        writer.pair("text", 8).string("naïve ✓".as_bytes());
        writer.pair("nested", 9).u32(9).count(2);
        writer.u32(3).count(2).number(&(-2i16).to_le_bytes()).number(&7i16.to_le_bytes());
        writer.u32(8).count(1).string(b"a");
        let index = parsed(&writer.bytes).unwrap();
        let expected = json!({
            "u64": u64::MAX, "i64": i64::MIN, "i8": -128, "f32": f64::from(0.1f32), "nan": "NaN", "bool": true,
            "text": "naïve ✓", "nested": [[-2, 7], ["a"]],
        });
        assert_eq!(Value::Object(index.metadata), expected);
        assert_eq!(index.version, version.to_string());
        assert!(index.warnings.is_empty());
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn long_arrays_are_the_same_in_every_version_and_byte_order() {
    const COUNT: u32 = 2000;
    let numbers = |writer: &mut Writer, key: &str, kind, number: &dyn Fn(u32) -> u32| {
        writer.pair(key, 9).u32(kind).count(COUNT.into());
        for i in 0..COUNT {
            writer.u32(number(i));
        }
    };
    for (version, big_endian) in [(1, false), (2, false), (3, false), (3, true)] {
        let mut writer = Writer::new(version, big_endian, 0, 5);
        numbers(&mut writer, "u32", 4, &|i| u32::MAX - i);
        numbers(&mut writer, "i32", 5, &|i| (i.cast_signed() - 7).cast_unsigned());
        numbers(&mut writer, "f32", 6, &|i| (i as f32 / -3.0).to_bits());
        numbers(&mut writer, "infinite", 6, &|i| (1.0 / i as f32).to_bits());
        writer.pair("text", 9).u32(8).count(COUNT.into());
        for i in 0..COUNT {
            writer.string(if i % 2 == 0 { b"na\xc3\xafve" } else { b"\xff" });
        }
        let index = parsed(&writer.bytes).unwrap();
        assert_eq!(index.long_arrays.len(), 4, "an array with an infinite number is converted to JSON");
        let metadata = index.whole_metadata();
        assert!(metadata.keys().eq(["u32", "i32", "f32", "infinite", "text"]));
        for i in 0..COUNT as usize {
            assert_eq!(metadata["u32"][i], u32::MAX - i as u32);
            assert_eq!(metadata["i32"][i], i as i32 - 7);
            assert_eq!(metadata["f32"][i], f64::from(i as f32 / -3.0));
            assert_eq!(metadata["text"][i], ["naïve", "\u{fffd}"][i % 2]);
        }
        assert_eq!((&metadata["infinite"][0], &metadata["infinite"][2]), (&json!("inf"), &json!(0.5)));
        assert_eq!(index.warnings.len(), 1);
    }
}

#[test]
fn an_unknown_type_extends_to_the_next_tensor_or_the_end() {
    let mut writer = Writer::new(3, false, 3, 0);
    writer.info("last", &[9, 3], 200, 96).info("first", &[5], 201, 0).info("known", &[32], 8, 32);
    let file = writer.data(32, &[7; 120]);
    let index = parsed(&file).unwrap();
    let tensors = index.tensors.to_vec();
    let found: Vec<_> = tensors.iter().map(|t| (t.name.as_str(), t.dtype.name(), t.stored_length())).collect();
    assert_eq!(found, [("first", "GGML_201", 32), ("known", "Q8_0", 34), ("last", "GGML_200", 24)]);
    assert_eq!(index.tensors.to_vec()[2].shape, [3, 9]);
    // Without the length of the file, the end of the last tensor is unknown.
    let mut window = Window::new(None);
    window.insert(0, &file);
    assert!(matches!(parse(&window), Err(Stop::Failed(e)) if e.kind == ErrorKind::Unsupported));
}

#[test]
fn removed_types_have_the_length_of_their_blocks() {
    let removed = [31, 32, 33, 36, 37, 38];
    let mut writer = Writer::new(3, false, 7, 0);
    for (at, number) in removed.into_iter().enumerate() {
        writer.info(&format!("t{number}"), &[64, 4], number, at as u64 * 160);
    }
    let file = writer.info("q2", &[64], 42, 960).data(32, &[7; 978]);
    let index = parsed(&file).unwrap();
    let found: Vec<_> = index.tensors.iter().map(|t| (t.dtype.to_string(), t.stored_length())).collect();
    let names = ["Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8"];
    let expected: Vec<_> = names.iter().map(|name| ((*name).to_owned(), 144)).collect();
    assert_eq!(found[..6], expected);
    assert_eq!(found[6], ("Q2_0".to_owned(), 18));
    assert_eq!(index.warnings, ["ggml refuses 6 tensors, the first of them \"t31\": ggml has removed its type"]);
}

#[test]
fn what_ggml_refuses_is_a_warning() {
    let long = "n".repeat(64);
    let mut writer = Writer::new(3, false, 6, 0);
    writer.info("six", &[1; 6], 0, 0).info("rows", &[16, 2], 8, 32).info(&long, &[1], 24, 96);
    let file =
        writer.info("gap", &[1], 24, 160).info("next", &[1], 24, 192).info("x", &[1], 200, 224).data(32, &[0; 256]);
    let index = parsed(&file).unwrap();
    let warning = |first: &str, why: &str| format!("ggml refuses 1 tensor, the first of them \"{first}\": {why}");
    let expected = [
        warning("x", "its type is unknown, and its length may include padding"),
        warning("six", "it has more than 4 dimensions"),
        warning("rows", "its rows are not whole blocks"),
        warning(&long, "its name has more than 63 bytes"),
        warning("gap", "its offset is not the end of the tensor before it"),
    ];
    assert_eq!(index.warnings, expected);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn a_head_may_have_250000_tensors() {
    const COUNT: u64 = 250_000;
    let mut writer = Writer::new(3, false, COUNT, 0);
    (0..COUNT).for_each(|at| _ = writer.info(&format!("t{at}"), &[1], 24, at * 32));
    let file = writer.data(32, &vec![0; COUNT as usize * 32]);
    assert_eq!(parsed(&file).unwrap().tensors.len(), COUNT as usize);
}

#[test]
fn an_empty_tensor_of_an_unknown_type_does_not_overlap_the_next() {
    let mut writer = Writer::new(3, false, 3, 0);
    writer.info("none", &[0], 200, 0).info("nor here", &[4, 0], 200, 0).info("some", &[9], 200, 0);
    let index = parsed(&writer.data(32, &[7; 24])).unwrap();
    let tensors = index.tensors.to_vec();
    let found: Vec<_> = tensors.iter().map(|t| (t.name.as_str(), t.stored_length())).collect();
    assert_eq!(found, [("none", 0), ("nor here", 0), ("some", 24)]);
}

#[test]
fn big_endian_blocks_load_as_stored_under_their_own_dtype() {
    let mut writer = Writer::new(3, true, 2, 0);
    writer.info("q", &[32], 8, 0).info("x", &[2], 1, 64);
    let file = writer.data(32, &[&[1; 64][..], &[0x3c, 0, 0xbc, 0]].concat());
    let index = parsed(&file).unwrap();
    let tensors = index.tensors.to_vec();
    let [q, x] = tensors.as_slice() else { panic!("{tensors:?}") };
    assert_eq!((q.dtype.name(), q.stored_length(), q.components[0].encoding), ("Q8_0_BE", 34, Encoding::Raw));
    assert_eq!((x.dtype.name(), x.components[0].encoding), ("F16", Encoding::BigEndian));
}

#[test]
fn tensors_begin_at_the_stated_alignment() {
    let mut writer = Writer::new(2, false, 1, 1);
    writer.pair("general.alignment", 4).u32(8);
    writer.info("a", &[2], 24, 8);
    let file = writer.data(8, &[0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    let range = parsed(&file).unwrap().tensors.to_vec()[0].components[0].range.clone();
    assert_eq!(&file[range.start as usize..range.end as usize], [1, 2]);

    let mut writer = Writer::new(2, false, 0, 1);
    writer.pair("general.alignment", 4).u32(48);
    assert!(parsed(&writer.bytes).unwrap_err().what.contains("48, not a power of two"));
}

#[test]
fn a_file_without_tensors_need_not_be_padded() {
    assert!(parsed(&Writer::new(3, false, 0, 0).bytes).unwrap().tensors.is_empty());
}

#[test]
fn tokens_that_are_not_utf8_are_only_a_warning() {
    let mut writer = Writer::new(3, false, 0, 1);
    writer.pair("tokens", 9).u32(8).count(2).string(b"\xff").string(b"ok");
    let index = parsed(&writer.bytes).unwrap();
    assert_eq!(index.metadata["tokens"], json!(["\u{fffd}", "ok"]));
    assert_eq!(index.warnings.len(), 1);
}

#[test]
fn rejects_invalid_counts_before_allocating_memory() {
    let refused = |kind: ErrorKind, writer: &mut Writer| {
        let error = parsed(&writer.bytes).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    };
    use ErrorKind::{Limit, Truncated};
    refused(Limit, &mut Writer::new(3, false, u64::MAX, 0));
    refused(Limit, &mut Writer::new(3, false, 0, u64::MAX));
    refused(Limit, Writer::new(3, false, 1, 0).count(u64::MAX).u64(0).u64(0));
    refused(Limit, Writer::new(3, false, 0, 1).pair("a", 8).count(u64::MAX));
    refused(Limit, Writer::new(3, false, 0, 1).pair("a", 9).u32(0).count(1 << 40));
    refused(Truncated, &mut Writer::new(3, false, 1 << 20, 0));
    refused(Truncated, &mut Writer::new(3, false, 0, 1 << 20));
    refused(Truncated, Writer::new(3, false, 0, 1).pair("a", 9).u32(8).count(1 << 20));
    refused(Truncated, Writer::new(3, false, 0, 1).pair("a", 9).u32(12).count(1 << 20));
}

#[test]
fn rejects_invalid_heads() {
    let refused = |writer: &mut Writer, what: &str| {
        let error = parsed(&writer.data(32, &[0; 64])).unwrap_err();
        assert!(error.kind == ErrorKind::Format && error.what.contains(what), "{error}");
    };
    refused(Writer::new(3, false, 0, 2).pair("a", 0).number(&[1]).pair("a", 0).number(&[1]), "\"a\" twice");
    refused(Writer::new(3, false, 0, 1).pair("a", 13), "type 13");
    refused(Writer::new(3, false, 0, 1).pair("a", 9).u32(13).count(0), "type 13");
    refused(Writer::new(3, false, 1, 0).info("a", &[1; 65], 0, 0), "65 dimensions");
    refused(Writer::new(3, false, 2, 0).info("a", &[4], 0, 0).info("a", &[4], 0, 32), "occurs twice");
    refused(Writer::new(3, false, 2, 0).info("a", &[4], 0, 0).info("b", &[4], 0, 8), "overlap");
    refused(Writer::new(3, false, 1, 0).info("a", &[u64::MAX, 2], 0, 0), "2^64");
    refused(Writer::new(3, false, 1, 0).info("a", &[31], 8, 0), "whole blocks");
    refused(Writer::new(3, false, 1, 0).info("a", &[1], 0, u64::MAX), "u64");
    refused(
        Writer::new(3, false, 0, 2).pair("split.no", 2).number(&[3, 0]).pair("split.count", 2).number(&[3, 0]),
        "3 of 3",
    );
    let mut nested = Writer::new(3, false, 0, 1);
    nested.pair("a", 9);
    for _ in 0..1000 {
        nested.u32(9).count(1);
    }
    refused(&mut nested, "nested");
}

/// Builds a file with a realistic head: a vocabulary of 150,000 tokens, with their scores, types and merges.
fn with_vocabulary() -> Vec<u8> {
    let mut writer = Writer::new(3, false, 1, 4);
    writer.pair("tokenizer.ggml.tokens", 9).u32(8).count(150_000);
    for token in 0..150_000 {
        writer.string(format!("token {token}").as_bytes());
    }
    writer.pair("tokenizer.ggml.scores", 9).u32(6).count(150_000);
    for token in 0..150_000 {
        writer.u32((token as f32).to_bits());
    }
    writer.pair("tokenizer.ggml.token_type", 9).u32(5).count(150_000);
    for _ in 0..150_000 {
        writer.u32(1);
    }
    writer.pair("tokenizer.ggml.merges", 9).u32(8).count(150_000);
    for merge in 0..150_000 {
        writer.string(format!("left {merge} right").as_bytes());
    }
    writer.info("weight", &[4], 0, 0).data(32, &[0; 16])
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn a_large_vocabulary_takes_few_round_trips_and_is_rarely_reparsed() {
    let file = with_vocabulary();
    let length = file.len() as u64;
    let (mut window, mut parsed_bytes, mut stops) = (Window::new(Some(length)), 0, 0);
    window.insert(0, &file[..64 << 10]); // what the engine reads first
    let index = loop {
        parsed_bytes += window.known_prefix();
        match parse(&window) {
            Ok(Parsed::File(index)) => break index,
            Err(Stop::Need(range)) => window.insert(range.start, &file[range.start as usize..range.end as usize]),
            other => panic!("{other:?}"),
        }
        stops += 1;
    };
    let metadata = index.whole_metadata();
    assert_eq!(metadata["tokenizer.ggml.tokens"][149_999], "token 149999");
    assert_eq!(metadata["tokenizer.ggml.scores"][149_999], 149_999.0);
    assert_eq!(metadata["tokenizer.ggml.token_type"], json!(vec![1; 150_000]));
    assert!(length > 7 << 20 && stops <= 4, "{stops} round trips for {length} bytes");
    assert!(parsed_bytes <= 3 * length, "{parsed_bytes} bytes parsed of {length}");
}

fn part(number: u16, count: u16, tensors: u32, names: &[&str]) -> Rc<[u8]> {
    let mut writer = Writer::new(3, false, names.len() as u64, 3);
    writer.pair("split.no", 2).number(&number.to_le_bytes()).pair("split.count", 2).number(&count.to_le_bytes());
    writer.pair("split.tensors.count", 5).u32(tensors);
    for (at, name) in names.iter().enumerate() {
        writer.info(name, &[1], 24, at as u64 * 32);
    }
    writer.data(32, &vec![number as u8; names.len() * 32]).into()
}

/// Returns the names of a model's tensors and their parts. Checks that the loader and the native reader agree.
fn open(files: Vec<(&str, Rc<[u8]>)>) -> Result<Vec<(String, usize)>> {
    let in_memory = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    let native = Reader::from_bytes(in_memory).map(|reader| list(reader.tensors()));
    let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let streamed = block_on(async {
        let loader = Loader::open(MemorySource::new(files)?, Options::default()).await?;
        loader.load_index().await.map(|index| list(index.to_vec().iter().map(Arc::as_ref)))
    });
    match (&native, &streamed) {
        (Err(native), Err(streamed)) => assert_eq!(native.kind, streamed.kind),
        _ => assert_eq!(native, streamed),
    }
    streamed
}

fn list<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Vec<(String, usize)> {
    tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor.shard)).collect()
}

#[test]
fn any_part_of_a_split_model_opens_all_of_it() {
    let files = [
        ("m-00001-of-00003.gguf", part(0, 3, 4, &["a", "b"])),
        ("m-00002-of-00003.gguf", part(1, 3, 4, &["c"])),
        ("m-00003-of-00003.gguf", part(2, 3, 4, &["d"])),
    ];
    for first in 0..3 {
        let mut files = files.to_vec();
        files.swap(0, first);
        let expected = [("a", 0), ("b", 0), ("c", 1), ("d", 2)].map(|(name, shard)| (name.to_owned(), shard));
        assert_eq!(open(files), Ok(expected.to_vec()));
    }
}

#[test]
fn rejects_parts_of_different_models() {
    let first = ("m-00001-of-00002.gguf", part(0, 2, 3, &["a", "b"]));
    let refused = |second: Rc<[u8]>| open(vec![first.clone(), ("m-00002-of-00002.gguf", second)]).unwrap_err().what;
    assert!(refused(part(0, 2, 3, &["c"])).contains("part 1 of 2, not 2 of 2"));
    assert!(refused(part(1, 2, 3, &["c", "d"])).contains("3 tensors, but contain 4"));
    assert!(refused(part(1, 2, 3, &["a"])).contains("two files"));
    assert!(refused(Writer::new(3, false, 0, 0).bytes.clone().into()).contains("not state that it is part"));
    let missing = open(vec![first]).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
}
