//! `Cache-Control`: files whose names contain their hash never change, all others may.

use super::finding::{Severity, Sheet};
use super::probe::{Exchange, Prober};
use reqwest::Url;
use reqwest::header::{self, HeaderName};

/// The shortest hash in a file name, as bundlers write them.
const MIN_HASH_DIGITS: usize = 8;

/// Headers in which caches say what they did.
const CACHE_HEADERS: [HeaderName; 4] = [
    header::AGE,
    HeaderName::from_static("x-cache"),
    HeaderName::from_static("cf-cache-status"),
    HeaderName::from_static("cache-status"),
];

pub(super) fn check(prober: &Prober, file: &Url, first: &Exchange, whole: &Exchange, sheet: &mut Sheet) {
    let name = header::CACHE_CONTROL;
    let seen = whole.line(&name);
    let is_hashed = has_hash(file);
    match (is_hashed, whole.lists(&name, "immutable")) {
        (true, false) => {
            let advice = "The name contains a hash, so the file never changes: send `Cache-Control: public, \
                          max-age=31536000, immutable, no-transform`.";
            sheet.add(Severity::Warning, "cache-control", whole, seen, advice);
        }
        (false, true) => {
            let what = if *file == prober.model { "the URL that apps open" } else { "this file" };
            let advice = format!(
                "The name of {what} contains no hash, so that a new version keeps the name, and caches would not \
                 fetch it: send `Cache-Control: no-cache, no-transform`, or put the hash in the name."
            );
            sheet.add(Severity::Error, "cache-control", whole, seen, &advice);
        }
        _ if whole.lists(&name, "no-store") => {
            let advice = "No cache or CDN may keep the file: send `no-cache`, which caches revalidate.";
            sheet.add(Severity::Warning, "cache-control", whole, seen, advice);
        }
        (false, false) if !whole.headers.contains_key(&name) => {
            let advice = "Caches then guess how long the file stays the same: send `no-cache, no-transform`.";
            sheet.add(Severity::Info, "cache-control", whole, seen, advice);
        }
        _ => sheet.add(Severity::Ok, "cache-control", whole, seen, ""),
    }
    if whole.headers.contains_key(&name) && !whole.lists(&name, "no-transform") {
        let advice = "Add `no-transform`: without it, a CDN may compress the file, which breaks ranges.";
        sheet.add(Severity::Info, "no-transform", whole, whole.line(&name), advice);
    }
    let said: Vec<_> = CACHE_HEADERS.into_iter().filter(|name| first.headers.contains_key(name)).collect();
    if !said.is_empty() {
        let seen: Vec<_> = said.iter().map(|name| first.line(name)).collect();
        sheet.add(Severity::Info, "cdn", first, seen.join(", "), "");
    }
}

/// Whether the file name has a run of hexadecimal digits that looks like a hash: a date or a number has no letters.
fn has_hash(file: &Url) -> bool {
    let name = file.path().rsplit('/').next().unwrap_or_default();
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        word.len() >= MIN_HASH_DIGITS
            && word.chars().all(|c| c.is_ascii_hexdigit())
            && word.chars().any(|c| c.is_ascii_digit())
            && word.chars().any(|c| c.is_ascii_alphabetic())
    })
}
