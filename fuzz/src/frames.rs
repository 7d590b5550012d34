//! Generates Zstandard frames with the C library and random parameters, and mutates them block by block.

use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ParamSwitch, Strategy};

/// The maximum size of the data. Longer frames are slower to decode and find no more.
const MAX_DATA_BYTES: usize = 300 << 10;

/// Mutates the first `size` bytes of `data` and returns the new size, at most `max_size`. Mutates them as a frame, or
/// calls `fuzzer` to mutate them as plain bytes.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    fuzzer: fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    match changed(&data[..size], seed) {
        Some(changed) if !changed.is_empty() && changed.len() <= max_size => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        _ => fuzzer(data, size, max_size),
    }
}

/// A mutated copy of `stored`. In most cases `None`, to use the fuzzer's own mutations.
fn changed(stored: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut random = Random::new(u64::from(seed));
    match random.below(24) {
        0 => Some(frame(&mut random)),
        1 => Some([stored, &frame(&mut random)].concat()),
        2 => Some([&skippable(&mut random), stored].concat()),
        3 => Some([stored, &skippable(&mut random)].concat()),
        4 => without_magic(stored),
        5..=8 => other_blocks(stored, &mut random),
        9..=10 => other_block_bytes(stored, &mut random),
        _ => None,
    }
}

/// A frame of random data, compressed with random parameters.
fn frame(random: &mut Random) -> Vec<u8> {
    let data = data(random);
    compressed(&data, random).unwrap_or_default()
}

/// Data with structures that a compressor uses: runs, near and far repetitions, few symbols, numbers and noise.
fn data(random: &mut Random) -> Vec<u8> {
    let length = 1usize << random.below(19);
    let length = (length + random.below(length)).min(MAX_DATA_BYTES);
    let mut data = Vec::with_capacity(length);
    while data.len() < length {
        let most = 2 << random.below(16);
        let part = 1 + random.below(most);
        match random.below(6) {
            0 => data.resize(data.len() + part, random.next() as u8),
            1 if !data.is_empty() => {
                let distance = 1 + random.below(data.len());
                (0..part).for_each(|_| data.push(data[data.len() - distance]));
            }
            2 => {
                let symbols = 1 + random.below(20);
                data.extend((0..part).map(|_| b'a' + random.below(symbols) as u8));
            }
            3 => data.extend((0..part / 4).flat_map(|_| (random.next() as u16 as f32 / 9e4).to_le_bytes())),
            4 => {
                let step = random.next();
                data.extend((0..part as u64 / 8).flat_map(|number| number.wrapping_mul(step).to_le_bytes()));
            }
            _ => data.extend((0..part).map(|_| random.next() as u8)),
        }
    }
    data.truncate(length);
    data
}

fn compressed(data: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut context = CCtx::create();
    let mut set = |parameter| context.set_parameter(parameter).ok();
    set(CParameter::CompressionLevel(random.below(27) as i32 - 7));
    // Small tables: allocating those of the highest levels takes longer than compressing the frame.
    for table in [CParameter::HashLog, CParameter::ChainLog] {
        set(table(6 + random.below(11) as u32));
    }
    set(CParameter::SearchLog(1 + random.below(4) as u32));
    set(CParameter::WindowLog(match random.below(8) {
        0 => 27,
        1 => 10,
        _ => 10 + random.below(12) as u32,
    }));
    if random.is_true() {
        set(CParameter::Strategy(STRATEGIES[random.below(STRATEGIES.len())]));
        set(CParameter::MinMatch(3 + random.below(5) as u32));
        set(CParameter::TargetLength(random.below(200) as u32));
    }
    if random.below(4) == 0 {
        set(CParameter::EnableLongDistanceMatching(true));
        set(CParameter::LdmHashLog(6 + random.below(8) as u32));
        set(CParameter::LdmMinMatch(4 + random.below(60) as u32));
    }
    if random.below(4) == 0 {
        set(CParameter::TargetCBlockSize(1340 + random.below(5000) as u32));
    }
    if random.below(4) == 0 {
        set(CParameter::MaxBlockSize(1 << (10 + random.below(8))));
    }
    set(CParameter::LiteralCompressionMode(
        [ParamSwitch::Auto, ParamSwitch::Enable, ParamSwitch::Disable][random.below(3)],
    ));
    set(CParameter::UseBlockSplitter([ParamSwitch::Auto, ParamSwitch::Enable, ParamSwitch::Disable][random.below(3)]));
    if random.below(8) == 0 {
        // Literals only.
        set(CParameter::Strategy(Strategy::ZSTD_fast));
        set(CParameter::TargetLength(128 << 10));
        set(CParameter::LiteralCompressionMode(ParamSwitch::Enable));
    }
    set(CParameter::ContentSizeFlag(random.is_true()));
    set(CParameter::ChecksumFlag(random.below(8) == 0));
    if random.is_true() {
        context.set_pledged_src_size(Some(data.len() as u64)).ok()?;
    }
    let mut stored = vec![0; zstd::zstd_safe::compress_bound(data.len()) + 4096 + data.len()];
    let mut output = OutBuffer::around(&mut stored[..]);
    let mut rest = data;
    while !rest.is_empty() {
        let most = 256 << random.below(11);
        let (part, after) = rest.split_at((1 + random.below(most)).min(rest.len()));
        let mut input = InBuffer::around(part);
        while input.pos() < part.len() {
            context.compress_stream(&mut output, &mut input).ok()?;
        }
        if random.below(6) == 0 {
            context.flush_stream(&mut output).ok()?;
        }
        rest = after;
    }
    while context.end_stream(&mut output).ok()? > 0 {}
    let length = output.pos();
    stored.truncate(length);
    Some(stored)
}

const STRATEGIES: [Strategy; 9] = [
    Strategy::ZSTD_fast,
    Strategy::ZSTD_dfast,
    Strategy::ZSTD_greedy,
    Strategy::ZSTD_lazy,
    Strategy::ZSTD_lazy2,
    Strategy::ZSTD_btlazy2,
    Strategy::ZSTD_btopt,
    Strategy::ZSTD_btultra,
    Strategy::ZSTD_btultra2,
];

fn skippable(random: &mut Random) -> Vec<u8> {
    let length = random.below(20);
    let head = [0x50 + random.below(16) as u8, 0x2a, 0x4d, 0x18];
    let length_bytes = (length as u32).to_le_bytes();
    [&head[..], &length_bytes, &vec![7; length]].concat()
}

fn without_magic(stored: &[u8]) -> Option<Vec<u8>> {
    Some(stored.strip_prefix(&MAGIC)?.to_vec())
}

/// Removes, duplicates or swaps blocks, or inserts blocks of another frame, which then use the tables, literals and
/// window of their new neighbours.
fn other_blocks(stored: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let (header, mut blocks) = split(stored)?;
    let other = frame(random);
    let (other_header, others) = split(&other)?;
    let (at, from) = (random.below(blocks.len()), random.below(blocks.len()));
    let other = others[random.below(others.len())];
    let mut header = header;
    match random.below(6) {
        0 => drop(blocks.remove(at)),
        1 => blocks.insert(at, blocks[from]),
        2 => blocks.insert(at, other),
        3 => blocks[at] = other,
        4 => blocks.swap(at, from),
        _ => header = other_header,
    }
    let mut changed = header.to_vec();
    for (number, block) in blocks.iter().enumerate() {
        let start = changed.len();
        changed.extend_from_slice(block);
        // Sets the flag of the last block.
        changed[start] = changed[start] & !1 | u8::from(number + 1 == blocks.len());
    }
    Some(changed)
}

/// Changes a few bytes of one block near its start or end, where its tables and bit streams start.
fn other_block_bytes(stored: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let (header, blocks) = split(stored)?;
    let at = random.below(blocks.len());
    let start = header.len() + blocks[..at].iter().map(|block| block.len()).sum::<usize>();
    let length = blocks[at].len();
    let mut changed = stored.to_vec();
    for _ in 0..=random.below(3) {
        let reach = 1 << random.below(10);
        let near = random.below(length.min(reach));
        let position = start + if random.below(3) == 0 { length - 1 - near } else { near };
        match random.below(3) {
            0 => changed[position] ^= 1 << random.below(8),
            1 => changed[position] = random.next() as u8,
            _ => changed[position] = changed[position].wrapping_add(random.below(5) as u8).wrapping_sub(2),
        }
    }
    Some(changed)
}

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The header of the first frame and its blocks, each with its own header (RFC 8878, 3.1.1).
pub(crate) fn split(stored: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let descriptor = *stored.strip_prefix(&MAGIC)?.first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    let content_size_bytes = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        log => 1 << log,
    };
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let header_bytes = MAGIC.len() + 1 + usize::from(!is_single_segment) + dictionary_bytes + content_size_bytes;
    let (header, mut rest) = stored.split_at_checked(header_bytes)?;
    let mut blocks = Vec::new();
    while let Some(&[low, middle, high]) = rest.first_chunk::<3>() {
        let number = u32::from_le_bytes([low, middle, high, 0]);
        let content = if number >> 1 & 3 == 1 { 1 } else { number as usize >> 3 };
        let Some((block, after)) = rest.split_at_checked(3 + content) else { break };
        blocks.push(block);
        rest = after;
        if number & 1 != 0 {
            break;
        }
    }
    (!blocks.is_empty()).then_some((header, blocks))
}

/// A seeded random number generator (xorshift*).
struct Random(u64);

impl Random {
    /// Creates a generator from any seed.
    fn new(seed: u64) -> Self {
        Random((seed ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn is_true(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }
}
