//! Publishes a model in emulators of S3, Google Cloud Storage and Azure, and on a web server, and reads it from there.

mod emulators;
mod engines;
mod proxy;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use emulators::{Emulator, Emulators, S3_KEYS};
use proxy::Proxy;
use xtask::project::Project;
use xtask::{command, model};

/// The time limit until an interrupted upload reaches the limit of its proxy.
const UPLOAD_LIMIT: Duration = Duration::from_secs(60);

/// The size of the parts of an upload.
const PART_BYTES: u64 = 8 << 20;

const MB: u64 = 1_000_000;

/// The sizes of three tensors in MB. The last makes a file of several parts.
const SIZES: [u64; 3] = [3, 2, 40];

/// The emulator of Google Cloud Storage has no uploads in parts.
const SMALL_SIZES: [u64; 3] = [3, 2, 4];

/// A store, and how the command line finds it.
struct Store {
    name: &'static str,
    url: String,
    variables: Vec<(&'static str, String)>,
    sizes: [u64; 3],
}

/// Runs the command line in a folder of models.
struct Publisher {
    program: PathBuf,
    folder: PathBuf,
}

pub fn run(project: &Project) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let emulators = Emulators::ready(project, folder.path())?;
    let publisher = Publisher { program: model::command_line(project)?, folder: folder.path().to_owned() };
    let (s3, google, azure) = (emulators.s3("models")?, emulators.google()?, emulators.azure("models")?);
    let nginx = emulators.nginx()?;
    let local = |port: u16| format!("http://127.0.0.1:{port}");
    let stores = [
        Store {
            name: "S3",
            url: "s3://models/tiny/".to_owned(),
            variables: s3_variables(local(s3.port)),
            sizes: SIZES,
        },
        Store {
            name: "Google Cloud Storage",
            url: "gs://models/tiny/".to_owned(),
            variables: vec![("GOOGLE_BASE_URL", local(google.port)), ("GOOGLE_BEARER_TOKEN", "test".to_owned())],
            sizes: SMALL_SIZES,
        },
        Store {
            name: "Azure",
            url: "az://models/tiny/".to_owned(),
            variables: vec![
                ("AZURE_STORAGE_USE_EMULATOR", "true".to_owned()),
                ("AZURITE_BLOB_STORAGE_URL", local(azure.port)),
            ],
            sizes: SIZES,
        },
        Store { name: "nginx", url: format!("{}/tiny/", local(nginx.port)), variables: Vec::new(), sizes: SIZES },
    ];
    for store in &stores {
        let place = || format!("{} failed", store.name);
        publishes_only_what_changed(&publisher, store).with_context(place)?;
        updates_a_downloaded_folder(&publisher, store).with_context(place)?;
        println!("{}: published, read back, published again with one changed tensor, and downloaded", store.name);
    }
    let [store, ..] = &stores;
    keeps_headers(&emulators, &s3)?;
    keeps_odd_names(&publisher, &emulators, store, &s3)?;
    publishes_from_a_store(&publisher, store)?;
    names_what_is_wrong(&publisher, store)?;
    continues_an_interrupted_upload(&publisher, &emulators)?;
    is_the_same_from_several_machines(project, &publisher)
}

fn publishes_only_what_changed(publisher: &Publisher, store: &Store) -> Result<()> {
    let Store { url, sizes, .. } = store;
    let (first, second) = (publisher.model("first", sizes, 0)?, publisher.model("second", sizes, 1)?);
    let publish = |model: &Path| publisher.run(store, &["publish", text(model)?, url, "--shard-size", "4MB"]);
    let entry = format!("{url}model.apr");
    let report = publish(&first)?;
    ensure!(report.contains("3 files sent"), "the first run sent something else: {report}");
    publisher.run(store, &["diff", "--no-metadata", text(&first)?, &entry])?;
    publisher.run(store, &["verify", &entry])?;
    let report = publish(&first)?;
    ensure!(report.contains("0 files sent"), "a second run sent files: {report}");
    let report = publish(&second)?;
    ensure!(report.contains("1 file sent"), "one tensor changed: {report}");
    publisher.run(store, &["diff", "--no-metadata", text(&second)?, &entry]).map(drop)
}

/// The entry lists what the changed file has in common with the one of the previous revision.
fn updates_a_downloaded_folder(publisher: &Publisher, store: &Store) -> Result<()> {
    let Store { url, sizes, name, .. } = store;
    let (second, third) = (publisher.model("second", sizes, 1)?, publisher.folder.join("third.safetensors"));
    let mut bytes = fs::read(&second)?;
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).context("the model is empty")? ^= 1;
    fs::write(&third, bytes)?;
    let (entry, copy) = (format!("{url}model.apr"), publisher.folder.join(format!("copy of {name}")));
    publisher.run(store, &["download", &entry, text(&copy)?])?;
    publisher.run(store, &["publish", text(&third)?, url, "--shard-size", "4MB", "--from", &entry])?;
    let report = publisher.run(store, &["download", &entry, text(&copy)?])?;
    ensure!(report.contains("copied from the previous revision"), "a changed byte costs a whole file: {report}");
    publisher.run(store, &["diff", "--no-metadata", text(&third)?, text(&copy.join("model.apr"))?]).map(drop)
}

fn keeps_headers(emulators: &Emulators, s3: &Emulator) -> Result<()> {
    let objects = emulators.s3_objects(s3, "models")?;
    let objects = objects.as_object().context("there are no objects")?;
    let immutable = "public, max-age=31536000, immutable, no-transform";
    for (name, headers) in objects {
        let expected = match name.ends_with("model.apr") {
            true => json!(["no-cache", "application/json"]),
            false => json!([immutable, "application/octet-stream"]),
        };
        let found = headers.as_array().and_then(|headers| headers.get(..2)).map(<[Value]>::to_vec);
        ensure!(found == expected.as_array().cloned(), "{name} has the headers {headers}");
    }
    // Five files, of which two belong only to earlier revisions, that of the differences, and the entry; no record is
    // left.
    ensure!(objects.len() == 7, "the bucket contains {:?}", objects.keys());
    Ok(())
}

/// Keys are the names that the entry states, and URLs encode them.
fn keeps_odd_names(publisher: &Publisher, emulators: &Emulators, store: &Store, s3: &Emulator) -> Result<()> {
    let model = publisher.model("first", &SMALL_SIZES, 0)?;
    let (name, copy) = ("~a [1] {2} %41 * + & = é", publisher.folder.join("odd"));
    let entry = format!("s3://models/odd/{}.apr", name.replace('%', "%25"));
    publisher.run(store, &["publish", text(&model)?, &entry])?;
    publisher.run(store, &["verify", &entry])?;
    publisher.run(store, &["download", &entry, text(&copy)?])?;
    publisher.run(store, &["diff", "--no-metadata", text(&model)?, text(&copy.join(format!("{name}.apr")))?])?;
    let objects = emulators.s3_objects(s3, "models")?;
    ensure!(objects.get(format!("odd/{name}.apr")).is_some(), "the bucket contains {objects}");
    Ok(())
}

fn publishes_from_a_store(publisher: &Publisher, store: &Store) -> Result<()> {
    let (entry, copy) = (format!("{}model.apr", store.url), publisher.folder.join("copy"));
    publisher.run(store, &["publish", &entry, text(&copy)?, "--dtype", "F16"])?;
    publisher.run(store, &["verify", text(&copy.join("model.apr"))?]).map(drop)
}

fn names_what_is_wrong(publisher: &Publisher, store: &Store) -> Result<()> {
    let model = publisher.model("first", &store.sizes, 0)?;
    let error = publisher.fails(store, &["publish", text(&model)?, "s3://no-such-bucket/tiny/"])?;
    ensure!(error.contains("s3://no-such-bucket/tiny/") && error.contains("bucket"), "the message is: {error}");
    let error = publisher.fails(store, &["inspect", "s3://models/other/model.apr"])?;
    ensure!(error.contains("error[NOT_FOUND]") && error.contains("other/model.apr"), "the message is: {error}");
    Ok(())
}

/// Kills the command in the middle of a file. The next run sends only the missing parts of the file.
fn continues_an_interrupted_upload(publisher: &Publisher, emulators: &Emulators) -> Result<()> {
    let s3 = emulators.s3("models")?;
    let model = publisher.model("first", &SIZES, 0)?;
    let to = |proxy: &Proxy| Store {
        name: "S3",
        url: "s3://models/cut/".to_owned(),
        variables: s3_variables(proxy.url()),
        sizes: SIZES,
    };
    let proxy = Proxy::start(s3.port, 5 * MB + 3 * PART_BYTES + 2 * MB)?;
    let arguments = ["publish", text(&model)?, "s3://models/cut/", "--shard-size", "4MB"];
    let mut process = publisher.command(&to(&proxy), &arguments).stdin(Stdio::null()).spawn()?;
    let end = Instant::now() + UPLOAD_LIMIT;
    while !proxy.is_stopped() {
        ensure!(process.try_wait()?.is_none() && Instant::now() < end, "the upload was not interrupted");
        sleep(Duration::from_millis(20));
    }
    process.kill()?;
    process.wait()?;
    let objects = emulators.s3_objects(&s3, "models")?;
    let names: Vec<_> = objects.as_object().into_iter().flat_map(Map::keys).collect();
    ensure!(!names.iter().any(|name| name.ends_with("model.apr")), "the entry exists: {names:?}");
    ensure!(names.iter().any(|name| name.ends_with(".upload.json")), "the parts have no journal: {names:?}");

    let proxy = Proxy::start(s3.port, u64::MAX)?;
    let store = to(&proxy);
    publisher.run(&store, &arguments)?;
    let sent = proxy.sent_bytes();
    let missing = 40 * MB - 2 * PART_BYTES + MB; // with the heads of the requests
    ensure!(sent < missing, "the second run sent {sent} bytes; at most {missing} were missing");
    publisher.run(&store, &["diff", "--no-metadata", text(&model)?, "s3://models/cut/model.apr"])?;
    let objects = emulators.s3_objects(&s3, "models")?;
    let count = objects.as_object().map_or(0, Map::len);
    ensure!(count == 4, "three files and the entry, without records: {objects}");
    println!("S3: killed in the middle of a file; the second run sent {sent} of {} bytes", 45 * MB);
    Ok(())
}

fn is_the_same_from_several_machines(project: &Project, publisher: &Publisher) -> Result<()> {
    let model = publisher.model("parts", &[20, 15, 25], 0)?;
    let one = publisher.folder.join("one");
    let local = Store { name: "a folder", url: text(&one)?.to_owned(), variables: Vec::new(), sizes: SIZES };
    publisher.run(&local, &["publish", text(&model)?, &local.url])?;
    engines::publish_in_parts(project, &publisher.program, &model, &one)
}

impl Publisher {
    /// Writes a SafeTensors file with three tensors of these sizes in MB. The first tensor differs between versions.
    fn model(&self, name: &str, sizes: &[u64; 3], version: u64) -> Result<PathBuf> {
        let (mut header, mut data) = (Map::new(), Vec::new());
        for (number, size) in sizes.iter().enumerate() {
            let start = data.len();
            data.extend(noise(100 * number as u64 + if number == 0 { version } else { 0 }, size * MB));
            // Not floats, which would be published as zTensor: the entry is `model.apr`.
            let tensor = json!({ "dtype": "I32", "shape": [size * MB / 4], "data_offsets": [start, data.len()] });
            header.insert(format!("layers.{number}.weight"), tensor);
        }
        let header = serde_json::to_vec(&header)?;
        let path = self.folder.join(format!("{name}.safetensors"));
        fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat())?;
        Ok(path)
    }

    fn command(&self, store: &Store, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("TMPDIR", &self.folder)
            .envs(store.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the command line, and returns what it prints.
    fn run(&self, store: &Store, arguments: &[&str]) -> Result<String> {
        command::output(&mut self.command(store, arguments))
    }

    /// Runs the command line, which must fail, and returns its message.
    fn fails(&self, store: &Store, arguments: &[&str]) -> Result<String> {
        let output = self.command(store, arguments).stdin(Stdio::null()).output()?;
        ensure!(!output.status.success(), "{arguments:?} succeeded");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn s3_variables(endpoint: String) -> Vec<(&'static str, String)> {
    let keys = S3_KEYS.iter().map(|(name, value)| (*name, (*value).to_owned()));
    keys.chain([("AWS_ENDPOINT_URL", endpoint)]).collect()
}

/// Bytes that depend on the seed. They are small floats, so that casts of them lose only precision.
fn noise(seed: u64, byte_length: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32
    };
    (0..byte_length / 4).flat_map(|_| next().to_le_bytes()).collect()
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path is not UTF-8")
}
