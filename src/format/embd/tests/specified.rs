//! Tests of the specification's layout.

use super::*;
use crate::algorithm::Algorithm;
use crate::dtype::Dtype;
use crate::format::embd::parts::MAX_TOKENS;
use crate::format::embd::specified::name_hash;
use crate::loader::TensorRequest;
use crate::native::Reader;
use serde_json::{Value, json};

/// Computes CRC-32/IEEE bit by bit.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The position of the special tokens, and the base of their offset.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    None,
    FirstAbsolute,
    FirstRelative,
    LastAbsolute,
    LastRelative,
}

/// A tensor's name, the hash of it, its dtype code, its shape, its bytes.
type Stored = (&'static str, u32, u8, Vec<u32>, Vec<u8>);

/// A file in the specification's layout.
pub(super) struct File {
    flags: u32,
    metadata: Vec<(&'static str, &'static str)>,
    tokens: Vec<&'static [u8]>,
    special: Special,
    tensors: Vec<Stored>,
    alignment: usize,
}

impl File {
    pub(super) fn new() -> Self {
        let tensors = vec![
            ("w", 0, vec![3, 2], (0..24).collect()),
            ("half", 1, vec![2], vec![1, 2, 3, 4]),
            ("bytes", 8, vec![5], vec![9; 5]),
        ];
        let tensors = tensors.into_iter().map(|(name, code, shape, bytes)| (name, fnv(name), code, shape, bytes));
        File {
            flags: 0b111,
            metadata: vec![("model_name", "tiny"), ("created_at", "2025-01-16T12:00:00Z")],
            tokens: vec![b"[PAD]", "##né".as_bytes(), b"", b"a"],
            special: Special::LastAbsolute,
            tensors: tensors.collect(),
            alignment: 64,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let metadata = self.metadata_section();
        let metadata_start = 64;
        let vocabulary_start = metadata_start + metadata.len();
        let vocabulary = self.vocabulary_section(vocabulary_start as u32);
        let index_start = vocabulary_start + vocabulary.len();
        let (index, data) = self.index_and_data();
        let data_start = (index_start + index.len()).next_multiple_of(self.alignment);
        let total = data_start + data.len() + 16;

        let mut file = b"EMBD\x01\0\0\0".to_vec();
        let sections = [metadata_start, metadata.len(), vocabulary_start, vocabulary.len(), index_start];
        let fields = [self.flags].into_iter().chain(sections.map(|field| field as u32));
        fields.chain([self.tensors.len() as u32, data_start as u32]).for_each(|field| file.extend(field.to_le_bytes()));
        file.extend((data.len() as u64).to_le_bytes());
        file.extend((total as u64).to_le_bytes());
        let checksum = if self.flags & 0b100 == 0 { 0 } else { crc32(&file) };
        file.extend(checksum.to_le_bytes());
        file.extend([0; 4]);
        file.extend([metadata, vocabulary, index].concat());
        file.resize(data_start, 0);
        file.extend(&data);
        let checksums = if self.flags & 0b100 == 0 { [0; 2] } else { [crc32(&data), crc32(&file)] };
        checksums.iter().for_each(|checksum| file.extend(checksum.to_le_bytes()));
        file.extend(b"DBME\0\0\0\0");
        file
    }

    fn metadata_section(&self) -> Vec<u8> {
        let mut entries = Vec::new();
        for (key, value) in &self.metadata {
            entries.extend((key.len() as u16).to_le_bytes());
            entries.extend((value.len() as u16).to_le_bytes());
            entries.extend([key.as_bytes(), value.as_bytes()].concat());
        }
        [&(self.metadata.len() as u32).to_le_bytes(), &(entries.len() as u32).to_le_bytes(), &entries[..]].concat()
    }

    fn vocabulary_section(&self, start: u32) -> Vec<u8> {
        let mut tokens = Vec::new();
        for token in &self.tokens {
            tokens.extend((token.len() as u16).to_le_bytes());
            tokens.extend(*token);
        }
        let ids: Vec<u8> = [0u32, 100, 101, 102, 103].iter().flat_map(|id| id.to_le_bytes()).collect();
        let last = 12 + tokens.len() as u32;
        let (offset, body) = match self.special {
            Special::None => (0, tokens.clone()),
            Special::FirstAbsolute => (start + 12, [ids, tokens.clone()].concat()),
            Special::FirstRelative => (12, [ids, tokens.clone()].concat()),
            Special::LastAbsolute => (start + last, [tokens.clone(), ids].concat()),
            Special::LastRelative => (last, [tokens.clone(), ids].concat()),
        };
        let fields = [self.tokens.len() as u32, tokens.len() as u32, offset];
        [fields.iter().flat_map(|field| field.to_le_bytes()).collect(), body].concat()
    }

    fn index_and_data(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut index, mut data) = (Vec::new(), Vec::new());
        for (name, hash, code, shape, bytes) in &self.tensors {
            data.resize(data.len().next_multiple_of(self.alignment), 0);
            index.extend(hash.to_le_bytes());
            index.extend([*code, shape.len() as u8]);
            index.extend((name.len() as u16).to_le_bytes());
            (0..4).for_each(|dim| index.extend(shape.get(dim).copied().unwrap_or(0).to_le_bytes()));
            index.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
        }
        self.tensors.iter().for_each(|(name, ..)| index.extend(name.as_bytes()));
        (index, data)
    }
}

fn fnv(name: &str) -> u32 {
    name.bytes().fold(2_166_136_261u64, |hash, byte| ((hash ^ u64::from(byte)) * 16_777_619) & 0xffff_ffff) as u32
}

/// Verifies all bytes through the loader, and checks that the native reader returns the same result.
fn verified(file: &[u8]) -> Result<Option<Algorithm>> {
    let streamed = block_on(loader(file).verify(Rc::new(())));
    let native = Reader::from_bytes(vec![("m.weights".to_owned(), file.to_vec())]).and_then(|r| r.verify(&()));
    assert_eq!(native.map(|_| ()).map_err(|e| e.kind), streamed.clone().map(|_| ()).map_err(|e| e.kind));
    streamed
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn reads_a_file_of_the_specification() {
    let index = parsed(&File::new().bytes()).unwrap();
    let expected = json!({
        "model_name": "tiny", "created_at": "2025-01-16T12:00:00Z",
        "vocabulary": {
            "tokens": ["[PAD]", "##né", "", "a"],
            "special_tokens": { "pad_id": 0, "unk_id": 100, "cls_id": 101, "sep_id": 102, "mask_id": 103 },
        },
    });
    assert_eq!(Value::Object(index.metadata), expected);
    assert_eq!((index.version.as_str(), index.warnings), ("1.0", vec![]));
    let file = File::new().bytes();
    for (name, _, _, shape, bytes) in File::new().tensors {
        let loaded = block_on(loader(&file).load_tensor(name, TensorRequest::default(), Rc::new(()))).unwrap();
        assert_eq!(loaded.components[0].buffer, bytes, "{name}");
        assert_eq!(loaded.shape, shape.iter().map(|dim| u64::from(*dim)).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn every_dtype_has_the_correct_size() {
    let sizes = [4, 2, 2, 4, 2, 1, 4, 2, 1];
    let mut file = File::new();
    let names = ["F32", "F16", "BF16", "I32", "I16", "I8", "U32", "U16", "U8"];
    let tensor = |code: usize| (names[code], fnv(names[code]), code as u8, vec![3], vec![7; 3 * sizes[code]]);
    file.tensors = (0..9).map(tensor).collect();
    for tensor in parsed(&file.bytes()).unwrap().tensors.to_vec() {
        assert_eq!(tensor.dtype.name(), tensor.name);
        assert_eq!(tensor.byte_length(), tensor.dtype.byte_length(3).unwrap());
    }
}

#[test]
fn finds_special_tokens_at_every_position() {
    use Special::{FirstAbsolute, FirstRelative, LastAbsolute, LastRelative};
    for special in [FirstAbsolute, FirstRelative, LastAbsolute, LastRelative, Special::None] {
        let index = parsed(&File { special, ..File::new() }.bytes()).unwrap();
        let vocabulary = &index.metadata["vocabulary"];
        assert_eq!(vocabulary["tokens"], json!(["[PAD]", "##né", "", "a"]));
        match special {
            Special::None => assert!(vocabulary.get("special_tokens").is_none()),
            _ => assert_eq!(vocabulary["special_tokens"]["mask_id"], 103),
        }
    }
}

#[test]
fn distinguishes_names_with_the_same_hash() {
    assert_eq!((name_hash(""), name_hash("a"), name_hash("foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
    assert_eq!(name_hash("costarring"), name_hash("liquid"));
    let mut file = File::new();
    file.tensors = ["costarring", "liquid"].map(|name| (name, fnv(name), 8, vec![1], vec![name.len() as u8])).into();
    let file = file.bytes();
    for name in ["costarring", "liquid"] {
        let loaded = block_on(loader(&file).load_tensor(name, TensorRequest::default(), Rc::new(()))).unwrap();
        assert_eq!(loaded.components[0].buffer, [name.len() as u8]);
    }
    assert!(parsed(&file).unwrap().warnings.is_empty());
}

#[test]
fn a_different_name_hash_is_only_a_warning() {
    let mut file = File::new();
    file.tensors[1].1 ^= 1;
    let warnings = parsed(&file.bytes()).unwrap().warnings;
    assert!(warnings[0].contains("1 tensors"), "{warnings:?}");
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn the_checksums_detect_damage_everywhere() {
    let file = File::new().bytes();
    assert_eq!(verified(&file), Ok(Some(Algorithm::Crc32)));
    let text = file.windows(4).position(|bytes| bytes == b"tiny").unwrap();
    let footer = file.len() - 16;
    for at in [text, footer - 1, footer, footer + 4] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert_eq!(verified(&damaged).unwrap_err().kind, ErrorKind::Checksum, "at {at}");
    }
    for at in 8..60 {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert_eq!(parsed(&damaged).unwrap_err().kind, ErrorKind::Checksum, "at {at}");
    }
    let mut damaged = file;
    damaged[footer + 8] ^= 1;
    let mut window = Window::new(Some(damaged.len() as u64));
    window.insert(0, &damaged);
    assert!(matches!(check_tail(&window), Err(Stop::Failed(e)) if e.kind == ErrorKind::Truncated));
}

#[test]
fn disabled_checksums_are_not_verified() {
    let file = File { flags: 0b011, ..File::new() }.bytes();
    assert_eq!(file[56..60], [0; 4]);
    assert_eq!(verified(&file), Ok(None));
}

#[test]
fn rejects_a_file_of_a_different_length() {
    let file = File::new().bytes();
    assert_eq!(parsed(&file[..file.len() - 1]).unwrap_err().kind, ErrorKind::Truncated);
    assert_eq!(parsed(&[&file[..], &[0]].concat()).unwrap_err().kind, ErrorKind::Format);
    assert_eq!(parsed(&file[..30]).unwrap_err().kind, ErrorKind::Checksum);
}

#[test]
fn an_unknown_dtype_extends_to_the_next_tensor_or_the_end() {
    let mut file = File { alignment: 4, ..File::new() };
    file.tensors[0].2 = 77;
    file.tensors[2].2 = 78;
    let found: Vec<_> =
        parsed(&file.bytes()).unwrap().tensors.iter().map(|t| (t.dtype.clone(), t.byte_length())).collect();
    let other = |name: &str| Dtype::Other(name.into());
    assert_eq!(found, [(other("EMBD_77"), Some(24)), (Dtype::F16, Some(4)), (other("EMBD_78"), Some(5))]);
}

/// Overwrites a field of the header, and updates the checksum.
fn forge(at: usize, value: &[u8]) -> Vec<u8> {
    let mut file = File::new().bytes();
    file[at..at + value.len()].copy_from_slice(value);
    let checksum = crc32(&file[..56]);
    file[56..60].copy_from_slice(&checksum.to_le_bytes());
    file
}

#[test]
fn rejects_invalid_files() {
    let refused = |file: &[u8], kind: ErrorKind, what: &str| {
        let error = parsed(file).unwrap_err();
        assert!(error.kind == kind && error.what.contains(what), "{error}");
    };
    use ErrorKind::{Format, Limit, Truncated, Unsupported};
    refused(&forge(4, &[2, 0]), Unsupported, "version 2.0");
    refused(&forge(8, &[15]), Unsupported, "compressed");
    refused(&forge(16, &[255; 4]), Format, "not between");
    refused(&forge(20, &[1, 0, 0, 0]), Format, "not between");
    refused(&forge(32, &[255; 4]), Format, "not between");
    refused(&forge(40, &[255; 8]), Format, "do not fit");
    refused(&forge(48, &[0; 8]), Format, "has");
    refused(&forge(48, &[255; 8]), Truncated, "states 18446744073709551615 bytes");
    let mut long = File::new().bytes();
    long[36..40].copy_from_slice(&(100u32 << 20).to_le_bytes());
    long[48..56].copy_from_slice(&(200u64 << 20).to_le_bytes());
    let checksum = crc32(&long[..56]);
    let mut window = Window::new(Some(200 << 20));
    window.insert(0, &[&long[..56], &checksum.to_le_bytes(), &[0; 4]].concat());
    assert!(matches!(parse(&window), Err(Stop::Failed(e)) if e.kind == Limit && e.what.contains("precede the data")));

    let twice = File { metadata: vec![("a", "1"), ("a", "2")], ..File::new() };
    refused(&twice.bytes(), Format, "\"a\" twice");
    let mut file = File::new();
    file.tensors[0].3 = vec![u32::MAX; 4];
    refused(&file.bytes(), Format, "2^64");
    file.tensors[0].3 = vec![1000, 1000];
    refused(&file.bytes(), Truncated, "end at");
    file.tensors[0].3 = vec![1; 5];
    refused(&file.bytes(), Format, "5 dimensions");

    let vocabulary = File::new().bytes().windows(4).position(|bytes| bytes == b"[PAD").unwrap() - 14;
    let with = |at: usize, value: u32| {
        let mut file = File::new().bytes();
        file[vocabulary + at..][..4].copy_from_slice(&value.to_le_bytes());
        file
    };
    refused(&with(0, MAX_TOKENS + 1), Limit, "tokens");
    refused(&with(0, MAX_TOKENS), Format, "the vocabulary ends");
    refused(&with(8, 5), Format, "special tokens at 5");
}
