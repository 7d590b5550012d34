//! Encodes with any Huffman code of up to 129 symbols.

/// The code of each symbol: its value and its length. A length of 0 means that the symbol does not occur.
pub(super) struct Code(Vec<(u64, u32)>);

impl Code {
    /// Makes a code: each number splits one of the codes into two that are one bit longer. High numbers split the
    /// longest codes, and lead to skewed codes.
    pub(super) fn new(splits: &[u16]) -> Self {
        let mut lengths = vec![0u32];
        for &split in splits {
            let mut at = usize::from(split) % lengths.len();
            if split > 0xc000 {
                at = lengths.len() - 1;
            }
            if lengths.len() < 129 && lengths[at] < 11 {
                lengths[at] += 1;
                lengths.push(lengths[at]);
            }
        }
        // Symbols without a code are put between the others.
        let gap = usize::from(splits[0]) % 3;
        let mut symbols: Vec<_> = lengths.iter().flat_map(|&length| [vec![0; gap], vec![length]].concat()).collect();
        symbols.drain(..symbols.len().saturating_sub(129));
        if symbols.iter().filter(|&&length| length > 0).count() < lengths.len() {
            symbols = lengths;
        }
        // The order of codes: from the longest, then that of the symbols.
        let longest = symbols.iter().copied().max().unwrap_or_default();
        let mut next = 0;
        let mut codes = vec![(0, 0); symbols.len()];
        for length in (1..=longest).rev() {
            for (code, _) in codes.iter_mut().zip(&symbols).filter(|&(_, &other)| other == length) {
                *code = (next >> (longest - length), length);
                next += 1 << (longest - length);
            }
        }
        Code(codes)
    }

    /// Random symbols. A shorter code is more probable.
    pub(super) fn data(&self, length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = state >> 53;
            let matches = |&(code, length): &(u64, u32)| length > 0 && bits >> (11 - length) == code;
            self.0.iter().position(matches).unwrap() as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn stream(&self, data: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &symbol in data.iter().rev() {
            let (code, length) = self.0[usize::from(symbol)];
            bits.extend((0..length).map(|bit| code >> bit & 1));
        }
        bits.push(1);
        bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | bit as u8)).collect()
    }

    /// A block of `data`, with weights that are not compressed.
    pub(super) fn block(&self, data: &[u8], is_one_stream: bool) -> Vec<u8> {
        let longest = self.0.iter().map(|&(_, length)| length).max().unwrap();
        let weight = |&(_, length): &(u64, u32)| if length == 0 { 0 } else { (longest + 1 - length) as u8 };
        let weights: Vec<u8> = self.0[..self.0.len() - 1].iter().map(weight).collect();
        let mut content = vec![127 + weights.len() as u8];
        content.extend(weights.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or_default()));
        if is_one_stream {
            content.extend(self.stream(data));
        } else {
            let quarter = data.len().div_ceil(4);
            let streams: Vec<_> = (0..4)
                .map(|i| self.stream(&data[(i * quarter).min(data.len())..((i + 1) * quarter).min(data.len())]))
                .collect();
            streams[..3].iter().for_each(|stream| content.extend((stream.len() as u16).to_le_bytes()));
            content.extend(streams.concat());
        }
        let size = data.len().max(content.len()) as u64;
        let (header_bytes, format, bits) = match size {
            _ if is_one_stream => (3, 0, 10),
            0..0x400 => (3, 1, 10),
            0x400..0x4000 => (4, 2, 14),
            _ => (5, 3, 18),
        };
        let header = 2 | format << 2 | (data.len() as u64) << 4 | (content.len() as u64) << (4 + bits);
        [&header.to_le_bytes()[..header_bytes], &content, &[0]].concat()
    }
}
