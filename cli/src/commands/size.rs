//! Parses human-readable sizes: `24MB`, `2GiB`, `1.5 GB`.

/// Parses a size into bytes. Units are bytes (`B`), decimal (`kB`, `MB`, `GB`, `TB`) or binary (`KiB`, `MiB`, `GiB`,
/// `TiB`), in any case. A number without a unit is an error: `24` could be meant as bytes or as megabytes.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let invalid = || format!("`{text}` is not a size like 24MB, 1.5GB or 512MiB");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_bytes: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "ti" | "tib" => 1 << 40,
        _ => return Err(invalid()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().map_err(|_| invalid())?;
    // Six fractional digits are exact to a byte up to megabytes, and suffice in practice.
    let (Ok(fraction), true) = (format!("{fraction:0<6}").parse::<u64>(), (1..=6).contains(&fraction.len())) else {
        return Err(invalid());
    };
    if unit.is_empty() && (whole, fraction) != (0, 0) {
        return Err(match (whole, fraction) {
            (1_000_000.., _) => format!("a size needs a unit: write {whole}B"),
            (_, 0) => format!("a size needs a unit: write {whole}MB or {whole}B"),
            _ => format!("a size needs a unit: write {number}MB"),
        });
    }
    let bytes = u128::from(whole) * u128::from(unit_bytes) + u128::from(fraction) * u128::from(unit_bytes) / 1_000_000;
    let bytes = u64::try_from(bytes).ok();
    match bytes {
        Some(0) => Err("the size must be greater than 0".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err(invalid()),
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::parse;

    #[test]
    fn accepts_decimal_and_binary_units() {
        let sizes = [
            ("7B", 7),
            ("7 b", 7),
            ("24MB", 24_000_000),
            ("24 mb", 24_000_000),
            ("2G", 2_000_000_000),
            ("512MiB", 512 << 20),
            ("1.5GB", 1_500_000_000),
            ("0.25kB", 250),
            ("3ki", 3072),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_the_sizes_that_it_could_mean() {
        assert_eq!(parse("24").unwrap_err(), "a size needs a unit: write 24MB or 24B");
        assert_eq!(parse(" 1.5 ").unwrap_err(), "a size needs a unit: write 1.5MB");
        assert_eq!(parse("0.5").unwrap_err(), "a size needs a unit: write 0.5MB");
        assert_eq!(parse("24000000").unwrap_err(), "a size needs a unit: write 24000000B");
    }

    #[test]
    fn rejects_invalid_sizes() {
        for text in ["", "MB", "-1MB", "1XB", "1.2.3MB", "1.MB", ".5MB", "99999999999TB", "0", "1e3", "１MB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
