//! MessagePack as formats keep their metadata in it, read into the same values as JSON.

use crate::error::{Result, malformed};
use serde::de::DeserializeOwned;

/// No metadata nest deeper; JSON has the same limit here. Stops nesting that would run out of stack.
const MAX_DEPTH: usize = 128;

/// Parses MessagePack that begins at `start` in the file; errors call it `what`. Bytes after it are left alone: some
/// tools fill up their sections.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], start: u64, what: &str) -> Result<T> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(MAX_DEPTH);
    T::deserialize(&mut deserializer).map_err(|error| {
        malformed(format!("{what} is not the MessagePack that it should be: {error}"))
            .at(start..start + bytes.len() as u64)
    })
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    fn object(bytes: &[u8]) -> Result<Map<String, Value>> {
        parse(bytes, 0, "the metadata")
    }

    #[test]
    fn numbers_keep_their_64_bits_and_maps_their_order() {
        let value = object(b"\x82\xa1z\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1a\xd3\x80\0\0\0\0\0\0\0and what follows")
            .unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), r#"{"z":18446744073709551615,"a":-9223372036854775808}"#);
    }

    #[test]
    fn refuses_nesting_without_end_and_lengths_without_bytes() {
        assert!(object(&[b"\x81\xa1a".repeat(300), vec![0xc0]].concat()).is_err());
        assert!(object(b"\xdf\xff\xff\xff\xff").is_err());
        assert!(object(b"\x81\xdb\xff\xff\xff\xffa").is_err());
        assert!(object(b"\x93\x01\x02\x03").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            object(&[b"\x84\xa1a".as_slice(), &bytes].concat()).ok();
        }
    }
}
