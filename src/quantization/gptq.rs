//! GPTQ of 2, 4 and 8 bits, and AWQ ("gemm").
//!
//! Sources: GPTQModel f4c327a (`dequantize_weight`, `utils/model.py` for the zero points of the format v1), AutoAWQ
//! 88e4c76 (`dequantize_gemm`). Values are rounded to the dtype of the scales.

use super::found::{Ambiguous, GIVE_CONFIG, Group, LOAD_PARTS, described};
use super::numbers::scale_bytes;
use super::stored::{Part, Stored};
use super::transposed::{Packing, Transposed};
use crate::dtype::Dtype;
use crate::index::{Metadata, Scheme};
use serde_json::json;
use std::sync::Arc;

/// The parts of a tensor.
struct Parts<'a> {
    codes: Part<'a>,
    zeros: Part<'a>,
    scales: Part<'a>,
    groups: Option<Part<'a>>,
    /// The number of rows of the tensor.
    rows: u64,
}

/// Recognizes the tensor whose codes are `{base}.qweight`.
pub(super) fn detect(stored: &Stored<'_>, base: &str) -> Option<Group> {
    let get = |part: &str| stored.get(&format!("{base}.{part}"));
    let (codes, zeros, scales) = (get("qweight")?, get("qzeros")?, get("scales")?);
    let groups = get("g_idx").filter(|groups| groups.is(&[Dtype::I32]));
    let words = [&codes, &zeros].iter().all(|part| part.is(&[Dtype::I32]));
    let floats = scales.is(&[Dtype::F16, Dtype::BF16, Dtype::F32]) && scale_bytes(scales.dtype).is_some();
    let (true, [_, _], [_, rows]) = (words && floats, codes.shape, scales.shape) else { return None };
    let rows = *rows;
    let name = format!("{base}.weight");
    let mut positions = vec![("qweight", codes.at), ("qzeros", zeros.at), ("scales", scales.at)];
    positions.extend(groups.as_ref().map(|groups| ("g_idx", groups.at)));
    let first = codes.clone();
    let parts = Parts { codes, zeros, scales, groups, rows };
    // AWQ packs the rows of the tensor, GPTQ its columns.
    let is_awq = parts.codes.shape.last().copied().map(|words| words.saturating_mul(8)) == Some(rows);
    let method = if is_awq { "awq" } else { "gptq" };
    let found = if is_awq { parts.awq() } else { parts.gptq(stored) };
    let group = match found {
        Ok((scheme, described)) => {
            let shape = vec![scheme.rows, scheme.columns];
            let (dtype, scheme) = (scheme.scales.clone(), Arc::new(scheme) as Arc<dyn Scheme>);
            Group { name, dtype, shape, parts: positions, scheme, described }
        }
        Err(reason) => Group::ambiguous(name, &first, positions, method, reason),
    };
    Some(group)
}

impl Parts<'_> {
    fn awq(&self) -> Result<(Transposed, Metadata), Ambiguous> {
        let columns = self.codes.shape.first().copied().unwrap_or(0);
        let group_size = self.group_size(columns, None).ok_or_else(|| self.mismatch("AWQ"))?;
        if self.zeros.shape != [self.group_count(), self.rows / 8] {
            return Err(self.mismatch("AWQ"));
        }
        let described = described(json!({ "method": "awq", "bits": 4, "groupSize": group_size }));
        Ok((self.scheme(columns, 4, Packing::Rows, 0, Some(group_size)), described))
    }

    fn gptq(&self, stored: &Stored<'_>) -> Result<(Transposed, Metadata), Ambiguous> {
        let mismatch = || self.mismatch("GPTQ");
        let [words, rows] = [self.codes.shape.first(), self.codes.shape.last()].map(|dim| dim.copied().unwrap_or(0));
        let zero_words = self.zeros.shape.last().copied().unwrap_or(0);
        let bits = zero_words.checked_mul(32).filter(|_| self.rows > 0).ok_or_else(mismatch)? / self.rows.max(1);
        if rows != self.rows || ![2, 4, 8].contains(&bits) {
            return Err(match bits {
                3 | 5 | 6 | 7 if rows == self.rows => Ambiguous {
                    what: format!("it is quantized by GPTQ to {bits} bits, and only 2, 4 and 8 bits are supported"),
                    advice: LOAD_PARTS,
                },
                _ => mismatch(),
            });
        }
        let columns = words.saturating_mul(32 / bits);
        let has_indices = self.groups.as_ref().is_some_and(|groups| groups.shape == [columns]);
        let stated = stored.config.and_then(|config| config.integer(&["group_size"]));
        let group_size = if has_indices { None } else { Some(self.group_size(columns, stated).ok_or_else(mismatch)?) };
        if self.zeros.shape != [self.group_count(), self.rows * bits / 32] || (self.groups.is_some() && !has_indices) {
            return Err(mismatch());
        }
        let version = version(stored)?;
        let addend = match (version, bits) {
            (Version::Two, _) => 0,
            (Version::One, 2) => 0x5555_5555,
            (Version::One, 4) => 0x1111_1111,
            (Version::One, _) => 0x0101_0101,
        };
        let size = group_size.or(stated).unwrap_or_else(|| columns.checked_div(self.group_count()).unwrap_or(0));
        let described = described(json!({ "method": "gptq", "bits": bits, "groupSize": size }));
        Ok((self.scheme(columns, bits as u32, Packing::Columns, addend, group_size), described))
    }

    fn scheme(&self, columns: u64, bits: u32, packing: Packing, addend: u32, group_size: Option<u64>) -> Transposed {
        Transposed {
            rows: self.rows,
            columns,
            bits,
            packing,
            zero_addend: addend,
            groups: self.group_count(),
            group_size,
            scales: self.scales.dtype.clone(),
        }
    }

    fn group_count(&self) -> u64 {
        self.scales.shape.first().copied().unwrap_or(0)
    }

    /// The number of columns of a group: equal ones, or as stated.
    fn group_size(&self, columns: u64, stated: Option<u64>) -> Option<u64> {
        let groups = self.group_count();
        let equal = || (groups > 0 && columns.is_multiple_of(groups)).then(|| columns / groups);
        stated.filter(|stated| *stated > 0 && columns.div_ceil(*stated) == groups).or_else(equal)
    }

    fn mismatch(&self, method: &str) -> Ambiguous {
        let shapes = format!("{:?}, {:?} and {:?}", self.codes.shape, self.zeros.shape, self.scales.shape);
        Ambiguous { what: format!("the shapes of its parts, {shapes}, are not those of {method}"), advice: LOAD_PARTS }
    }
}

/// What stored zero points mean.
#[derive(Clone, Copy)]
enum Version {
    /// The zero point minus 1.
    One,
    /// The zero point.
    Two,
}

fn version(stored: &Stored<'_>) -> Result<Version, Ambiguous> {
    let Some(config) = stored.config else {
        let what = "it is quantized by GPTQ, and its zero points may be stored minus 1 (format \"gptq\") or as they \
                    are (\"gptq_v2\")";
        return Err(Ambiguous { what: what.to_owned(), advice: GIVE_CONFIG });
    };
    match config.text(&["checkpoint_format", "format"]) {
        None | Some("gptq") => Ok(Version::One),
        Some("gptq_v2") => Ok(Version::Two),
        Some(other) => Err(Ambiguous {
            what: format!("its format of GPTQ is \"{other}\", and only \"gptq\" and \"gptq_v2\" are supported"),
            advice: LOAD_PARTS,
        }),
    }
}
