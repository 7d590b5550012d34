//! Differences of tensors: their elements as unsigned integers, subtracted and zigzag-encoded, so that small changes in
//! both directions are small numbers. The bits of floats are ordered like the floats, so that floats that are close to
//! each other differ little.

/// Replaces each element of `base`, of `width` bytes, by the one to which the encoded difference leads. Returns false
/// if the lengths differ, or for elements of a width that has no differences.
pub fn apply(base: &mut [u8], difference: &[u8], width: u64) -> bool {
    if base.len() != difference.len() {
        return false;
    }
    macro_rules! apply {
        ($number:ty, $bytes:literal) => {{
            let (elements, rest) = base.as_chunks_mut::<$bytes>();
            for (element, code) in elements.iter_mut().zip(difference.as_chunks::<$bytes>().0) {
                let code = <$number>::from_le_bytes(*code);
                let change = code >> 1 ^ (code & 1).wrapping_neg();
                *element = <$number>::from_le_bytes(*element).wrapping_add(change).to_le_bytes();
            }
            rest.is_empty()
        }};
    }
    match width {
        1 => apply!(u8, 1),
        2 => apply!(u16, 2),
        4 => apply!(u32, 4),
        8 => apply!(u64, 8),
        _ => false,
    }
}

/// Replaces each element of `tensor`, of `width` bytes, by its encoded difference to that of `base`: see [`apply`].
#[cfg(writes)]
pub fn encode(tensor: &mut [u8], base: &[u8], width: u64) -> bool {
    if tensor.len() != base.len() {
        return false;
    }
    macro_rules! encode {
        ($number:ty, $bytes:literal) => {{
            let (elements, rest) = tensor.as_chunks_mut::<$bytes>();
            for (element, base) in elements.iter_mut().zip(base.as_chunks::<$bytes>().0) {
                let change = <$number>::from_le_bytes(*element).wrapping_sub(<$number>::from_le_bytes(*base));
                let is_negative = change >> (<$number>::BITS - 1);
                *element = (change << 1 ^ is_negative.wrapping_neg()).to_le_bytes();
            }
            rest.is_empty()
        }};
    }
    match width {
        1 => encode!(u8, 1),
        2 => encode!(u16, 2),
        4 => encode!(u32, 4),
        8 => encode!(u64, 8),
        _ => false,
    }
}

#[cfg(all(test, native, writes))]
mod tests {
    use super::*;

    #[test]
    fn small_changes_in_both_directions_are_small_numbers() {
        let base = 1.0_f32.to_le_bytes();
        for (changed, code) in [(0, 0), (1, 2), (-1, 1), (-7, 13)] {
            let mut tensor = (1.0_f32.to_bits().wrapping_add_signed(changed)).to_le_bytes();
            assert!(encode(&mut tensor, &base, 4));
            assert_eq!(u32::from_le_bytes(tensor), code);
        }
    }

    #[test]
    fn a_difference_leads_back_to_the_tensor() {
        let base: Vec<u8> = (0..4096_u32).map(|number| ((number * 31) >> 3) as u8).collect();
        let tensor: Vec<u8> = (0..4096_u32).map(|number| ((number * 57) >> 2) as u8).collect();
        for width in [1, 2, 4, 8] {
            let (mut code, mut result) = (tensor.clone(), base.clone());
            assert!(encode(&mut code, &base, width) && apply(&mut result, &code, width));
            assert_eq!(result, tensor, "{width}");
        }
        assert!(
            !encode(&mut [0; 3], &[0; 3], 2) && !encode(&mut [0; 4], &[0; 2], 2),
            "half an element, another length"
        );
        assert!(!apply(&mut [0; 16], &[0; 16], 16), "elements of 16 bytes have none");
    }
}
