//! Protected files: what was loaded with credentials is served only to the same credentials, and not after logout.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail, ensure};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::cases::{PROBE_BYTES, go_offline};
use super::contents::large;
use super::pages::Pages;
use super::{SCRIPT, Site, TestCase, load};
use crate::chromium::Chromium;
use crate::page::Page;
use crate::trap_test::traps::model::FILE;
use crate::trap_test::traps::server::{Reply, Request, Server, answer};
use crate::trap_test::{exposed, own_url, readable};
use crate::ztensor;

pub(super) const CASES: [(&str, TestCase); 7] = [
    ("a file loaded with credentials is unavailable after logout", unavailable_after_logout),
    ("a file loaded with credentials is unavailable after logout by its digest", unavailable_after_logout_by_digest),
    ("a file is unavailable to other credentials, also without a server", separates_credentials),
    ("a file is unavailable where a refusal looks like a network error", unavailable_in_isolated_pages),
    ("requests with cookies have their own cache entries", separates_cookies),
    ("a public file is available while its server fails", serves_public_files_during_outage),
    ("a damaged model does not remove tensors that it shares with others", keeps_shared_tensors),
];

const ONE: &str = "Bearer one";

/// A server that accepts one user and refuses others in a configurable way.
struct Private {
    server: Option<Server>,
    url: String,
    refusal: Arc<Refusal>,
}

#[derive(Default)]
struct Refusal {
    /// The status of all responses, or 0 to serve the user.
    status: AtomicU16,
    /// Whether pages of other origins may read refusals: 0 or 1.
    has_cors: AtomicU16,
}

impl Private {
    fn new(is_allowed: fn(&Request) -> bool) -> Private {
        let refusal = Arc::<Refusal>::default();
        let state = Arc::clone(&refusal);
        let server = Server::new(move |request| {
            let status = state.status.load(Ordering::Relaxed);
            let reply = match (&*request.method, status) {
                ("OPTIONS", _) => Reply::new(204, b"").with("Access-Control-Allow-Headers", "authorization, range"),
                ("GET", 0) if is_allowed(request) => return with_cookies(request, exposed(answer(&FILE, request))),
                (_, 0) => Reply::new(401, b""),
                (_, status) => Reply::new(status, b""),
            };
            let is_readable = request.method == "OPTIONS" || state.has_cors.load(Ordering::Relaxed) == 1;
            if is_readable { with_cookies(request, readable(reply)) } else { reply }
        });
        Private { url: own_url(&server), server: Some(server), refusal }
    }

    fn refuse(&self, status: u16, cors: Cors) {
        self.refusal.status.store(status, Ordering::Relaxed);
        self.refusal.has_cors.store(u16::from(cors == Cors::Readable), Ordering::Relaxed);
    }

    fn requests(&self) -> usize {
        self.server.as_ref().map_or(0, |server| server.requests().len())
    }

    /// Loads the model. Returns how many bytes came from the cache, or the error.
    fn load(&self, page: &mut Page, options: &Value) -> Result<std::result::Result<u64, String>> {
        let url = json!(self.url);
        let result = page.evaluate(&format!(
            "load({url}, {options}).then((report) => JSON.parse(report).stats.bytesFromCache, ({{ code, message }}) => \
             `${{code}}: ${{message}}`)"
        ))?;
        Ok(result.as_u64().ok_or_else(|| result.as_str().unwrap_or("neither").to_owned()))
    }

    fn is_refused(&self, page: &mut Page, options: &Value, why: &str) -> Result<()> {
        match self.load(page, options)? {
            Ok(bytes) => bail!("{options} loaded the model, {bytes} bytes of it from the cache"),
            Err(error) => ensure!(error.contains(why), "{options} fails with {error:?} instead of {why:?}"),
        }
        Ok(())
    }

    fn is_served(&self, page: &mut Page, options: &Value, from: From) -> Result<()> {
        match self.load(page, options)? {
            Ok(bytes) => ensure!((bytes > 0) == (from == From::Cache), "{options} loaded {bytes} bytes from the cache"),
            Err(error) => bail!("{options} is refused: {error}"),
        }
        Ok(())
    }
}

/// Where the bytes of a load come from.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Network,
    Cache,
}

/// Whether a page can read a refusal.
#[derive(Clone, Copy, PartialEq)]
enum Cors {
    Hidden,
    Readable,
}

fn with_cookies(request: &Request, reply: Reply) -> Reply {
    let Some(origin) = request.header("origin") else { return reply };
    reply.with("Access-Control-Allow-Origin", origin).with("Access-Control-Allow-Credentials", "true")
}

fn has_token_one(request: &Request) -> bool {
    request.header("authorization") == Some(ONE)
}

fn with_token(token: &str) -> Value {
    json!({ "headers": { "Authorization": token } })
}

fn unavailable_after_logout(browser: &mut Chromium, site: &Site) -> Result<()> {
    let private = Private::new(has_token_one);
    let one = with_token(ONE);
    private.is_served(&mut site.page(browser)?, &one, From::Network)?;
    private.is_served(&mut site.page(browser)?, &one, From::Cache)?;
    for (status, cors, why) in [
        (401, Cors::Hidden, "CORS"),
        (401, Cors::Readable, "401"),
        (403, Cors::Hidden, "CORS"),
        (503, Cors::Readable, "503"),
        (502, Cors::Hidden, "CORS"),
    ] {
        private.refuse(status, cors);
        private.is_refused(&mut site.page(browser)?, &one, why)?;
    }
    private.refuse(0, Cors::Hidden);
    private.is_served(&mut site.page(browser)?, &one, From::Cache)
}

fn unavailable_after_logout_by_digest(browser: &mut Chromium, site: &Site) -> Result<()> {
    let private = Private::new(has_token_one);
    let digest = format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(&FILE[..])));
    let pinned = |mut options: Value| {
        if let Some(fields) = options.as_object_mut() {
            fields.insert("digests".into(), json!({ "files": { "m.safetensors": digest } }));
        }
        options
    };
    let one = pinned(with_token(ONE));
    private.is_served(&mut site.page(browser)?, &one, From::Network)?;
    private.is_served(&mut site.page(browser)?, &one, From::Cache)?;
    for other in [pinned(with_token("Bearer two")), pinned(json!({}))] {
        private.is_refused(&mut site.page(browser)?, &other, "NETWORK")?;
    }
    private.refuse(401, Cors::Hidden);
    private.is_refused(&mut site.page(browser)?, &one, "CORS")
}

fn unavailable_in_isolated_pages(browser: &mut Chromium, site: &Site) -> Result<()> {
    let pages = Pages::isolated(site.pages.package())?;
    let mut page = browser.new_page()?;
    page.open(&pages.url())?;
    page.evaluate(SCRIPT)?;
    ensure!(page.evaluate("crossOriginIsolated")? == true, "the page is not isolated");
    let mut private = Private::new(|request| request.header("authorization").is_none_or(|token| token == ONE));
    let one = with_token(ONE);
    for from in [From::Network, From::Cache] {
        private.is_served(&mut page, &one, from)?;
        private.is_served(&mut page, &json!({}), from)?;
    }
    private.refuse(401, Cors::Hidden);
    private.is_refused(&mut page, &one, "isolated")?;
    private.server = None;
    private.is_refused(&mut page, &one, "isolated")?;
    private.is_served(&mut page, &json!({}), From::Cache)?; // the public file
    go_offline(&mut page)?;
    private.is_served(&mut page, &one, From::Cache)?;
    private.is_refused(&mut page, &with_token("Bearer two"), "NETWORK")
}

fn separates_credentials(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut private = Private::new(has_token_one);
    let (one, two) = (with_token(ONE), with_token("Bearer two"));
    private.is_served(&mut site.page(browser)?, &one, From::Network)?;
    let everybody = [two, json!({}), json!({ "credentials": "include" })];
    for options in &everybody {
        private.is_refused(&mut site.page(browser)?, options, "NETWORK")?;
    }
    private.server = None; // unreachable
    for options in &everybody {
        private.is_refused(&mut site.page(browser)?, options, "NETWORK")?;
    }
    private.is_served(&mut site.page(browser)?, &one, From::Cache)?;
    let mut page = site.page(browser)?;
    let urls = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
    ensure!(urls == json!([private.url]), "the cache lists {urls}");
    let left = page.evaluate(&format!("deleteCached({}).then(cachedBytes)", json!(private.url)))?;
    ensure!(left == 0, "{left} bytes are left after deleteCached()");
    Ok(())
}

fn separates_cookies(browser: &mut Chromium, site: &Site) -> Result<()> {
    let private = Private::new(|_| true);
    let cookies = json!({ "credentials": "include" });
    private.is_served(&mut site.page(browser)?, &cookies, From::Network)?;
    private.is_served(&mut site.page(browser)?, &json!({}), From::Network)?;
    private.is_served(&mut site.page(browser)?, &cookies, From::Cache)?;
    private.refuse(401, Cors::Hidden);
    private.is_refused(&mut site.page(browser)?, &cookies, "CORS")
}

fn serves_public_files_during_outage(browser: &mut Chromium, site: &Site) -> Result<()> {
    let private = Private::new(|_| true);
    private.is_served(&mut site.page(browser)?, &json!({}), From::Network)?;
    let before = private.requests();
    private.refuse(503, Cors::Readable);
    private.is_served(&mut site.page(browser)?, &json!({}), From::Cache)?;
    ensure!(private.requests() == before + 1, "the server received {} requests", private.requests() - before);
    private.refuse(403, Cors::Hidden);
    private.is_refused(&mut site.page(browser)?, &json!({}), "CORS")
}

/// A damaged model and an intact one share a tensor.
fn keeps_shared_tensors(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let [a, b] = large(site)?;
    let path = |name: &str| models.folder.path().join(name);
    let url = |name: &str| format!("{}/{name}", models.server.url());
    ztensor::write(&path("sound.zt"), &[("a", &a), ("shared", &b)])?;
    let own = a.get(1 << 20..).context("the tensor is small")?;
    ztensor::write(&path("damaged.zt"), &[("shared", &b), ("own", own)])?;
    fs::OpenOptions::new().write(true).open(path("damaged.zt"))?.write_all_at(b"wrong", 6 << 20)?;
    ztensor::write(&path("third.zt"), &[("c", b"third"), ("shared", &b)])?;
    load(&mut site.page(browser)?, &url("sound.zt"))?;
    let call = format!("load({}).catch((error) => error.code)", json!(url("damaged.zt")));
    let mut page = site.page(browser)?;
    let code = page.evaluate(&call)?;
    ensure!(code == "CHECKSUM", "the damaged model fails with {code}");
    let urls = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
    ensure!(urls == json!([url("sound.zt")]), "the cache still lists {urls}");
    models.sent();
    load(&mut page, &url("sound.zt"))?;
    let (_, sent) = models.sent();
    ensure!(sent <= PROBE_BYTES, "{sent} bytes of the intact model were sent again");
    load(&mut page, &url("third.zt"))?;
    let (_, sent) = models.sent();
    ensure!(sent < 1 << 20, "{sent} bytes were sent: the shared tensor is no longer found");
    Ok(())
}
