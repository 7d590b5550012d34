//! Tests with blocks of the C library, blocks written by hand, and blocks of an encoder for any Huffman code.

mod encoder;
mod frames;

use super::*;
use frames::{Data, compare_with_c, compress, decode, decode_in_c, frame_of, split};
use proptest::prelude::*;

fn decode_one(block: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut decoded = vec![0; MAX_BLOCK_BYTES];
    match Literals::new().decode_block(block, &mut decoded)? {
        Outcome::Decoded(length) => Ok(decoded[..length].to_vec()),
        Outcome::HasSequences => panic!("no block of these has sequences"),
    }
}

#[test]
fn decodes_what_the_c_library_compresses() {
    let lengths = (0..300).chain([511, 1023, 1024, 1025, 4000, 16_383, 16_384, 40_000, 131_071, 131_072, 300_000]);
    let mut kinds = [0; 4];
    for length in lengths {
        for data in Data::ALL {
            let data = data.bytes(length);
            let frame = compress(&data, MAX_BLOCK_BYTES);
            assert!(decode(&split(&frame)).unwrap() == data, "{length}");
            for block in split(&frame).iter().filter(|block| block[0] >> 1 & 3 == 2) {
                kinds[usize::from(block[3] & 3)] += 1;
            }
        }
    }
    assert!(kinds[2] > 500, "{kinds:?}");
}

#[test]
fn decodes_blocks_with_the_code_of_an_earlier_block() {
    let data = Data::Exponents.bytes(100_000);
    for block_bytes in [1 << 10, 5000, 40_000] {
        let frame = compress(&data, block_bytes);
        let blocks = split(&frame);
        assert!(blocks.iter().any(|block| block[0] >> 1 & 3 == 2 && block[3] & 3 == 3), "no treeless block");
        assert!(decode(&blocks).unwrap() == data);
        let treeless = blocks.iter().position(|block| block[3] & 3 == 3).unwrap();
        assert_eq!(decode_one(&blocks[treeless][3..]).unwrap_err().0, "a block without a Huffman code before it");

        let mut literals = Literals::new();
        let mut decoded = vec![0; MAX_BLOCK_BYTES];
        literals.decode_block(&blocks[0][3..], &mut decoded).unwrap();
        literals.reset();
        literals.decode_block(&blocks[treeless][3..], &mut decoded).unwrap_err();
    }
}

/// Raw literals and literals of one value, in all formats of their size.
#[test]
fn decodes_raw_and_repeated_literals() {
    for (length, format) in [(0, 0), (31, 0), (31, 2), (0, 1), (4095, 1), (0, 3), (70_000, 3), (MAX_BLOCK_BYTES, 3)] {
        let header = match format {
            0 | 2 => vec![(format << 2 | length << 3) as u8],
            1 => (format << 2 | length << 4).to_le_bytes()[..2].to_vec(),
            _ => (format << 2 | length << 4).to_le_bytes()[..3].to_vec(),
        };
        let data = Data::Uniform.bytes(length);
        let raw = [&header[..], &data, &[0]].concat();
        assert_eq!(decode_one(&raw).unwrap(), data);
        let repeated = [&[header[0] | 1], &header[1..], &[7, 0]].concat();
        assert_eq!(decode_one(&repeated).unwrap(), vec![7; length]);
        for block in [raw, repeated] {
            if block.len() < MAX_BLOCK_BYTES {
                compare_with_c(&frame_of(&[&block]));
            }
            decode_one(&block[..block.len() - 1]).unwrap_err();
            decode_one(&[&block[..], &[0]].concat()).unwrap_err();
            let mut small = vec![0; length.saturating_sub(1)];
            assert_eq!(Literals::new().decode_block(&block, &mut small).is_err(), length > 0);
        }
    }
    let too_long = (3 << 2 | (MAX_BLOCK_BYTES + 1) << 4 | 1).to_le_bytes();
    let mut decoded = vec![0; MAX_BLOCK_BYTES + 1];
    Literals::new().decode_block(&[too_long[0], too_long[1], too_long[2], 7, 0], &mut decoded).unwrap_err();
}

#[test]
fn reports_sequences_without_writing() {
    let block = [3 << 3, 1, 2, 3, 1, 0x54];
    let mut decoded = [9; 100];
    assert_eq!(Literals::new().decode_block(&block, &mut decoded).unwrap(), Outcome::HasSequences);
    assert_eq!(decoded, [9; 100]);
}

#[test]
fn every_truncation_is_an_error() {
    for data in [Data::Exponents, Data::TwoSymbols, Data::Skewed] {
        for length in [100, 700] {
            let frame = compress(&data.bytes(length), MAX_BLOCK_BYTES);
            let blocks = split(&frame);
            let block = &blocks[0][3..];
            assert_eq!(block[0] & 3, 2);
            for cut in 0..block.len() {
                // Where the number of sequences would be, a stream may have another byte.
                let mut decoded = vec![0; MAX_BLOCK_BYTES];
                let outcome = Literals::new().decode_block(&block[..cut], &mut decoded);
                assert!(!matches!(outcome, Ok(Outcome::Decoded(_))), "{cut}");
            }
        }
    }
}

#[test]
fn agrees_with_the_c_library_about_flipped_bits() {
    for (data, length, block_bytes) in [
        (Data::Exponents, 120, 1 << 17),
        (Data::Exponents, 2300, 1 << 10),
        (Data::Skewed, 600, 1 << 17),
        (Data::TwoSymbols, 300, 1 << 17),
        (Data::ManySymbols, 1500, 1 << 17),
        (Data::Flat, 1200, 1 << 17),
    ] {
        let frame = compress(&data.bytes(length), block_bytes);
        let contents: Vec<_> = split(&frame).into_iter().filter(|b| b[0] >> 1 & 3 == 2).map(|b| &b[3..]).collect();
        assert!(!contents.is_empty());
        for (number, content) in contents.iter().enumerate() {
            for bit in 0..content.len() * 8 {
                let mut flipped = content.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let mut contents = contents.clone();
                contents[number] = &flipped;
                compare_with_c(&frame_of(&contents));
            }
        }
    }
}

/// The C library also refuses these.
#[test]
fn refuses_malformed_codes() {
    let cases: [(&str, &[u8]); 8] = [
        ("no weights", &[0]),
        ("direct weights, all 0", &[129, 0x00, 1]),
        ("one symbol", &[127, 1]),
        ("a sum that nothing completes", &[129 + 2, 0x44, 0x11, 1]),
        ("no two longest codes", &[128, 0x20, 0b1010_1010]),
        ("a weight of 13", &[129, 0xd1, 1]),
        ("a distribution of 128 states", &[4, 0x02, 0xff, 0xff, 1, 1]),
        ("one state without bits", &[4, 0xf1, 0x03, 0xff, 0xff, 1]),
    ];
    for (name, content) in cases {
        let header = (2u32 | 1 << 4 | (content.len() as u32) << 14).to_le_bytes();
        let block = [&header[..3], content, &[0]].concat();
        decode_one(&block).expect_err(name);
        assert!(decode_in_c(&frame_of(&[&block])).is_err(), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn decodes_any_code(
        splits in proptest::collection::vec(any::<u16>(), 1..130),
        seed in any::<u64>(),
        length in prop_oneof![0usize..300, 0usize..30_000],
        is_one_stream in any::<bool>(),
    ) {
        let is_one_stream = is_one_stream && length < 1000 || length < MIN_FOUR_STREAMS_BYTES;
        let code = encoder::Code::new(&splits);
        let data = code.data(length, seed);
        let block = code.block(&data, is_one_stream);
        prop_assert!(decode_one(&block).unwrap() == data);
        compare_with_c(&frame_of(&[&block]));
    }

    #[test]
    fn no_bytes_crash(
        content in proptest::collection::vec(any::<u8>(), 0..300),
        literals in any::<u32>(),
        format in 0u32..4,
        kind in 0u32..4,
    ) {
        let mut state = Literals::new();
        let mut decoded = vec![0; MAX_BLOCK_BYTES];
        let first = compress(&Data::Exponents.bytes(500), MAX_BLOCK_BYTES);
        state.decode_block(&split(&first)[0][3..], &mut decoded).unwrap();
        state.decode_block(&content, &mut decoded).ok();
        // A header that agrees with the length.
        let (header_bytes, bits) = [(3, 10), (3, 10), (4, 14), (5, 18)][format as usize];
        let decoded_bytes = u64::from(literals) % (1 << bits);
        let header = u64::from(kind | format << 2) | decoded_bytes << 4 | (content.len() as u64) << (4 + bits);
        let block = [&header.to_le_bytes()[..header_bytes], &content, &[0]].concat();
        state.decode_block(&block, &mut decoded).ok();
        let first = split(&first)[0][3..].to_vec();
        if block.len() < MAX_BLOCK_BYTES {
            compare_with_c(&frame_of(&[&first, &block]));
        }
    }
}
