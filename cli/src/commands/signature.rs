//! The signature arguments of `verify`: what was signed, and whom to trust.

use super::model::{self, ModelArguments};
use super::progress::Bar;
use super::terminal::{GOOD, inform, styled};
use super::{Failure, count};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weightstream::error::{Error, ErrorKind, Result};
use weightstream::loader::Signature;
use weightstream::names;
use weightstream::native::read_file;
use weightstream::signature::{self, MAX_BUNDLE_BYTES, PublicKey, Roots, Statement, Trust};

/// The options of signatures.
#[derive(clap::Args)]
pub(super) struct SignatureArguments {
    /// The signature of the model (OpenSSF Model Signing), a path or a URL.
    #[arg(long, value_name = "FILE|URL")]
    signature: Option<OsString>,
    /// The public key of the signer, in PEM.
    #[arg(long, value_name = "FILE", requires = "signature", conflicts_with = "certificate_chain")]
    public_key: Option<PathBuf>,
    /// A root, and optionally intermediates, of the certificate of the signer, in PEM. All of them are trusted.
    #[arg(long, value_name = "FILE", requires = "signature")]
    certificate_chain: Option<PathBuf>,
    /// The path of the model's file in the signed folder. By default, it follows from the URLs of the model and of the
    /// signature, which is expected in the signed folder, or else it is the name of the file.
    #[arg(long, value_name = "PATH", requires = "signature")]
    signed_path: Option<String>,
}

impl SignatureArguments {
    /// Verifies the signature. Compares a model on a disk with it; returns what a model at a URL is compared with.
    pub(super) fn verify(&self, place: &ModelArguments) -> Result<Option<Signature>, Failure> {
        let Some(given) = &self.signature else { return Ok(None) };
        let name = given.to_string_lossy();
        let bundle = match model::url(given) {
            Some(url) => place.fetch(url, MAX_BUNDLE_BYTES)?,
            None => read_file(Path::new(given), MAX_BUNDLE_BYTES)?,
        };
        let statement = signature::verify(&bundle, &self.trust()?).map_err(|error| error.in_file(&name))?;
        let Some(url) = place.url() else {
            let files = compare(place.path(), &statement, Path::new(given), self.signed_path.is_some())?;
            inform(&format!("{}: {}, as signed", styled(GOOD, "ok"), count(files, "file")))?;
            return Ok(None);
        };
        let path = self.signed_path.clone().or_else(|| path_below(&name, url));
        Ok(Some(Signature::default().with_files(Arc::new(statement.files)).with_path(path)))
    }

    fn trust(&self) -> Result<Trust> {
        let text = |path: &Path| {
            let bytes = read_file(path, MAX_BUNDLE_BYTES)?;
            String::from_utf8(bytes).map_err(|_| {
                let error = Error::new(ErrorKind::InvalidArgument, "this is not a text file in PEM");
                error.in_file(&path.to_string_lossy())
            })
        };
        match (&self.public_key, &self.certificate_chain) {
            (Some(path), _) => {
                let key = PublicKey::from_pem(&text(path)?);
                key.map(Trust::Key).map_err(|error| error.in_file(&path.to_string_lossy()))
            }
            (None, Some(path)) => {
                let roots = Roots::from_pem(&text(path)?);
                roots.map(Trust::Certificates).map_err(|error| error.in_file(&path.to_string_lossy()))
            }
            (None, None) => {
                let error = Error::new(ErrorKind::InvalidArgument, "`--signature` does not say whom to trust");
                Err(error.advise("Pass `--public-key` or `--certificate-chain`."))
            }
        }
    }
}

/// Compares a folder or a file with what was signed. The signature itself need not be signed.
fn compare(place: &Path, statement: &Statement, signature: &Path, has_path: bool) -> Result<usize> {
    let is_single = statement.files.of(".").is_ok();
    let what = match (place.is_dir(), is_single) {
        _ if has_path => "`--signed-path` applies only to models at URLs, but this is on a disk",
        (true, true) => "a folder is given, but a single file was signed",
        (false, false) => "a single file is given, but a folder was signed",
        _ => {
            let unsigned: Vec<String> = path_in(place, signature).into_iter().collect();
            return signature::verify_folder(place, statement, &unsigned, &Bar::new("comparing"));
        }
    };
    let error = Error::new(ErrorKind::InvalidArgument, what).in_file(&place.to_string_lossy());
    Err(error.advise("Pass what was signed: the folder with all its files, or the file."))
}

/// The path of a file relative to a folder, if it is below it.
pub(super) fn path_in(folder: &Path, file: &Path) -> Option<String> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = fs::canonicalize(parent).ok()?.join(file.file_name()?);
    let path = file.strip_prefix(fs::canonicalize(folder).ok()?).ok()?;
    path.to_str().map(|path| path.replace(std::path::MAIN_SEPARATOR, "/"))
}

/// The path of `url` relative to the folder of `signature`, if it is below it.
fn path_below(signature: &str, url: &str) -> Option<String> {
    let plain = |url: &str| url.split(['?', '#']).next().unwrap_or_default().to_owned();
    let folder = plain(signature);
    let folder = folder.get(..=folder.rfind('/')?)?;
    let path = plain(url);
    names::decoded(path.strip_prefix(folder)?)
}
