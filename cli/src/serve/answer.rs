//! Creates the response to a request.

use std::io;
use std::path::Path;

use super::listing;
use super::range::{Selection, select};
use super::real_file;
use super::request::Request;
use super::response::{Body, Response};
use super::site::{Found, Site};
use super::validators::{Precondition, Validators};

const METHODS: &str = "GET, HEAD, OPTIONS";

/// The cache time of preflight responses. Browsers limit it themselves (Chromium to two hours).
const PREFLIGHT_SECONDS: &str = "86400";

pub(super) fn answer(site: &Site, request: &Request) -> Response {
    match request.method.as_str() {
        "GET" | "HEAD" => find(site, request),
        "OPTIONS" => preflight(request),
        _ => Response::text(405, "only GET, HEAD and OPTIONS are supported").with("Allow", METHODS),
    }
}

fn find(site: &Site, request: &Request) -> Response {
    match site.find(&request.path) {
        Found::File(path) => file(&path, request).unwrap_or_else(|error| failure(&error)),
        Found::Folder(path) => listing::of_folder(&path).map_or_else(|error| failure(&error), Response::html),
        Found::Mounts(prefixes) => Response::html(listing::of_mounts(&prefixes)),
        Found::Redirect(path) => {
            Response::text(307, "the path of a folder ends with a slash").with("Location", path + &request.query)
        }
        Found::Outside => Response::text(403, "this link points outside the served folder"),
        Found::Nothing => Response::text(404, "there is no such file"),
    }
}

/// Echoes the requested headers, because `*` does not cover `Authorization`.
fn preflight(request: &Request) -> Response {
    let headers = request.header("access-control-request-headers").unwrap_or("*");
    Response::empty(204)
        .with("Allow", METHODS)
        .with("Access-Control-Allow-Methods", METHODS)
        .with("Access-Control-Allow-Headers", headers.to_owned())
        .with("Access-Control-Max-Age", PREFLIGHT_SECONDS)
}

/// Responds with the file at `path`, which contains no symbolic links. The file is opened once; its length, validators
/// and bytes come from the same handle, so that they are consistent if another file replaces it.
fn file(path: &Path, request: &Request) -> io::Result<Response> {
    let Some((file, metadata)) = real_file::open(path)? else {
        return Ok(Response::text(404, "there is no such file"));
    };
    let byte_length = metadata.len();
    let validators = Validators::of(&metadata);
    // Ranges are defined only for GET (RFC 9110, section 14.2).
    let range = request.header("range").filter(|_| request.method == "GET" && validators.range_applies(request));
    let selection = range.map_or(Selection::Whole, |range| select(range, byte_length));
    let response = match (validators.evaluate(request), selection) {
        (Precondition::Failed, _) => Response::text(412, "the file does not match the precondition of the request"),
        (Precondition::NotModified, _) => Response::empty(304),
        (Precondition::Proceed, Selection::Unsatisfiable) => {
            Response::text(416, "the range begins beyond the end of the file")
                .with("Content-Range", format!("bytes */{byte_length}"))
        }
        (Precondition::Proceed, Selection::Part(range)) => Response::empty(206)
            .with("Content-Range", format!("bytes {}-{}/{byte_length}", range.start, range.end.saturating_sub(1)))
            .with("Content-Type", content_type(path))
            .body(Body::File(file, range)),
        (Precondition::Proceed, Selection::Whole) => {
            Response::empty(200).with("Content-Type", content_type(path)).body(Body::File(file, 0..byte_length))
        }
    };
    let response = match validators.last_modified() {
        Some(date) => response.with("Last-Modified", date),
        None => response,
    };
    Ok(response.with("ETag", validators.etag).with("Accept-Ranges", "bytes"))
}

fn failure(error: &io::Error) -> Response {
    match error.kind() {
        io::ErrorKind::NotFound => Response::text(404, "there is no such file"),
        io::ErrorKind::PermissionDenied => Response::text(403, "the file may not be read"),
        _ => Response::text(500, "the file cannot be read"),
    }
}

fn content_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "txt" => "text/plain; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        _ => "application/octet-stream",
    }
}
