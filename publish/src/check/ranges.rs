//! Range requests: whether the server sends exactly the requested bytes, not encoded.

use super::finding::{Severity, Sheet};
use super::probe::{Exchange, Prober};
use reqwest::{Url, header};
use weightstream::Result;
use weightstream::internals::answer::parse_content_range;

const WIDTH: u64 = 64;

pub(super) async fn check(
    prober: &Prober,
    file: &Url,
    first: &Exchange,
    whole: &Exchange,
    sheet: &mut Sheet,
) -> Result<()> {
    check_encoding(first, whole, sheet);
    if first.lists(&header::ACCEPT_RANGES, "none") {
        let advice = "Some clients then do not try ranges: send `Accept-Ranges: bytes`.";
        sheet.add(Severity::Warning, "accept-ranges", first, first.line(&header::ACCEPT_RANGES), advice);
    }
    if first.status == 200 {
        let advice = "Turn on Range requests. Until then, reading one tensor downloads the file up to its end.";
        let seen = format!("{}: the whole file instead of the range", first.status_line());
        sheet.add(Severity::Warning, "ranges", first, seen, advice);
        return Ok(());
    }
    let Some(length) = check_range(first, 0, u64::MAX, sheet) else { return Ok(()) };
    if length > WIDTH {
        let mut requests = Vec::new();
        for start in [(length - WIDTH) / 2, length - WIDTH] {
            let response = prober.range(file, &format!("bytes={start}-{}", start + WIDTH - 1)).await?;
            requests.push((start, response));
        }
        let suffix = prober.range(file, &format!("bytes=-{WIDTH}")).await?;
        if suffix.status == 206 {
            requests.push((length - WIDTH, suffix));
        } else {
            let advice = "weightstream sends no suffix ranges, but other readers of footers do.";
            sheet.add(Severity::Info, "suffix-range", &suffix, suffix.status_line(), advice);
        }
        for (start, response) in &requests {
            if check_range(response, *start, length, sheet).is_none() {
                return Ok(());
            }
        }
    }
    let is_same_content = first.body.iter().zip(&whole.body).all(|(a, b)| a == b);
    if whole.status == 200 && !whole.headers.contains_key(header::CONTENT_ENCODING) && !is_same_content {
        let advice = "Purge the cache of the CDN: it has parts of different versions of the file.";
        let seen = "the first bytes differ from those of the whole file";
        sheet.add(Severity::Error, "ranges", first, seen, advice);
        return Ok(());
    }
    sheet.add(Severity::Ok, "ranges", first, format!("ranges of {length} bytes are answered exactly"), "");
    check_beyond_end(&prober.range(file, &format!("bytes={length}-{}", length.saturating_add(1))).await?, sheet);
    Ok(())
}

/// Checks a response to a request for [`WIDTH`] bytes at `start`. Returns the length of the file.
fn check_range(response: &Exchange, start: u64, length: u64, sheet: &mut Sheet) -> Option<u64> {
    let advice = "Send exactly the requested bytes and their Content-Range, or 200 with the whole file. If a CDN is in \
                  between, purge it and let it pass Range requests on.";
    if response.status != 206 {
        let seen = format!("{}, but other ranges are answered with 206", response.status_line());
        sheet.add(Severity::Error, "content-range", response, seen, advice);
        return None;
    }
    let value = response.header(&header::CONTENT_RANGE);
    let Some((sent, Some(total))) = value.as_deref().and_then(parse_content_range) else {
        sheet.add(Severity::Error, "content-range", response, response.line(&header::CONTENT_RANGE), advice);
        return None;
    };
    let is_expected =
        sent == (start..start.saturating_add(WIDTH).min(total)) && (length == u64::MAX || length == total);
    // A range of an encoded file is reported by `compressed-range`; its length says nothing.
    let is_encoded = response.headers.contains_key(header::CONTENT_ENCODING);
    if !is_expected || (!is_encoded && response.body.len() as u64 != sent.end - sent.start) {
        let seen = format!("{}, with {} bytes", response.line(&header::CONTENT_RANGE), response.body.len());
        sheet.add(Severity::Error, "content-range", response, seen, advice);
        return None;
    }
    Some(total)
}

fn check_encoding(first: &Exchange, whole: &Exchange, sheet: &mut Sheet) {
    let advice = "Turn off compression for these files. Weights hardly shrink, and ranges of a compressed file cannot \
                  be decoded, so that browsers must read the whole file.";
    for (name, response) in [("compressed-range", first), ("compression", whole)] {
        if response.headers.contains_key(header::CONTENT_ENCODING) {
            sheet.add(Severity::Warning, name, response, response.line(&header::CONTENT_ENCODING), advice);
        }
    }
}

fn check_beyond_end(response: &Exchange, sheet: &mut Sheet) {
    if response.status != 416 {
        let advice = "Answer 416 with `Content-Range: bytes */LENGTH`, so that a truncated file is recognized.";
        sheet.add(Severity::Warning, "range-beyond-end", response, response.status_line(), advice);
    }
}
