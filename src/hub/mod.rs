//! The Hugging Face Hub, and hosts with the same paths: a model is addressed by `hf:owner/name@revision/path` or by the
//! URL of a file. Its revision is pinned to a commit, the hub states the SHA-256 of its files, and the signed URLs that
//! the hub redirects to are used until they expire.
//!
//! This module sends no requests: sources provide a `Transport`.

mod address;
mod file_info;
mod listing;
mod redirect;
mod refusal;
mod reply;
mod request;

pub(crate) use address::{Address, is_on_hub};
pub(crate) use redirect::Redirect;
#[cfg(web)]
pub(crate) use reply::PIECE_BYTES;
pub(crate) use reply::Reply;
pub(crate) use request::Transport;

use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::names;
use listing::Listing;
use request::reply_to;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// The hub that addresses refer to, and how to sign in.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hub {
    /// The URL of the hub. URLs of files below it are addresses, too.
    pub endpoint: String,
    /// The access token. It is sent only to the hub, not to the storage that it redirects to.
    pub token: Option<String>,
}

impl Hub {
    crate::setters::setters! {
        with_endpoint endpoint: String;
        with_token token: Option<String>;
    }
}

impl Default for Hub {
    fn default() -> Self {
        Hub { endpoint: "https://huggingface.co".to_owned(), token: None }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("endpoint", &self.endpoint).field("has_token", &self.token.is_some()).finish()
    }
}

/// A file whose revision is pinned.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) url: String,
    pub(crate) repository: Rc<Repository>,
}

/// The files of a repository at one commit.
#[derive(Debug)]
pub(crate) struct Repository {
    base: String,
    /// The same at the revision as it was addressed.
    #[cfg(workers)]
    unpinned_base: String,
    digests: HashMap<String, Digest>,
    /// The paths of all files, if the hub lists them.
    #[cfg(http_client)]
    files: Vec<String>,
}

/// One file of a repository at a commit.
#[derive(Debug)]
pub(crate) struct HubFile {
    pub(crate) repository: Rc<Repository>,
    pub(crate) redirect: Redirect,
}

impl HubFile {
    /// `None` if the URL is not that of a file of the repository.
    pub(crate) fn new(repository: &Rc<Repository>, url: &str) -> Option<Rc<Self>> {
        let file = || Rc::new(HubFile { repository: Rc::clone(repository), redirect: Redirect::default() });
        repository.contains(url).then(file)
    }
}

impl Repository {
    /// Whether the URL is that of a file of the repository at this commit.
    fn contains(&self, url: &str) -> bool {
        url.starts_with(&self.base)
    }

    /// The digest of a file, as the hub states it.
    pub(crate) fn digest_of(&self, url: &str) -> Option<Digest> {
        self.digests.get(&names::path_below(&self.base, url)?).copied()
    }

    /// The paths of the other files in the folder of a file, and in the folders in it, relative to this folder.
    #[cfg(http_client)]
    pub(crate) fn files_beside(&self, url: &str) -> Vec<String> {
        let Some(own) = names::path_below(&self.base, url) else { return Vec::new() };
        let folder = own.rfind('/').and_then(|end| own.get(..=end)).unwrap_or_default();
        let others = self.files.iter().filter(|path| **path != own);
        others.filter_map(|path| path.strip_prefix(folder)).map(str::to_owned).collect()
    }

    /// The URL of a file at the revision as it was addressed. It stays the same when the revision moves.
    #[cfg(workers)]
    pub(crate) fn unpinned(&self, url: &str) -> Option<String> {
        url.strip_prefix(&self.base).map(|path| format!("{}{path}", self.unpinned_base))
    }
}

/// Finds the file of an address, the commit of its revision, and the digests of the repository's files. `None` if the
/// revision cannot be pinned: without a connection, and for a URL of a hub that does not state the commit.
///
/// # Errors
/// `HTTP` for a repository that does not exist or may not be read; `NOT_FOUND` if it has no such file, or several
/// models to choose from; `UNSUPPORTED` if the hub does not state the commit.
pub(crate) async fn locate(address: &Address, transport: &impl Transport) -> Result<Option<Located>> {
    let listing = match list(address, transport).await {
        Ok(listing) => listing,
        // Without a connection, the file may be in a cache.
        Err(error) if address.path.is_some() && error.kind == ErrorKind::Network => return Ok(None),
        // The limit for lists of files is lower than that for files.
        Err(error) if address.url.is_some() && error.is_transient => return Ok(None),
        Err(error) => return Err(error),
    };
    let path = match (&address.path, &listing) {
        (Some(path), _) => path.clone(),
        (None, Some(listing)) => listing.model(&address.repository)?.to_owned(),
        (None, None) => return Err(no_api(address, "list files").advise("Name the file: `hf:owner/name/path`.")),
    };
    let listing = listing.unwrap_or_default();
    let file = listing.find(&path);
    if file.is_none() && !listing.files.is_empty() {
        return Err(listing.no_file(&path, &address.repository).in_file(&address.unpinned()));
    }
    let is_described = file.is_some_and(|file| file.is_described || file.sha256.is_some());
    let mut commit = listing.commit.or_else(|| Some(address.revision.clone()).filter(|name| listing::is_commit(name)));
    let mut digests: HashMap<_, _> =
        listing.files.iter().filter_map(|file| Some((file.path.clone(), file.sha256?))).collect();
    if commit.is_none() || !is_described {
        let info = file_info::file_info(address, &path, transport).await?;
        commit = commit.or(info.commit);
        digests.extend(info.sha256.map(|digest| (path.clone(), digest)));
    }
    match commit {
        Some(commit) => {
            let repository = Repository {
                base: address.base(&commit),
                #[cfg(workers)]
                unpinned_base: address.base(&address.revision),
                digests,
                #[cfg(http_client)]
                files: listing.files.into_iter().map(|file| file.path).collect(),
            };
            Ok(Some(Located { url: address.file(&commit, &path), repository: Rc::new(repository) }))
        }
        None if address.url.is_some() => Ok(None),
        None => {
            let advice = "Name a commit: `hf:owner/name@commit/path`. Otherwise the model could change while it loads.";
            Err(no_api(address, &format!("state the commit of \"{}\"", address.revision)).advise(advice))
        }
    }
}

/// Requests the list of files. `None` if the hub has none.
async fn list(address: &Address, transport: &impl Transport) -> Result<Option<Listing>> {
    let reply = reply_to(address, &address.listing(), "application/json", transport).await?;
    Ok(Listing::parse(&reply.body).filter(|_| reply.status == 200))
}

fn no_api(address: &Address, what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{} does not {what}", address.endpoint)).in_file(&address.unpinned())
}
