//! JSON: manifests of every kind, and SafeTensors headers.

use super::alone;
use super::ceiling::{assert_rejected, read};
use weightstream::ErrorKind;

/// Manifests of every kind with `content` as the value of a key.
fn manifests_with(content: &str) -> Vec<(&'static str, String)> {
    vec![
        ("an APR manifest", format!(r#"{{"shards":[],"a":{content}}}"#)),
        ("a weight map", format!(r#"{{"a":{content},"weight_map":{{}}}}"#)),
        ("an AEROSET", format!(r#"{{"format":{{"name":"AEROSET","version":[0,1]}},"parts":[],"a":{content}}}"#)),
        ("an unknown document", format!(r#"{{"a":{content}}}"#)),
    ]
}

#[test]
fn manifests_with_many_values_are_rejected() {
    let _alone = alone();
    let contents = [
        format!("[{}0]", "0,".repeat(5 << 20)),
        format!("[{}[]]", "[0],".repeat(5 << 19)),
        format!("[{}{{}}]", r#"{"":0},"#.repeat(3 << 19)),
        format!("[{}\"\"]", r#""a","#.repeat(5 << 19)),
    ];
    for content in contents {
        let beginning: String = content.chars().take(12).collect();
        for (what, document) in manifests_with(&content) {
            assert_rejected(&format!("{what} of {beginning}"), ErrorKind::Limit, document.into_bytes());
        }
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let _alone = alone();
    for open in ["[", r#"{"a":"#] {
        for (what, document) in manifests_with(&open.repeat(1 << 20)) {
            assert_rejected(what, ErrorKind::Format, document.into_bytes());
        }
    }
}

#[test]
fn manifests_with_many_files_are_rejected() {
    let _alone = alone();
    let list = |item: &dyn Fn(usize) -> String| (0..100_000).map(item).collect::<Vec<_>>().join(",");
    let shards = list(&|at| format!(r#"{{"file":"{at}"}}"#));
    assert_rejected("100,000 shards", ErrorKind::Limit, format!(r#"{{"shards":[{shards}]}}"#).into_bytes());
    let map = list(&|at| format!(r#""{at}":"{at}""#));
    let map = format!(r#"{{"weight_map":{{{map}}}}}"#);
    assert_rejected("a weight map with 100,000 files", ErrorKind::Limit, map.into_bytes());
    let parts = list(&|at| format!(r#"{{"path":"{at}"}}"#));
    let set = format!(r#"{{"format":{{"name":"AEROSET","version":[0,1]}},"parts":[{parts}]}}"#);
    assert_rejected("100,000 parts", ErrorKind::Limit, set.into_bytes());
}

#[test]
fn error_messages_quote_only_the_beginning_of_values() {
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
fn headers_with_many_tensors_and_dimensions_use_bounded_memory() {
    let _alone = alone();
    let file = |header: String| [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    let tensors: Vec<_> =
        (0..400_000).map(|at| format!(r#""{at:x}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#)).collect();
    _ = read("400,000 tensors", file(format!("{{{}}}", tensors.join(","))));
    let strings = r#""":"","#.repeat(3 << 20);
    _ = read("metadata with a repeated key", file(format!(r#"{{"__metadata__":{{{strings}"a":""}}}}"#)));
    let strings: String = (0..1 << 20).map(|at| format!(r#""{at:x}":"","#)).collect();
    let header = format!(r#"{{"__metadata__":{{{strings}"a":""}}}}"#);
    assert_rejected("metadata with many keys", ErrorKind::Limit, file(header));
    let dims = "0,".repeat(1 << 20);
    let header = format!(r#"{{"t":{{"dtype":"U8","shape":[{dims}0],"data_offsets":[0,0]}}}}"#);
    assert_rejected("a million dimensions", ErrorKind::Limit, file(header));
}
