//! Which model is meant: folders, repositories of a hub, and the files of a model at a URL.

use super::Folder;
use super::bytes::{noise, safetensors};
use super::command::{fail, succeed};
use super::corpus;
use super::hub_server::{Api, MockHub};
use super::server::{Reply, Request, Server, answer};
use std::fs;
use std::process::Command;
use std::rc::Rc;
use weightstream::Result;
use weightstream::internals::loader::Options;
use weightstream::internals::native::RemoteReader;
use weightstream::internals::source::PartUrls;
use weightstream::internals::source::http::HttpSource;
use weightstream_cli::serve;

const KEY: &str = include_str!("../../../tests/docs/signing.key");

fn model(name: &str, seed: u64) -> Vec<u8> {
    safetensors(None, &[(name, "U8", &[3000][..], noise(seed, 3000))])
}

const INDEX: &[u8] = br#"{"weight_map":{"a":"x-00001-of-00002.safetensors","b":"x-00002-of-00002.safetensors"}}"#;

#[test]
fn a_published_and_a_downloaded_folder_are_opened_as_the_model_in_them() {
    let folder = Folder::new();
    let formats = [("apr", "model.apr"), ("safetensors", "x.safetensors"), ("aero", "x.aero"), ("ztensor", "x.zt")];
    for (format, entry) in formats {
        let out = format!("out-{format}");
        for seed in [1, 2] {
            let tensors = [("a", "U8", &[3000][..], noise(0, 3000)), ("b", "U8", &[3000][..], noise(seed, 3000))];
            folder.write("m.safetensors", &safetensors(None, &tensors));
            let place = format!("{out}/{entry}");
            succeed(&folder, &["publish", "m.safetensors", &place, "--format", format, "--shard-size", "5kB"]);
        }
        let server = serve::Server::new().mount("/", folder.0.path()).bind("127.0.0.1:0").unwrap().spawn();
        let names = fs::read_dir(folder.path(&out)).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_by_key(String::len);
        let downloaded = format!("copy-{format}");
        succeed(&folder, &["download", &format!("{}/{out}/{}", server.url(), entry_of(&names)), &downloaded]);
        for place in [&out, &downloaded] {
            let printed = succeed(&folder, &["inspect", place]);
            assert!(printed.contains(" 2 tensors"), "{printed}");
            assert!(succeed(&folder, &["verify", place]).starts_with("ok: "));
            succeed(&folder, &["diff", "m.safetensors", place, "--no-metadata"]);
        }
        folder.write("key.pem", KEY.as_bytes());
        let signature = format!("{downloaded}/model.sig");
        succeed(&folder, &["sign", &downloaded, "--key", "key.pem", "--signature", &signature]);
    }
}

/// The entry: the only document of a published folder.
fn entry_of(names: &[String]) -> &str {
    names.iter().find(|name| name.ends_with(".json") || *name == "model.apr").unwrap()
}

#[test]
fn floats_are_published_compressed_and_other_weights_as_they_are() {
    let folder = Folder::new();
    let mut floats = noise(5, 4 * 60_000);
    floats.chunks_exact_mut(4).for_each(|number| number[3] = 60 + (number[3] & 3));
    let tensors = [("a", "F32", &[300, 200][..], floats), ("b", "U8", &[3000], noise(0, 3000))];
    folder.write("floats.safetensors", &safetensors(None, &tensors));
    let printed = succeed(&folder, &["publish", "floats.safetensors", "floats/"]);
    assert!(printed.contains("smaller than without compression (0.8"), "{printed}");
    succeed(&folder, &["diff", "floats.safetensors", "floats/model.zt.index.json", "--no-metadata"]);
    assert!(succeed(&folder, &["verify", "floats"]).contains("sha256"));
    let listed = succeed(&folder, &["inspect", "--json", "floats"]);
    assert!(listed.contains(r#""encoding":"byte_stream_split""#), "{listed}");
    // A second run has nothing to do, and the next revision has the format of the previous one.
    assert!(succeed(&folder, &["publish", "floats.safetensors", "floats/"]).contains("0 files sent"));
    let from = ["publish", "floats.safetensors", "floats/", "--from", "floats/model.zt.index.json"];
    succeed(&folder, &from);

    folder.write("bytes.safetensors", &model("a", 1));
    succeed(&folder, &["publish", "bytes.safetensors", "bytes/"]);
    assert!(folder.path("bytes/model.apr").exists());
    succeed(&folder, &["publish", "floats.safetensors", "apr/", "--format", "apr"]);
    assert!(folder.path("apr/model.apr").exists());
}

#[test]
fn a_file_of_the_format_is_not_taken_for_an_entry() {
    let folder = Folder::new();
    folder.write("m/x.safetensors", &model("a", 1));
    for name in ["m/x.apr", "m/x-0123456789abcdef.apr"] {
        succeed(&folder, &["convert", "m/x.safetensors", name]);
    }
    fs::remove_file(folder.path("m/x.safetensors")).unwrap();
    assert!(fail(&folder, &["inspect", "m"]).contains("2 models are in this folder"));
}

#[test]
fn a_folder_is_searched_like_a_repository() {
    let folder = Folder::new();
    folder.write("m/one/x.safetensors.index.fp16.json", INDEX);
    folder.write("m/one/x-00001-of-00002.safetensors", &model("a", 1));
    folder.write("m/one/x-00002-of-00002.safetensors", &model("b", 2));
    folder.write("m/one/.cache/y.safetensors", &model("c", 3));
    assert!(succeed(&folder, &["inspect", "m"]).contains("2 files, 2 tensors"));
    folder.write("m/vae.safetensors", &model("c", 3));
    let error = fail(&folder, &["inspect", "m"]);
    assert!(error.contains("one of one/x.safetensors.index.fp16.json, vae.safetensors"), "{error}");
    // What an index names belongs to it, whatever its name is.
    folder.write("n/y.safetensors.index.json", br#"{"weight_map":{"a":"language.safetensors"}}"#);
    folder.write("n/language.safetensors", &model("a", 1));
    assert!(succeed(&folder, &["inspect", "n"]).contains("1 file, 1 tensor"));
}

#[test]
fn a_repository_is_opened_only_if_there_is_no_choice() {
    let (a, b) = (&*model("a", 1), &*model("b", 2));
    let (one, two) = ("x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors");
    let gguf = fs::read(corpus::root().join("gguf/plain.gguf")).unwrap();
    type Files<'a> = &'a [(&'a str, &'a [u8])];
    let cases: [(Files<'_>, &str); 5] = [
        (&[(one, a), (two, b), ("x.safetensors.index.json", INDEX)], "2 files, 2 tensors"),
        (&[(one, a), (two, b), ("x.safetensors.index.fp16.json", INDEX)], "2 files, 2 tensors"),
        (&[("basic.GGUF", &gguf), ("README.md", b"")], "1 file"),
        (
            &[("model_index.json", b"{}"), ("t/x.safetensors.index.json", INDEX), ("vae/x.safetensors", a)],
            "PATH` with t/x.safetensors.index.json, vae/x.safetensors.",
        ),
        (&[("t/x-00001-of-00002.safetensors", a), ("vae/x.safetensors", a)], "has 2 models"),
    ];
    for (files, expected) in cases {
        let mock = MockHub::new(Api::Full, files);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
        let output = command.args(["inspect", "hf:owner/name"]).env("HF_ENDPOINT", mock.hub.url("")).output().unwrap();
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}

/// A server with two shards that needs a signature in the query of each request.
fn signed_server() -> Server {
    Server::new(|request: &Request| {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        match path.rsplit(['/', 'F']).next() {
            _ if query != "sig=a%2Fb" && !path.starts_with("/open/") => Reply::new(403, b""),
            Some("x.index.json") => answer(INDEX, request),
            Some("x-00001-of-00002.safetensors") => answer(&model("a", 1), request),
            Some("x-00002-of-00002.safetensors") => answer(&model("b", 2), request),
            _ => Reply::new(404, b""),
        }
    })
}

fn open(url: &str, headers: &[(String, String)], part_urls: PartUrls) -> Result<RemoteReader> {
    RemoteReader::open_source(HttpSource::new(url, headers)?.with_part_urls(part_urls), Options::default())
}

#[test]
fn parts_of_a_model_are_requested_with_the_query_of_its_url() {
    let server = signed_server();
    for place in ["/m/x.index.json", "/v0/o/m%2Fx.index.json", "/v0/o/a%2fm%2Fx.index.json"] {
        let url = server.url(&format!("{place}?sig=a%2Fb"));
        assert_eq!(open(&url, &[], PartUrls::KeepQuery).unwrap().tensors().len(), 2, "{place}");
        let error = open(&url, &[], PartUrls::DropQuery).unwrap_err();
        assert_eq!(error.context.status, Some(403), "{error}");
    }
    let paths: Vec<_> = server.requests().into_iter().map(|request| request.path).collect();
    assert!(paths.contains(&"/v0/o/m%2Fx-00002-of-00002.safetensors?sig=a%2Fb".to_owned()), "{paths:?}");
}

#[test]
fn mapped_urls_of_another_origin_get_no_headers() {
    let (server, other) = (signed_server(), signed_server());
    let elsewhere = other.url("/open/");
    let map = move |path: &str, url: &str| {
        assert!(url.ends_with("?sig=a%2Fb"), "{url}");
        Ok(path.contains("00001").then(|| format!("{elsewhere}{path}")))
    };
    let headers = [("Authorization".to_owned(), "Bearer s3cret".to_owned())];
    let url = server.url("/m/x.index.json?sig=a%2Fb");
    assert_eq!(open(&url, &headers, PartUrls::Map(Rc::new(map))).unwrap().tensors().len(), 2);
    assert!(server.requests().iter().all(|request| request.header("authorization").is_some()));
    let requests = other.requests();
    assert!(!requests.is_empty() && requests.iter().all(|request| request.header("authorization").is_none()));
}
