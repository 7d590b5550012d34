//! The numbers of a tensor: its first values and their statistics.

use serde_json::{Map, Value, json};
use weightstream::Dtype;
use weightstream::Result;
use weightstream::internals::write::cast::Cast;

/// How many of the first values are shown.
const SHOWN_VALUES: usize = 8;

/// Collects the statistics of the elements of one component, from bytes that are split at any position.
pub(super) struct Numbers {
    decode: fn(&[u8]) -> Number,
    element_bytes: usize,
    /// Converts short floats to F32 first.
    cast: Option<Cast>,
    /// The first bytes of an element whose other bytes come later.
    cut: Vec<u8>,
    first: Vec<Number>,
    sums: Sums,
}

#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Single(f32),
    Double(f64),
}

/// Running sums over finite values, by Welford's method, which does not lose precision.
#[derive(Default)]
struct Sums {
    count: u64,
    finite: u64,
    nan: u64,
    infinite: u64,
    zeros: u64,
    range: Option<(Number, Number)>,
    mean: f64,
    squares: f64,
}

impl Numbers {
    /// Collects numbers of the dtype; `None` for blocks and other dtypes whose elements are not plain numbers.
    pub(super) fn of(dtype: &Dtype) -> Option<Self> {
        let is_short = matches!(dtype, Dtype::F16 | Dtype::BF16);
        let cast = if is_short { Some(Cast::new(dtype, &Dtype::F32).ok()?) } else { None };
        let (element_bytes, decode): (_, fn(&[u8]) -> Number) = match dtype {
            Dtype::F64 => (8, |bytes| Number::Double(f64::from_le_bytes(wide(bytes)))),
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => (4, |bytes| Number::Single(f32::from_le_bytes(wide(bytes)))),
            Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 => (dtype.block()?.bytes, signed),
            Dtype::U64 | Dtype::U32 | Dtype::U16 | Dtype::U8 | Dtype::Bool => (dtype.block()?.bytes, unsigned),
            _ => return None,
        };
        let (cut, first, sums) = Default::default();
        Some(Numbers { decode, element_bytes: element_bytes as usize, cast, cut, first, sums })
    }

    /// Adds the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        match self.cast.take() {
            Some(mut cast) => {
                let pushed = cast.push(bytes, &mut |bytes| {
                    self.add(bytes);
                    Ok(())
                });
                self.cast = Some(cast);
                pushed
            }
            None => {
                self.add(bytes);
                Ok(())
            }
        }
    }

    /// The statistics and the first values, as in the output of `--json`.
    pub(super) fn finish(self) -> Map<String, Value> {
        let Sums { count, finite, nan, infinite, zeros, range, mean, squares } = self.sums;
        let (min, max) = range.unzip();
        let shown = |number: Option<Number>| number.map_or(Value::Null, Number::shown);
        let of_finite = |number: f64| if finite > 0 { Number::Double(number).shown() } else { Value::Null };
        let mut described = Map::new();
        let statistics = json!({
            "count": count,
            "min": shown(min),
            "max": shown(max),
            "mean": of_finite(mean),
            "standardDeviation": of_finite((squares / finite.max(1) as f64).sqrt()),
            "zeros": zeros,
            "nan": nan,
            "infinite": infinite,
        });
        described.insert("statistics".to_owned(), statistics);
        described.insert("values".to_owned(), self.first.into_iter().map(Number::shown).collect());
        described
    }

    fn add(&mut self, mut bytes: &[u8]) {
        if !self.cut.is_empty() {
            let (rest, after) = bytes.split_at(bytes.len().min(self.element_bytes - self.cut.len()));
            self.cut.extend_from_slice(rest);
            bytes = after;
            if self.cut.len() < self.element_bytes {
                return;
            }
            let whole = std::mem::take(&mut self.cut);
            self.number((self.decode)(&whole));
        }
        let elements = bytes.chunks_exact(self.element_bytes);
        self.cut.extend_from_slice(elements.remainder());
        for element in elements {
            self.number((self.decode)(element));
        }
    }

    fn number(&mut self, number: Number) {
        if self.first.len() < SHOWN_VALUES {
            self.first.push(number);
        }
        self.sums.add(number);
    }
}

impl Sums {
    fn add(&mut self, number: Number) {
        self.count += 1;
        let float = number.float();
        if !float.is_finite() {
            *(if float.is_nan() { &mut self.nan } else { &mut self.infinite }) += 1;
            return;
        }
        self.finite += 1;
        self.zeros += u64::from(float == 0.0);
        self.range = Some(match self.range {
            None => (number, number),
            Some((min, max)) => {
                (if number.is_below(min) { number } else { min }, if max.is_below(number) { number } else { max })
            }
        });
        let difference = float - self.mean;
        self.mean += difference / self.finite as f64;
        self.squares += difference * (float - self.mean);
    }
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Single(float) => float.into(),
            Number::Double(float) => float,
        }
    }

    fn is_below(self, other: Number) -> bool {
        match (self, other) {
            (Number::Integer(integer), Number::Integer(other)) => integer < other,
            _ => self.float() < other.float(),
        }
    }

    /// The value in JSON, which has no number for NaN and infinities.
    fn shown(self) -> Value {
        let of_float = |float: f64, shortest: String| match shortest.parse::<f64>() {
            Ok(shortest) if float.is_finite() => json!(shortest),
            _ if float.is_nan() => json!("NaN"),
            _ => json!(if float > 0.0 { "Infinity" } else { "-Infinity" }),
        };
        match self {
            Number::Integer(integer) => match u64::try_from(integer) {
                Ok(positive) => json!(positive),
                Err(_) => json!(i64::try_from(integer).unwrap_or(i64::MIN)),
            },
            // The shortest digits that give the same F32, not those of the F64.
            Number::Single(float) => of_float(float.into(), float.to_string()),
            Number::Double(float) => of_float(float, float.to_string()),
        }
    }
}

fn signed(bytes: &[u8]) -> Number {
    let is_negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
    let unsigned = i128::from(u64::from_le_bytes(wide(bytes)));
    Number::Integer(if is_negative { unsigned - (1i128 << (8 * bytes.len())) } else { unsigned })
}

fn unsigned(bytes: &[u8]) -> Number {
    Number::Integer(u64::from_le_bytes(wide(bytes)).into())
}

/// The bytes, extended with zeros.
fn wide<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut wide = [0; N];
    wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
    wide
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn described(dtype: &Dtype, bytes: &[u8], chunk: usize) -> Value {
        let mut numbers = Numbers::of(dtype).unwrap();
        bytes.chunks(chunk).for_each(|bytes| numbers.push(bytes).unwrap());
        Value::Object(numbers.finish())
    }

    #[test]
    fn floats_have_statistics_of_their_finite_values() {
        let floats = [0.1f32, -2.5, 0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.4];
        let bytes: Vec<_> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
        let expected = json!({ "count": 7, "min": -2.5, "max": 2.4, "zeros": 1, "nan": 1, "infinite": 2 });
        for chunk in [1, 3, 100] {
            let found = described(&Dtype::F32, &bytes, chunk);
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(found.pointer(&format!("/statistics/{key}")).unwrap(), value, "{key}");
            }
            assert!(found.pointer("/statistics/mean").unwrap().as_f64().unwrap().abs() < 1e-7);
            // sqrt((0.1^2 + 2.5^2 + 2.4^2) / 4)
            let deviation = found.pointer("/statistics/standardDeviation").unwrap().as_f64().unwrap();
            assert!((deviation - 1.733_493).abs() < 1e-5, "{deviation}");
            let values = json!([0.1, -2.5, 0.0, "NaN", "Infinity", "-Infinity", 2.4]);
            assert_eq!(found.pointer("/values"), Some(&values));
        }
    }

    #[test]
    fn integers_are_exact() {
        let bytes: Vec<_> = [i64::MIN, -1, i64::MAX].iter().flat_map(|integer| integer.to_le_bytes()).collect();
        let found = described(&Dtype::I64, &bytes, 5);
        assert_eq!(found.pointer("/values"), Some(&json!([i64::MIN, -1, i64::MAX])));
        assert_eq!(found.pointer("/statistics/min"), Some(&json!(i64::MIN)));
        assert_eq!(found.pointer("/statistics/max"), Some(&json!(i64::MAX)));
        let found = described(&Dtype::U64, &u64::MAX.to_le_bytes(), 5);
        assert_eq!(found.pointer("/statistics/max"), Some(&json!(u64::MAX)));
        assert_eq!(described(&Dtype::I8, &[0xff], 1).pointer("/values"), Some(&json!([-1])));
    }

    #[test]
    fn short_floats_are_decoded() {
        assert_eq!(described(&Dtype::F16, &[0x00, 0x3c, 0x00, 0xc0], 1).pointer("/values"), Some(&json!([1.0, -2.0])));
        assert_eq!(described(&Dtype::BF16, &[0x80, 0x3f], 1).pointer("/values"), Some(&json!([1.0])));
        assert!(Numbers::of(&Dtype::Q4_0).is_none());
    }

    #[test]
    fn nothing_has_no_range() {
        let found = described(&Dtype::F32, &[], 1);
        assert_eq!(found.pointer("/statistics/min"), Some(&Value::Null));
        assert_eq!(found.pointer("/statistics/mean"), Some(&Value::Null));
        assert_eq!(found.pointer("/values"), Some(&json!([])));
    }
}
