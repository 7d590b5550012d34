//! `weightstream sign`: signs a model.

use super::progress::Bar;
use super::signature::path_in;
use super::terminal::{GOOD, inform, styled};
use super::{Failure, model, one_line};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use weightstream::internals::native::read_file;
use weightstream::internals::output::Existing;
use weightstream::internals::signature::{MAX_BUNDLE_BYTES, PrivateKey, sign_folder};
use weightstream::internals::write::{check_output, write_output};
use weightstream::{Error, ErrorKind};

/// A private key has some hundred bytes.
const MAX_KEY_BYTES: u64 = 1 << 20;

/// Signs a model with a key, as OpenSSF Model Signing specifies it: a folder with all its files, or a single file.
///
/// Files of git and the signature itself are left out. Symbolic links and special files are errors. The signature can
/// be verified with `weightstream verify --signature`, with the option `signature` in a web app, and with
/// `model_signing verify key`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 for success, 1 for an error, 2 for wrong usage.")]
pub(super) struct Arguments {
    /// What to sign.
    #[arg(value_name = "FOLDER|FILE")]
    place: PathBuf,
    /// The private key, in PEM: ECDSA with P-256, P-384 or P-521, as PKCS #8 or SEC 1, not encrypted.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The file to write. Another signature is replaced; other files only with `--force`, and none that is signed.
    #[arg(long, value_name = "FILE", default_value = "model.sig")]
    signature: PathBuf,
    /// A path in FOLDER to leave out, with everything below it. Can be repeated.
    #[arg(long = "ignore", value_name = "PATH")]
    ignored: Vec<String>,
    /// Replace the file of `--signature` if it is something else than a signature.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { place, key, signature, ignored, force } = arguments;
    if model::url(&place.clone().into_os_string()).is_some() {
        let error = Error::new(ErrorKind::InvalidArgument, "only files on a disk can be signed, but this is a URL");
        return Err(error.in_file(&place.to_string_lossy()).into());
    }
    let in_key = |error: Error| error.in_file(&key.to_string_lossy());
    let not_text = |_| in_key(Error::new(ErrorKind::InvalidArgument, "this is not a text file in PEM"));
    let text = String::from_utf8(read_file(key, MAX_KEY_BYTES)?).map_err(not_text)?;
    let private = PrivateKey::from_pem(&text).map_err(in_key)?;
    let mut ignored = ignored.iter().map(|path| ignored_path(place, path)).collect::<Result<Vec<_>, _>>()?;
    if place.is_dir() {
        ignored.extend(path_in(place, signature));
    }
    // A private key in a folder that is published would be a leak.
    let is_ignored = |path: &String| ignored.iter().any(|ignored| Path::new(path).starts_with(ignored));
    if let Some(path) = path_in(place, key).filter(|path| !is_ignored(path)) {
        let error = in_key(Error::new(ErrorKind::InvalidArgument, "the private key is in the folder to sign"));
        return Err(error.advise(format!("Move it, or leave it out with `--ignore {path}`.")).into());
    }
    // `--force` is for a file that is in the way, not for one that is signed.
    if place.is_dir() && path_in(place, signature).is_some() && signature.exists() && !is_signature(signature) {
        let error = Error::new(ErrorKind::InvalidArgument, "this file is in the folder to sign, and is no signature");
        let error = error.advise("Choose another file with `--signature`, or remove this one.");
        return Err(error.in_file(&signature.to_string_lossy()).into());
    }
    let inputs = [key.as_path(), place.as_path()];
    let existing = if *force || is_signature(signature) { Existing::Replace } else { Existing::Keep };
    check_output(signature, &inputs, existing)?;
    let bundle = sign_folder(place, &private, &ignored, &Bar::new("signing"))?;
    write_output(signature, bundle.as_bytes(), &inputs, existing)?;
    let [signed, written] = [place, signature].map(|path| one_line(&path.display().to_string()));
    inform(&format!("{}: {signed}; the signature is in {written}", styled(GOOD, "signed")))?;
    Ok(())
}

/// Whether a file is a Sigstore bundle.
fn is_signature(path: &Path) -> bool {
    let text = read_file(path, MAX_BUNDLE_BYTES).unwrap_or_default();
    let bundle: Value = serde_json::from_slice(&text).unwrap_or_default();
    bundle.get("dsseEnvelope").is_some() || bundle.get("verificationMaterial").is_some()
}

/// The path of `--ignore` as the signature states it: relative to the folder, without `.`, `..` and slashes at its end.
fn ignored_path(folder: &Path, path: &str) -> Result<String, Failure> {
    let place = folder.join(path);
    let refused = |kind, what: String| Error::new(kind, what).in_file(&folder.to_string_lossy());
    if !folder.is_dir() {
        let what = "`--ignore` applies only to folders, but this is a file".to_owned();
        return Err(refused(ErrorKind::InvalidArgument, what).advise("Leave out `--ignore`.").into());
    }
    let found = fs::symlink_metadata(&place).ok().and_then(|_| path_in(folder, &place));
    let not_found = || {
        let error = refused(ErrorKind::NotFound, format!("`--ignore {path}` is not in the folder"));
        error.advise("Check the path: it is relative to the folder.")
    };
    Ok(found.filter(|path| !path.is_empty()).ok_or_else(not_found)?)
}
