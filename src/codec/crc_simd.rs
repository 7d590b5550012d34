//! CRC-32 without tables, for where the processor has vectors but no instruction for CRCs: WebAssembly.
//!
//! A CRC is the remainder of the message, a polynomial over GF(2), by a generator P. Adding a multiple of P to the
//! message leaves the remainder as it is. So the first lane of 16 bytes can be taken away by adding it, shifted, times
//! a multiple Q of P whose highest term meets it: it comes back in a few later lanes instead, one for each other term
//! of Q. Lane after lane, all but the last `N` of them go, where `y^N` is the highest term of Q(y) and y = x^128 stands
//! for a lane. What a lane holds when its turn comes is
//!
//! ```text
//! s[i] = data[i] ^ s[i - o1] ^ s[i - o2] ^ … ^ s[i - N]        for Q(y) = y^N + y^(N - o1) + y^(N - o2) + … + 1
//! ```
//!
//! and only the last N lanes need a table. That Q(x^128) is a multiple of P follows from Q(x) being one: squaring is
//! linear over GF(2), Q(x)^2 = Q(x^2), and so Q(x^128) = Q(x)^128. The tests compute that P divides these:
//!
//! ```text
//! CRC-32/IEEE  x^300 + x^155 + x^117 + x^89 + 1         the only one of five terms up to x^399
//! CRC-32C      x^209 + x^144 + x^54 + x^39 + x^14 + 1   the shortest of six; there is none of five, as x + 1 divides P
//! ```
//!
//! Short multiples keep what is looked back at in the processor's first cache. The idea is that of Chorba. The loops
//! are over plain bytes and the compiler makes vectors of them: 14 and 10 GB/s in V8, where the tables reach 2.7 and
//! 2.0 in the same run.

/// The bytes of a lane: those of a vector, so that each vector is read back just as it was written.
const LANE_BYTES: usize = 16;

/// Lanes to look back, from the nearest to N.
const CRC32_LANES_BACK: [usize; 4] = [145, 183, 211, 300];
#[cfg(feature = "crc32c")]
const CRC32C_LANES_BACK: [usize; 5] = [65, 155, 170, 195, 209];

/// Of `s`: the lanes that are looked back at, and those of one block. More than this finds no room in the first cache
/// beside the data; with less, the lanes behind a block are moved to its front too often.
const SUMS_BYTES: usize = 1170 * LANE_BYTES;

/// For less than this the tables are as fast.
const LEAST_BYTES: usize = 12 << 10;

/// The CRC-32/IEEE of bytes that begin with those of `crc`, and go on with `bytes`.
pub fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    append(CRC32_LANES_BACK, crc, bytes, super::crc32::append_by_table)
}

/// The same of CRC-32C.
#[cfg(feature = "crc32c")]
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    append(CRC32C_LANES_BACK, crc, bytes, crc32c::crc32c_append)
}

fn append<const TERMS: usize>(
    lanes_back: [usize; TERMS],
    crc: u32,
    bytes: &[u8],
    table: impl Fn(u32, &[u8]) -> u32,
) -> u32 {
    let reduced = if bytes.len() < LEAST_BYTES { None } else { reduce(lanes_back, !crc, bytes) };
    match reduced {
        // CRCs are inverted at both ends: this begins with an empty register.
        Some((lanes, rest)) => table(table(!0, &lanes), rest),
        None => table(crc, bytes),
    }
}

/// The N lanes that have, with the rest behind them and an empty register, the CRC of `bytes` with `register`.
/// `None` where there are no more than N.
fn reduce<const TERMS: usize>(lanes_back: [usize; TERMS], register: u32, bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let back = lanes_back.map(|lanes| lanes * LANE_BYTES);
    let (step, window) = (*back.first()?, *back.last()?);
    let taken = bytes.len().checked_sub(window)? / LANE_BYTES * LANE_BYTES;
    let (taken, rest) = bytes.split_at_checked(taken)?;
    let (last, rest) = rest.split_at_checked(window)?;

    let mut sums = [0; SUMS_BYTES];
    // A register is added to the first bytes. Only lane 0 looks back as far as here.
    sums.first_chunk_mut::<4>()?.copy_from_slice(&register.to_le_bytes());
    for block in taken.chunks(SUMS_BYTES - window) {
        let mut at = window;
        // None of so many lanes looks back at another of them.
        for data in block.chunks(step) {
            let (before, after) = sums.split_at_mut_checked(at)?;
            let mut earlier = [&*before; TERMS];
            for (earlier, back) in earlier.iter_mut().zip(back) {
                *earlier = before.get(at - back..)?.get(..data.len())?;
            }
            add(after.get_mut(..data.len())?, data, earlier);
            at += data.len();
        }
        sums.copy_within(at - window..at, 0);
    }

    let mut last = last.to_vec();
    let sums = sums.get(..window)?;
    for back in back {
        for (byte, sum) in last.iter_mut().zip(sums.get(window - back..)?) {
            *byte ^= sum;
        }
    }
    Some((last, rest))
}

/// All slices are of one length, of whole lanes: four lanes at a time, then the rest one by one.
#[inline(always)]
fn add<const TERMS: usize>(sums: &mut [u8], data: &[u8], earlier: [&[u8]; TERMS]) {
    const AT_ONCE: usize = 4 * LANE_BYTES;
    let many = data.len() / AT_ONCE * AT_ONCE;
    let (Some((sums, last_sums)), Some((data, last_data))) =
        (sums.split_at_mut_checked(many), data.split_at_checked(many))
    else {
        return;
    };
    let last_earlier = earlier.map(|slice| slice.get(many..).unwrap_or_default());
    add_chunks::<AT_ONCE, TERMS>(sums, data, earlier);
    add_chunks::<LANE_BYTES, TERMS>(last_sums, last_data, last_earlier);
}

/// A chunk is read whole from everywhere before its sum is written, so that the compiler needs no proof that the sums
/// are not what is read: it makes vectors of each.
#[inline(always)]
fn add_chunks<const BYTES: usize, const TERMS: usize>(sums: &mut [u8], data: &[u8], earlier: [&[u8]; TERMS]) {
    let mut earlier = earlier.map(|slice| slice.as_chunks::<BYTES>().0.iter());
    for (sum, data) in sums.as_chunks_mut::<BYTES>().0.iter_mut().zip(data.as_chunks::<BYTES>().0) {
        let mut lanes = *data;
        for earlier in &mut earlier {
            let Some(earlier) = earlier.next() else { return };
            for (byte, earlier) in lanes.iter_mut().zip(earlier) {
                *byte ^= earlier;
            }
        }
        *sum = lanes;
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// x^n modulo the generator, whose x^32 is left out.
    fn power(generator: u32, n: usize) -> u32 {
        (0..n).fold(1, |power, _| (power << 1) ^ if power >> 31 == 1 { generator } else { 0 })
    }

    #[test]
    fn the_generators_divide_the_sparse_polynomials() {
        for (generator, lanes_back) in [(0x04c1_1db7, &CRC32_LANES_BACK[..]), (0x1edc_6f41, &CRC32C_LANES_BACK[..])] {
            let n = lanes_back[lanes_back.len() - 1];
            let remainder = lanes_back.iter().fold(power(generator, n), |sum, back| sum ^ power(generator, n - back));
            assert_eq!(remainder, 0, "{generator:x}");
            assert!(lanes_back.is_sorted());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn gives_what_tables_give_for_any_bytes_and_any_cuts(
            seed in any::<u64>(),
            length in 0usize..90_000,
            cuts in proptest::collection::vec(0usize..40_000, 0..4),
        ) {
            let mut state = seed | 1;
            let data: Vec<u8> = (0..length).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            }).collect();
            let (mut ieee, mut castagnoli, mut rest) = (0, 0, &data[..]);
            for cut in cuts.into_iter().chain([length]) {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                (ieee, castagnoli) = (crc32(ieee, piece), crc32c(castagnoli, piece));
                rest = after;
            }
            prop_assert_eq!(ieee, crc32fast::hash(&data));
            prop_assert_eq!(castagnoli, crc32c::crc32c(&data));
        }
    }

    /// Around the lengths at which blocks, steps and lanes end.
    #[test]
    fn gives_what_tables_give_at_every_edge() {
        let data: Vec<u8> = (0..60_000u32).map(|i| (i * i / 7) as u8).collect();
        let edges = [300, 300 + 145, 1170, 1170 + 870, 209, 1170 + 1170 - 209].map(|lanes| lanes * LANE_BYTES);
        for length in edges.into_iter().chain([LEAST_BYTES]).flat_map(|edge| edge - 17..edge + 18) {
            let data = &data[..length];
            let (ieee, castagnoli) = (crc32fast::hash(data), crc32c::crc32c(data));
            assert_eq!(crc32(0, data), ieee, "{length}");
            assert_eq!(crc32c(0, data), castagnoli, "{length}");
            if let Some((lanes, rest)) = reduce(CRC32_LANES_BACK, !0, data) {
                let by_table = super::super::crc32::append_by_table;
                assert_eq!(by_table(by_table(!0, &lanes), rest), ieee, "{length}");
            }
        }
    }
}
