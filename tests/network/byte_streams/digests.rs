//! Digests of tensors in streams: of the streams, of the dense bytes, and of the caller.

use super::*;
use std::collections::HashMap;
use weightstream::internals::codec::digest::digest_of;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::Digests;
use weightstream::internals::source::http::HttpSource;
use weightstream::internals::write::DigestAlgorithm;

const ALGORITHMS: [Digest; 4] = [Digest::Sha256([0; 32]), Digest::Blake3([0; 32]), Digest::Crc32(0), Digest::Crc32c(0)];

async fn outcomes(loader: &HttpLoader) -> Vec<(&'static str, weightstream::Result<String>)> {
    let one = loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await;
    let one = one.map(|loaded| format!("{:?}", loaded.verified));
    let named = async {
        let names = Some(vec!["t".to_owned()]);
        let all: Vec<_> = loader.tensors(names, Rc::new(())).await?.try_collect().await?;
        Ok(format!("{:?}", all[0].verified))
    };
    let all = async {
        let all: Vec<_> = loader.tensors(None, Rc::new(())).await?.try_collect().await?;
        let t = all.iter().find(|loaded| loaded.tensor.name == "t").unwrap();
        Ok(format!("{:?} {:?}", t.verified, loader.verified_by()))
    };
    let verified = loader.verify(Rc::new(())).await.map(|by| format!("{by:?}"));
    let pieces = async {
        let mut reader = loader.read_tensors(Some(vec!["t".to_owned()]), None).await?;
        reader.next().await?.unwrap();
        let mut piece = vec![0; 1 << 20];
        while reader.fill(&mut piece, 0..1 << 20).await? == 1 << 20 {}
        Ok(format!("{:?}", reader.verified()))
    };
    let view = viewed(loader, 0..ROWS as u64).await.map(|_| String::new());
    vec![
        ("load", one),
        ("named", named.await),
        ("all", all.await),
        ("verify", verified),
        ("pieces", pieces.await),
        ("view", view),
    ]
}

#[test]
fn pinned_digests_are_compared_by_every_call() {
    let server = serve();
    let right = ALGORITHMS.map(|like| (digest_of(&DATA, like), digest_of(&FILE, like)));
    run(async {
        for verify in [false, true] {
            for (like, right) in ALGORITHMS.into_iter().zip(&right) {
                for is_right in [true, false] {
                    let (of_tensor, of_file) = if is_right { *right } else { (like, like) };
                    let tensors = Digests::default().with_tensors(HashMap::from([("t".to_owned(), of_tensor)]));
                    let files = Digests::default().with_files(HashMap::from([("m.zt".to_owned(), of_file)]));
                    for (what, digests) in [("tensor", tensors), ("file", files)] {
                        let options = crate::options().with_digests(digests).with_verify(verify);
                        let source = HttpSource::new(&server.url("/m.zt"), &[]).unwrap();
                        let loader = Loader::open(source, options).await.map(Rc::new).unwrap();
                        for (call, outcome) in outcomes(&loader).await {
                            let has_to_fail = !is_right && (what == "tensor" || matches!(call, "all" | "verify"));
                            println!(
                                "verify {verify} {what} {like:?} right {is_right} {call}: {:?}",
                                outcome.as_ref().map_err(|e| e.to_string().chars().take(90).collect::<String>())
                            );
                            assert_eq!(outcome.is_err(), has_to_fail, "{what} {call} {is_right}");
                        }
                    }
                }
            }
        }
    });
}

/// The entry of `publish` states a digest of the stored bytes; the file has none.
#[test]
fn digests_of_an_entry_are_compared_by_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("m.safetensors"), folder.path().join("m.zt"));
    let shape = [ROWS as u64, COLUMNS as u64];
    std::fs::write(&source, safetensors(None, &[("t", "F32", &shape[..], DATA.clone())])).unwrap();
    let options = ConvertOptions::default().compression(Compression::Auto).digest(Some(DigestAlgorithm::None));
    write::convert(&Reader::open(source).unwrap(), &out, &options, &()).unwrap();
    let file = std::fs::read(out).unwrap();
    let reader = Reader::from_bytes(vec![("m.zt".to_owned(), file.clone())]).unwrap();
    let data = reader.tensor("t").unwrap().components[0].clone();
    assert!(data.digest.is_none());
    let stored = &file[data.range.start as usize..data.range.end as usize];
    for is_right in [true, false] {
        let of_tensor = if is_right { digest_of(stored, Digest::Sha256([0; 32])) } else { Digest::Sha256([0; 32]) };
        let of_file = digest_of(&file, Digest::Sha256([0; 32]));
        let entry = serde_json::json!({
            "weight_map": { "t": "m.zt" },
            "weightstream": {
                "version": 1,
                "files": { "m.zt": { "size": file.len(), "sha256": of_file.to_string() } },
                "tensors": { "t": format!("sha256:{of_tensor}") },
            },
        });
        let entry = entry.to_string();
        let served = file.clone();
        let server = Server::new(move |request| {
            if request.path.ends_with(".json") { answer(entry.as_bytes(), request) } else { answer(&served, request) }
        });
        run(async {
            let loader = open(&server.url("/m.zt.index.json")).await.unwrap();
            for (call, outcome) in outcomes(&loader).await {
                println!(
                    "right {is_right} {call}: {:?}",
                    outcome.as_ref().map_err(|e| e.to_string().chars().take(120).collect::<String>())
                );
                assert_eq!(outcome.is_ok(), is_right, "{call}");
            }
        });
    }
}
