//! Validators: whether a client can recognize the version of a file, to resume and to revalidate.

use super::finding::{Severity, Sheet};
use super::probe::{Exchange, Prober};
use reqwest::{Method, Url, header};
use weightstream::Result;

pub(super) async fn check(
    prober: &Prober,
    file: &Url,
    first: &Exchange,
    whole: &Exchange,
    sheet: &mut Sheet,
) -> Result<()> {
    check_head(prober, file, sheet).await?;
    let Some(etag) = first.header(&header::ETAG) else {
        let advice = "Send a strong ETag. Without one, resumed loads read up to 64 KiB twice; without Last-Modified, \
                      too, the file is not cached.";
        sheet.add(Severity::Warning, "etag", first, first.line(&header::ETAG), advice);
        return Ok(());
    };
    if etag.starts_with("W/") {
        let advice = "Send a strong ETag. Servers weaken ETags when they compress: turn compression off.";
        sheet.add(Severity::Warning, "etag", first, first.line(&header::ETAG), advice);
        return Ok(());
    }
    let again = prober.range(file, "bytes=0-63").await?;
    for other in [&again, whole] {
        if other.header(&header::ETAG).as_ref() != Some(&etag) {
            let seen = format!("{}, but before it was {etag}", other.line(&header::ETAG));
            let advice = "Derive the ETag from the content, and equally on all servers: otherwise an unchanged file \
                          looks changed.";
            sheet.add(Severity::Warning, "etag", other, seen, advice);
            return Ok(());
        }
    }
    sheet.add(Severity::Ok, "etag", first, first.line(&header::ETAG), "");
    let unchanged = prober.get(file, &[(header::IF_NONE_MATCH, &etag)]).await?;
    if unchanged.status != 304 {
        let advice = "Answer If-None-Match with 304 for an unchanged file.";
        sheet.add(Severity::Info, "not-modified", &unchanged, unchanged.status_line(), advice);
    }
    if first.status == 206 {
        let condition = [(header::RANGE, "bytes=0-63"), (header::IF_RANGE, "\"weightstream-other-version\"")];
        let changed = prober.get(file, &condition).await?;
        if changed.status != 200 {
            let advice = "Compare If-Range with the ETag, and answer 200 if they differ: clients that rely on it join \
                          parts of two versions.";
            sheet.add(Severity::Warning, "if-range", &changed, changed.status_line(), advice);
        }
    }
    Ok(())
}

/// weightstream sends no HEAD requests, but other tools do.
async fn check_head(prober: &Prober, file: &Url, sheet: &mut Sheet) -> Result<()> {
    let head = prober.send(&Method::HEAD, file, &[]).await?;
    if head.status != 200 {
        let advice = "weightstream sends no HEAD requests, but other tools do.";
        sheet.add(Severity::Info, "head", &head, head.status_line(), advice);
    }
    Ok(())
}
