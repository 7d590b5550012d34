//! The signature arguments of `verify`: what was signed, and whom to trust.

use super::Failure;
use super::model::{self, Model, ModelArguments};
use super::progress::Bar;
use super::terminal::{GOOD, inform, styled};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weightstream::internals::loader::SignedDigests;
use weightstream::internals::names;
use weightstream::internals::native::read_file;
use weightstream::internals::signature::{self, MAX_BUNDLE_BYTES, PublicKey, Roots, Statement, Trust};
use weightstream::{Error, ErrorKind, Result};

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
    /// The path of the model's file in the signed folder. By default, it follows from the places of the model and of
    /// the signature, which is expected in the signed folder, or else it is the name of the file.
    #[arg(long, value_name = "PATH", requires = "signature")]
    signed_path: Option<String>,
}

/// What a verified signature states about the model.
pub(super) enum Signed {
    /// There is no signature.
    Nothing,
    /// What the loader of a model at a URL compares.
    Remote(SignedDigests),
    /// What the files of a model on a disk are compared with.
    Local(LocalModel),
}

/// A model on a disk whose signature was verified.
pub(super) struct LocalModel {
    statement: Statement,
    /// The folder of the opened file, and its path in the signed folder: empty, or with a slash at its end.
    folder: PathBuf,
    prefix: String,
    /// The opened file, which was compared already.
    opened: Option<PathBuf>,
    /// The number of files that were compared.
    count: usize,
}

impl SignatureArguments {
    /// Verifies the signature, and compares a folder or a file on a disk with it.
    pub(super) fn verify(&self, place: &ModelArguments) -> Result<Signed, Failure> {
        let Some(given) = &self.signature else { return Ok(Signed::Nothing) };
        let name = given.to_string_lossy();
        let bundle = match model::url(given) {
            Some(url) => place.fetch(url, MAX_BUNDLE_BYTES)?,
            None => read_file(Path::new(given), MAX_BUNDLE_BYTES)?,
        };
        let statement = signature::verify(&bundle, &self.trust()?).map_err(|error| error.in_file(&name))?;
        let Some(url) = place.url() else {
            return Ok(Signed::Local(self.compare(place.path(), statement, given)?));
        };
        let path = self.signed_path.clone().or_else(|| names::path_below(&name, url));
        Ok(Signed::Remote(SignedDigests::default().with_files(Arc::new(statement.files)).with_path(path)))
    }

    /// Compares a folder or a file with what was signed. The signature itself need not be signed.
    fn compare(&self, place: &Path, statement: Statement, signature: &OsString) -> Result<LocalModel> {
        let is_single = statement.files.of(".").is_ok();
        let what = match (place.is_dir(), is_single, &self.signed_path) {
            (true, _, Some(_)) => "`--signed-path` is the path of a file, but a folder is given",
            (true, true, None) => "a folder is given, but a single file was signed",
            (true, false, None) => {
                let unsigned: Vec<String> = path_in(place, Path::new(signature)).into_iter().collect();
                let count = signature::verify_folder(place, &statement, &unsigned, &Bar::new("comparing"))?;
                let folder = place.to_owned();
                return Ok(LocalModel { statement, folder, prefix: String::new(), opened: None, count });
            }
            (false, ..) => {
                let path = self.signed_path.clone().unwrap_or_else(|| signed_path(place, &statement, signature));
                signature::verify_file(place, &path, &statement, &Bar::new("comparing"))?;
                let prefix = path.rfind('/').and_then(|end| path.get(..=end)).unwrap_or_default().to_owned();
                let folder = place.parent().unwrap_or(Path::new("")).to_owned();
                return Ok(LocalModel { statement, folder, prefix, opened: Some(place.to_owned()), count: 1 });
            }
        };
        let error = Error::new(ErrorKind::InvalidArgument, what).in_file(&place.to_string_lossy());
        Err(error.advise("Pass what was signed: the folder with all its files, or one of its files."))
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

impl Signed {
    /// What the loader of a model at a URL compares.
    pub(super) fn remote(&self) -> Option<SignedDigests> {
        match self {
            Signed::Remote(signature) => Some(signature.clone()),
            Signed::Nothing | Signed::Local(_) => None,
        }
    }

    /// Compares the files of the open model: all of them must be signed, also those that were ignored.
    pub(super) fn check(&self, model: &Model) -> Result<(), Failure> {
        let (Signed::Local(signed), Model::Local(reader)) = (self, model) else { return Ok(()) };
        let mut count = signed.count;
        for path in reader.paths().filter(|path| Some(*path) != signed.opened.as_deref()) {
            let inside = path.strip_prefix(&signed.folder).ok().and_then(Path::to_str);
            let inside = inside.map(|inside| inside.replace(std::path::MAIN_SEPARATOR, "/"));
            let name = format!("{}{}", signed.prefix, inside.unwrap_or_else(|| path.to_string_lossy().into_owned()));
            if signed.opened.is_some() {
                signature::verify_file(path, &name, &signed.statement, &Bar::new("comparing"))?;
                count += 1;
            } else {
                signed.statement.files.of(&name).map_err(|error| error.in_file(&path.to_string_lossy()))?;
            }
        }
        inform(&format!("{}: {}, as signed", styled(GOOD, "ok"), super::count(count, "file")))?;
        Ok(())
    }
}

/// The path of a file in the signed folder: relative to the folder of the signature, or else its name.
fn signed_path(place: &Path, statement: &Statement, signature: &OsString) -> String {
    if statement.files.of(".").is_ok() {
        return ".".to_owned();
    }
    let folder = Path::new(signature).parent().filter(|_| model::url(signature).is_none());
    let folder = folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let below = folder.and_then(|folder| path_in(folder, place)).filter(|path| statement.files.of(path).is_ok());
    below.unwrap_or_else(|| place.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// The path of a file relative to a folder, if it is below it.
pub(super) fn path_in(folder: &Path, file: &Path) -> Option<String> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = fs::canonicalize(parent).ok()?.join(file.file_name()?);
    let path = file.strip_prefix(fs::canonicalize(folder).ok()?).ok()?;
    path.to_str().map(|path| path.replace(std::path::MAIN_SEPARATOR, "/"))
}
