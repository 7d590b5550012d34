//! Models whose files state which part of the model they are, and whose file names follow a pattern:
//! `x-00001-of-00003.gguf` (split GGUF).

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Index, Manifest, Metadata, Part, check_part_count};
use std::collections::HashMap;

/// The number of a file in a split model.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The number of this file, counted from 0.
    pub number: usize,
    /// The number of files of the model.
    pub count: usize,
    /// The total number of tensors in all files, if the files state it.
    pub tensor_count: Option<u64>,
}

impl Split {
    /// Part `number` of `count`; `None` if the model has only one file.
    ///
    /// # Errors
    /// `FORMAT` if `number` is not less than `count`; `LIMIT` for more than [`MAX_PARTS`](super::MAX_PARTS).
    pub fn new(number: u64, count: u64, tensor_count: Option<u64>) -> Result<Option<Self>> {
        if number >= count {
            return Err(malformed(format!("the file states that it is part {number} of {count}, counted from 0")));
        }
        check_part_count(count)?;
        Ok((count > 1).then_some(Split { number: number as usize, count: count as usize, tensor_count }))
    }

    /// What the name of a file contains: `-00001-of-00003` for the file with the number 0.
    pub(crate) fn mark(number: u64, count: u64) -> String {
        format!("-{:05}-of-{:05}", number.saturating_add(1), count)
    }

    /// Builds the manifest of the model from the index and the name of one of its files.
    ///
    /// # Errors
    /// `NOT_FOUND` if the file name does not follow the pattern.
    pub(crate) fn manifest(&self, index: &Index, file_name: Option<&str>) -> Result<Manifest> {
        let number = |number: usize| Split::mark(number as u64, self.count as u64);
        let (own, file_name) = (number(self.number), file_name.unwrap_or_default());
        let (before, after) = file_name.rsplit_once(&own).ok_or_else(|| {
            let what = format!("the file is a part of a model, but its name \"{file_name}\" does not contain `{own}`");
            let advice = "Put all parts into one folder under their original names, then open the model again.";
            Error::new(ErrorKind::NotFound, what).advise(advice)
        })?;
        let part = |n| Part { path: format!("{before}{}{after}", number(n)), ..Part::default() };
        Ok(Manifest {
            format: index.format,
            version: index.version.clone(),
            metadata: Metadata::new(),
            parts: (0..self.count).map(part).collect(),
            tensor_parts: HashMap::new(),
            states_all_tensors: false,
            catalog: None,
            publication: None,
        })
    }

    /// Checks that `other`, as stated in another file, is part `number` of the same model.
    ///
    /// # Errors
    /// `FORMAT` if it is not.
    pub(crate) fn check_part(&self, other: Option<&Split>, number: usize) -> Result<()> {
        let expected = Split { number, ..self.clone() };
        match other {
            Some(other) if *other == expected => Ok(()),
            Some(Split { number: n, count, .. }) if (*n, *count) != (number, self.count) => {
                let (number, expected) = (n + 1, number + 1);
                let what = format!("it states that it is part {number} of {count}, not {expected} of {}", self.count);
                Err(mismatch(what))
            }
            Some(_) => Err(mismatch("it states another number of tensors than the file that was opened first")),
            None => Err(mismatch("it does not state that it is part of a split model")),
        }
    }

    /// Checks that all files together contain the stated number of tensors.
    ///
    /// # Errors
    /// `FORMAT` if they do not.
    pub(crate) fn check_tensor_count(&self, found: usize) -> Result<()> {
        match self.tensor_count {
            Some(stated) if stated != found as u64 => {
                Err(mismatch(format!("the files of the model state {stated} tensors, but contain {found}")))
            }
            _ => Ok(()),
        }
    }
}

fn mismatch(what: impl Into<String>) -> Error {
    malformed(what).advise("The files do not belong together: upload all files of the model again.")
}

#[cfg(all(test, native))]
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
            other_shards: HashMap::new(),
            blocks: Vec::new(),
            quantized: None,
        }
    }

    #[test]
    fn any_part_gives_the_paths_of_all_parts() {
        let split = Split::new(1, 3, None).unwrap().unwrap();
        let manifest = split.manifest(&index(), Some("a-00002-of-00003-00002-of-00003.gguf")).unwrap();
        let paths: Vec<_> = manifest.parts.iter().map(|part| part.path.as_str()).collect();
        assert_eq!(paths, [1, 2, 3].map(|n| format!("a-00002-of-00003-{n:05}-of-00003.gguf")));
    }

    #[test]
    fn reports_the_missing_part_of_a_file_name() {
        let split = Split::new(1, 3, None).unwrap().unwrap();
        for name in [None, Some("b.gguf"), Some("a-00001-of-00003.gguf")] {
            let error = split.manifest(&index(), name).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound);
            assert!(error.what.contains("`-00002-of-00003`"), "{}", error.what);
        }
    }

    #[test]
    fn refuses_impossible_part_numbers() {
        assert!(Split::new(3, 3, None).is_err());
        assert!(Split::new(0, 0, None).is_err());
        assert_eq!(Split::new(0, crate::index::MAX_PARTS + 1, None).unwrap_err().kind, ErrorKind::Limit);
        assert_eq!(Split::new(0, 1, None), Ok(None));
    }

    #[test]
    fn refuses_a_part_of_another_model() {
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
