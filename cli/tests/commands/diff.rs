//! `diff`.

use super::bytes::{noise, safetensors};
use super::command::{run, succeed};
use super::server::{Reply, Server, answer};
use super::{FILE, Folder, corpus};
use serde_json::{Value, json};
use std::fs;
use weightstream::internals::native::Reader;

fn folder() -> Folder {
    let folder = Folder::new();
    let before = [
        ("same", "F32", &[2, 2][..], noise(1, 16)),
        ("bytes", "F32", &[4], noise(2, 16)),
        ("dtype", "F32", &[2], noise(3, 8)),
        ("shape", "U8", &[2, 3], noise(4, 6)),
        ("old.name", "F16", &[5], noise(5, 10)),
        ("gone", "F16", &[5], noise(6, 10)),
    ];
    folder.write("a.safetensors", &safetensors(Some(json!({ "format": "pt", "old": "1" })), &before));
    let after = [
        ("new", "F16", &[5][..], noise(7, 10)),
        ("new.name", "F16", &[5], noise(5, 10)),
        ("shape", "U8", &[3, 2], noise(4, 6)),
        ("dtype", "I32", &[2], noise(3, 8)),
        ("bytes", "F32", &[4], noise(20, 16)),
        ("same", "F32", &[2, 2], noise(1, 16)),
    ];
    folder.write("b.safetensors", &safetensors(Some(json!({ "format": "np", "new": "2" })), &after));
    folder
}

/// Runs `diff` on models that are different. Returns its standard output.
#[track_caller]
fn different(folder: &Folder, arguments: &[&str]) -> String {
    let output = run(folder, &[&["diff"], arguments].concat());
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_kind_of_difference_is_reported() {
    let folder = folder();
    let expected = "\
removed  gone  F16 [5]
added    new  F16 [5]
renamed  old.name → new.name  F16 [5]
changed  bytes  bytes of F32 [4]
changed  dtype  F32 → I32
changed  shape  [2, 3] → [3, 2]
removed  metadata old: \"1\"
added    metadata new: \"2\"
changed  metadata format: \"pt\" → \"np\"
tensors: 1 removed, 1 added, 1 renamed, 3 changed, 1 equal; metadata: 1 removed, 1 added, 1 changed
";
    assert_eq!(different(&folder, &["a.safetensors", "b.safetensors"]), expected);
    let quiet = different(&folder, &["a.safetensors", "b.safetensors", "--quiet"]);
    assert_eq!(quiet, expected.rsplit_once("tensors: ").unwrap().0);
}

#[test]
fn the_json_has_the_documented_keys() {
    let folder = folder();
    let printed = different(&folder, &["a.safetensors", "b.safetensors", "--json"]);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let sha256 = |file: &str| {
        let printed = succeed(&folder, &["inspect", file, "--json", "--sha256", "--filter", "bytes"]);
        serde_json::from_str::<Value>(&printed).unwrap()["tensors"][0]["sha256"].clone()
    };
    let expected = json!({
        "equal": false,
        "equalTensors": 1,
        "removed": [{ "name": "gone", "dtype": "F16", "shape": [5] }],
        "added": [{ "name": "new", "dtype": "F16", "shape": [5] }],
        "renamed": [{ "from": "old.name", "to": "new.name", "dtype": "F16", "shape": [5] }],
        "changed": [
            { "name": "bytes", "sha256": { "from": sha256("a.safetensors"), "to": sha256("b.safetensors") } },
            { "name": "dtype", "dtype": { "from": "F32", "to": "I32" } },
            { "name": "shape", "shape": { "from": [2, 3], "to": [3, 2] } },
        ],
        "metadata": {
            "removed": { "old": "1" },
            "added": { "new": "2" },
            "changed": { "format": { "from": "pt", "to": "np" } },
        },
    });
    assert_eq!(printed, expected);
    let printed = different(&folder, &["a.safetensors", "b.safetensors", "--json", "--no-metadata"]);
    assert!(serde_json::from_str::<Value>(&printed).unwrap().get("metadata").is_none(), "{printed}");
}

#[test]
fn a_model_equals_its_conversions_in_any_form() {
    let folder = Folder::new();
    let tensors = [("ramp", "I16", &[300, 100][..], noise(1, 60_000)), ("zeros", "U8", &[50_000], vec![0; 50_000])];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    fs::create_dir(folder.path("set")).unwrap();
    succeed(&folder, &["convert", "m.safetensors", "set/s.apr", "--compress", "lz4", "--shard-size", "70kB"]);
    succeed(&folder, &["convert", "m.safetensors", "m.zt", "--compress", "zstd"]);
    for other in ["set", "m.zt", "m.safetensors"] {
        let printed = succeed(&folder, &["diff", "m.safetensors", other, "--no-metadata"]);
        assert_eq!(printed, "equal: 2 tensors\n", "{other}");
        assert_eq!(succeed(&folder, &["diff", other, "m.safetensors", "--no-metadata", "-q"]), "");
    }
    assert_eq!(succeed(&folder, &["diff", "m.zt", "m.zt"]), "equal: 2 tensors and the metadata\n");
    let printed = succeed(&folder, &["diff", "m.zt", "m.zt", "--json"]);
    let expected = json!({
        "equal": true, "equalTensors": 2, "removed": [], "added": [], "renamed": [], "changed": [],
        "metadata": { "removed": {}, "added": {}, "changed": {} },
    });
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), expected);
}

#[test]
fn sparse_tensors_are_compared_by_component() {
    let folder = Folder::new();
    for name in ["sparse_valid.zt", "sparse_first.zt", "sparse_valid_i64.zt"] {
        fs::copy(corpus::root().join("rules").join(name), folder.path(name)).unwrap();
    }
    assert!(succeed(&folder, &["diff", "sparse_valid.zt", "sparse_valid.zt"]).starts_with("equal: "));
    succeed(&folder, &["convert", "sparse_valid.zt", "plain.zt", "--digest", "none"]);
    let reader = Reader::open(folder.path("plain.zt")).unwrap();
    let values = reader.tensors()[0].components.iter().find(|component| *component.role == *"values").unwrap();
    let mut file = fs::read(folder.path("plain.zt")).unwrap();
    file[values.range.start as usize] ^= 1;
    folder.write("other.zt", &file);
    let printed = different(&folder, &["sparse_valid.zt", "other.zt", "--no-metadata", "--json"]);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let digests = &printed["changed"][0]["sha256"];
    assert_eq!(digests["from"]["indptr"], digests["to"]["indptr"]);
    assert_ne!(digests["from"]["values"], digests["to"]["values"]);
    // Wrong indices are not compared, but refused.
    let output = run(&folder, &["diff", "sparse_valid.zt", "sparse_first.zt"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    let printed = different(&folder, &["sparse_valid.zt", "sparse_valid_i64.zt", "--no-metadata"]);
    assert!(printed.contains("components"), "{printed}");
}

#[test]
fn urls_are_read_in_one_pass_and_only_where_needed() {
    let folder = Folder::new();
    folder.write("m.safetensors", &FILE);
    let server = Server::new(|request| answer(&FILE, request));
    assert_eq!(
        succeed(&folder, &["diff", "m.safetensors", &server.url("/m.safetensors")]),
        "equal: 4 tensors and the metadata\n"
    );
    assert_eq!(server.ranges(), [0..65_536, 65_536..FILE.len()]);

    // No tensor has the same name, or a shape of the other model: the heads suffice.
    folder.write("other.safetensors", &safetensors(None, &[("x", "U8", &[3], noise(1, 3))]));
    let server = Server::new(|request| answer(&FILE, request));
    let printed = different(&folder, &[&server.url("/m.safetensors"), "other.safetensors"]);
    assert!(printed.ends_with("tensors: 4 removed, 1 added; metadata: equal\n"), "{printed}");
    assert_eq!(server.ranges(), [0..65_536]);
}

#[test]
fn headers_are_sent_to_one_origin_only() {
    let folder = Folder::new();
    folder.write("m.safetensors", &FILE);
    let private = || {
        Server::new(|request| match request.header("x-key") {
            Some("s3cret") => answer(&FILE, request),
            _ => Reply::new(401, b""),
        })
    };
    let (one, other) = (private(), private());
    let header = ["--header", "X-Key: s3cret"];
    let diff = |a: &str, b: &str| run(&folder, &[&["diff", a, b], &header[..]].concat());
    assert!(diff(&one.url("/a"), &one.url("/b")).status.success());
    assert!(diff("m.safetensors", &one.url("/b")).status.success());
    let asked = one.requests().len();
    let output = diff(&one.url("/a"), &other.url("/b"));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`--header` is given for URLs of two origins"));
    assert_eq!((one.requests().len(), other.requests().len()), (asked, 0));
    assert_eq!(diff("m.safetensors", "m.safetensors").status.code(), Some(2));
}

#[test]
fn an_error_is_not_a_difference() {
    let folder = folder();
    succeed(&folder, &["convert", "-q", "a.safetensors", "a.zt", "--digest", "sha256"]);
    let mut damaged = fs::read(folder.path("a.zt")).unwrap();
    let at = damaged.windows(16).position(|bytes| *bytes == noise(1, 16)).unwrap(); // the tensor "same"
    damaged[at] ^= 1;
    folder.write("a.zt", &damaged);
    for (a, b) in [("a.safetensors", "none.apr"), ("none.apr", "a.safetensors"), ("a.zt", "a.safetensors")] {
        let output = run(&folder, &["diff", a, b]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
        assert!(output.stderr.starts_with(b"weightstream: error["), "{output:?}");
    }
}
