//! Models whose files say themselves which part of the model they are, and find each other by their names:
//! `x-00001-of-00003.gguf` (split GGUF).

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Index, Manifest, Metadata, Part, check_part_count};
use std::collections::HashMap;

/// Which part of a model a file is.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Counted from 0.
    pub number: usize,
    /// How many files the model has.
    pub count: usize,
    /// How many tensors all files have together, where they say.
    pub tensor_count: Option<u64>,
}

impl Split {
    /// Part `number` of `count`; `None` where the model has no further files.
    ///
    /// # Errors
    /// `FORMAT` for a part that cannot be, `LIMIT` for more than [`MAX_PARTS`](super::MAX_PARTS).
    pub fn new(number: u64, count: u64, tensor_count: Option<u64>) -> Result<Option<Self>> {
        if number >= count {
            return Err(malformed(format!("the file says that it is part {number} of {count}, counted from 0")));
        }
        check_part_count(count)?;
        Ok((count > 1).then_some(Split { number: number as usize, count: count as usize, tensor_count }))
    }

    /// The manifest that the model would have, from the index and the name of this one of its files.
    ///
    /// # Errors
    /// `NOT_FOUND` where the name does not lead to the other files.
    pub(crate) fn manifest(&self, index: &Index, file_name: Option<&str>) -> Result<Manifest> {
        let number = |number: usize| format!("-{:05}-of-{:05}", number + 1, self.count);
        let (own, file_name) = (number(self.number), file_name.unwrap_or_default());
        let (before, after) = file_name.rsplit_once(&own).ok_or_else(|| {
            let what = format!("the file holds a part of a model, but there is no `{own}` in its name \"{file_name}\"");
            let advice =
                "Open it where the other parts lie beside it, all under the names that they were written with.";
            Error::new(ErrorKind::NotFound, what).advise(advice)
        })?;
        let part =
            |n| Part { path: format!("{before}{}{after}", number(n)), byte_length: None, digest: None, url: None };
        Ok(Manifest {
            format: index.format,
            version: index.version.clone(),
            metadata: Metadata::new(),
            parts: (0..self.count).map(part).collect(),
            tensor_parts: HashMap::new(),
            catalog: None,
        })
    }

    /// Checks that `other`, which another file says of itself, is part `number` of the same model.
    ///
    /// # Errors
    /// `FORMAT` where it is not.
    pub(crate) fn check_part(&self, other: Option<&Split>, number: usize) -> Result<()> {
        let expected = Split { number, ..self.clone() };
        match other {
            Some(other) if *other == expected => Ok(()),
            Some(Split { number: n, count, .. }) if (*n, *count) != (number, self.count) => {
                let what =
                    format!("it says that it is part {} of {count}, not {} of {}", n + 1, number + 1, self.count);
                Err(mixed(what))
            }
            Some(_) => Err(mixed("it says that the model has another number of tensors than the file opened first")),
            None => Err(mixed("it does not say that it is part of a model")),
        }
    }

    /// Checks that all files together have as many tensors as they say.
    ///
    /// # Errors
    /// `FORMAT` where they have not.
    pub(crate) fn check_tensor_count(&self, found: usize) -> Result<()> {
        match self.tensor_count {
            Some(stated) if stated != found as u64 => {
                Err(mixed(format!("the files of the model say that they have {stated} tensors, but have {found}")))
            }
            _ => Ok(()),
        }
    }
}

fn mixed(what: impl Into<String>) -> Error {
    malformed(what).advise("The files do not belong together: upload the model again, all files of it.")
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    fn index() -> Index {
        let (metadata, tensors, warnings) = Default::default();
        Index {
            format: "gguf",
            version: "3".into(),
            metadata,
            long_arrays: Vec::new(),
            tensors,
            warnings,
            elsewhere: HashMap::new(),
        }
    }

    #[test]
    fn any_part_names_all_of_them() {
        let split = Split::new(1, 3, None).unwrap().unwrap();
        let manifest = split.manifest(&index(), Some("a-00002-of-00003-00002-of-00003.gguf")).unwrap();
        let paths: Vec<_> = manifest.parts.iter().map(|part| part.path.as_str()).collect();
        assert_eq!(paths, [1, 2, 3].map(|n| format!("a-00002-of-00003-{n:05}-of-00003.gguf")));
    }

    #[test]
    fn a_part_under_another_name_says_what_is_missing() {
        let split = Split::new(1, 3, None).unwrap().unwrap();
        for name in [None, Some("b.gguf"), Some("a-00001-of-00003.gguf")] {
            let error = split.manifest(&index(), name).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound);
            assert!(error.what.contains("`-00002-of-00003`"), "{}", error.what);
        }
    }

    #[test]
    fn refuses_parts_that_cannot_be() {
        assert!(Split::new(3, 3, None).is_err());
        assert!(Split::new(0, 0, None).is_err());
        assert_eq!(Split::new(0, crate::index::MAX_PARTS + 1, None).unwrap_err().kind, ErrorKind::Limit);
        assert_eq!(Split::new(0, 1, None), Ok(None));
    }

    #[test]
    fn refuses_a_file_of_another_model() {
        let first = Split::new(0, 3, Some(7)).unwrap().unwrap();
        assert_eq!(first.check_part(Some(&Split { number: 2, ..first.clone() }), 2), Ok(()));
        for other in [
            None,
            Some(first.clone()),
            Some(Split { number: 2, count: 4, tensor_count: Some(7) }),
            Some(Split { number: 2, count: 3, tensor_count: Some(8) }),
        ] {
            assert!(first.check_part(other.as_ref(), 2).is_err(), "{other:?}");
        }
    }
}
