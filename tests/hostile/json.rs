//! JSON documents and headers: manifests of every kind, the headers of SafeTensors.

use super::alone;
use super::ceiling::{read, refused};
use weightstream::error::ErrorKind;

fn around(content: &str) -> Vec<(&'static str, String)> {
    vec![
        ("APR's manifest", format!(r#"{{"shards":[],"a":{content}}}"#)),
        ("a map of files", format!(r#"{{"a":{content},"weight_map":{{}}}}"#)),
        ("an AEROSET", format!(r#"{{"format":{{"name":"AEROSET","version":[0,1]}},"parts":[],"a":{content}}}"#)),
        ("no manifest", format!(r#"{{"a":{content}}}"#)),
    ]
}

#[test]
fn manifests_of_many_values_are_refused() {
    let _alone = alone();
    let contents = [
        format!("[{}0]", "0,".repeat(5 << 20)),
        format!("[{}[]]", "[0],".repeat(5 << 19)),
        format!("[{}{{}}]", r#"{"":0},"#.repeat(3 << 19)),
        format!("[{}\"\"]", r#""a","#.repeat(5 << 19)),
    ];
    for content in contents {
        let beginning: String = content.chars().take(12).collect();
        for (what, document) in around(&content) {
            refused(&format!("{what} of {beginning}"), ErrorKind::Limit, document.into_bytes());
        }
    }
}

#[test]
fn nesting_exhausts_no_stack() {
    let _alone = alone();
    for open in ["[", r#"{"a":"#] {
        for (what, document) in around(&open.repeat(1 << 20)) {
            refused(what, ErrorKind::Format, document.into_bytes());
        }
    }
}

#[test]
fn a_manifest_of_many_files_is_refused() {
    let _alone = alone();
    let list = |each: &dyn Fn(usize) -> String| (0..100_000).map(each).collect::<Vec<_>>().join(",");
    let shards = list(&|at| format!(r#"{{"file":"{at}"}}"#));
    refused("100,000 shards", ErrorKind::Limit, format!(r#"{{"shards":[{shards}]}}"#).into_bytes());
    let map = list(&|at| format!(r#""{at}":"{at}""#));
    refused("a map of 100,000 files", ErrorKind::Limit, format!(r#"{{"weight_map":{{{map}}}}}"#).into_bytes());
    let parts = list(&|at| format!(r#"{{"path":"{at}"}}"#));
    let set = format!(r#"{{"format":{{"name":"AEROSET","version":[0,1]}},"parts":[{parts}]}}"#);
    refused("100,000 parts", ErrorKind::Limit, set.into_bytes());
}

#[test]
fn a_message_quotes_no_more_than_the_beginning() {
    let _alone = alone();
    let long = format!("[{}0]", "0,".repeat(100_000));
    let documents = [
        format!(r#"{{"shard_count":{long},"shards":[]}}"#),
        format!(r#"{{"shards":[{{"file":"a","size":{long}}}]}}"#),
        format!(r#"{{"shards":[{{"file":"a"}}],"weight_map":{{"t":{long}}}}}"#),
        format!(r#"{{"format":{{"name":"AEROSET","version":[0,1]}},"base_url":{long}}}"#),
        format!(r#"{{"format":{{"name":"AEROSET","version":[{long},1]}},"parts":[]}}"#),
    ];
    for document in documents {
        let (outcome, _) = read("a manifest", document.into_bytes());
        assert!(outcome.is_err());
    }
}

#[test]
fn headers_of_many_tensors_and_dimensions_are_bounded() {
    let _alone = alone();
    let file = |header: String| [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    let tensors: Vec<_> =
        (0..400_000).map(|at| format!(r#""{at:x}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#)).collect();
    _ = read("400,000 tensors", file(format!("{{{}}}", tensors.join(","))));
    let strings = r#""":"","#.repeat(3 << 20);
    _ = read("metadata of many texts", file(format!(r#"{{"__metadata__":{{{strings}"a":""}}}}"#)));
    let strings: String = (0..1 << 20).map(|at| format!(r#""{at:x}":"","#)).collect();
    refused("metadata of other texts", ErrorKind::Limit, file(format!(r#"{{"__metadata__":{{{strings}"a":""}}}}"#)));
    let dims = "0,".repeat(1 << 20);
    let header = format!(r#"{{"t":{{"dtype":"U8","shape":[{dims}0],"data_offsets":[0,0]}}}}"#);
    refused("a million dimensions", ErrorKind::Limit, file(header));
}
