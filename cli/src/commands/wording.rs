//! Options of the command line in messages of the library, which name its own options.

/// What the library calls an option, and the option of the command line. The first of two that match is replaced.
const OPTIONS: [(&str, &str); 19] = [
    ("ConvertOptions::metadata_first", "--metadata-first"),
    ("ConvertOptions::max_shard_bytes", "--shard-size"),
    ("ConvertOptions::omit_metadata", "--no-metadata"),
    ("ConvertOptions::metadata", "--metadata"),
    ("ConvertOptions::format_version", "--format-version"),
    ("ConvertOptions::format", "--format"),
    ("ConvertOptions::alignment", "--align"),
    ("ConvertOptions::compression", "--compress"),
    ("ConvertOptions::digest", "--digest"),
    ("ConvertOptions::dtype", "--dtype"),
    ("ConvertOptions::allow_loss", "--allow-loss"),
    ("ConvertOptions::order", "--order"),
    ("without `keep_existing`", "with `--force`"),
    ("ExtractOptions::component", "--component"),
    ("ExtractOptions::as_bytes", "--bytes"),
    ("PublishOptions::previous", "--from"),
    ("Share::Part", "--part"),
    ("CheckOptions::same_origin_only", "--same-origin"),
    ("add it to `ignored`", "pass it as `--ignore`"),
];

/// Returns the message with the options of the command line.
pub(super) fn in_options(message: &str) -> String {
    OPTIONS.iter().fold(message.to_owned(), |message, (of_library, option)| message.replace(of_library, option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_whose_name_begins_with_that_of_another_is_replaced_first() {
        for (at, (name, _)) in OPTIONS.iter().enumerate() {
            let mut earlier = OPTIONS.iter().take(at);
            assert!(!earlier.any(|(earlier, _)| name.starts_with(earlier)), "{name}");
        }
        assert_eq!(in_options("leave `ConvertOptions::format_version` out"), "leave `--format-version` out");
    }
}
