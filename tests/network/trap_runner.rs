//! Runs a trap with the loader over the native HTTP source.

use super::traps::server::Server;
use super::traps::{Load, Trap};
use super::{HttpLoader, TENSORS, load, options, run};
use futures::StreamExt;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use weightstream::Result;
use weightstream::internals::loader::Loader;
use weightstream::internals::source::http::HttpSource;

pub(crate) fn run_trap(trap: Trap) {
    let server = Server::new(trap.script);
    let url = server.url("/m.safetensors");
    let outcome = run(async {
        let loader = open(&url, trap.stall_timeout_ms).await?;
        loader.load_index().await?;
        for (position, load) in trap.loads.iter().enumerate() {
            let outcome = load_and_compare(&loader, load).await;
            let is_last = position + 1 == trap.loads.len();
            if let Err(error) = outcome {
                assert!(is_last, "{load:?}: {error}");
                if let Load::One(name) = load {
                    assert_eq!(error.context.tensor.as_deref(), Some(*name), "{error}");
                }
                return Err(error);
            }
        }
        Ok(())
    });
    match outcome {
        Ok(()) => assert!(trap.codes.is_empty(), "it should fail with {:?}", trap.codes),
        Err(error) => {
            assert!(trap.codes.contains(&error.code()), "it should fail with {:?}: {error}", trap.codes);
            assert_eq!(error.context.url.as_deref(), Some(&*url));
            assert!(trap.status.is_none_or(|status| error.context.status == Some(status)), "{error}");
        }
    }
    let requests = server.requests();
    assert!(trap.requests.is_none_or(|count| requests.len() == count), "{} requests", requests.len());
    assert!(trap.sent.is_none_or(|max| server.sent() <= max), "{} bytes were sent", server.sent());
    if let Some((number, min_delay_ms)) = trap.min_delay {
        let waited = requests[number].at - requests[number - 1].at;
        let min_delay = Duration::from_millis(min_delay_ms);
        assert!(waited >= min_delay, "the request came after {waited:?}");
    }
}

async fn open(url: &str, stall_ms: u64) -> Result<HttpLoader> {
    let options = options().with_retry(options().retry.stall_ms(stall_ms));
    Loader::open(HttpSource::new(url, &[])?, options).await.map(Rc::new)
}

/// Loads tensors and compares every byte.
async fn load_and_compare(loader: &HttpLoader, what: &Load) -> Result<()> {
    let compare = |name: &str, bytes: &[u8]| {
        let (_, expected) = TENSORS.iter().find(|(known, _)| *known == name).unwrap();
        assert!(bytes == expected, "{name} has other bytes");
    };
    match what {
        Load::One(name) => compare(name, &load(loader, name).await?),
        Load::Many(names) => {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let mut tensors = pin!(loader.tensors(Some(names.clone()), Rc::new(())).await?);
            let mut count = 0;
            while let Some(loaded) = tensors.next().await {
                let loaded = loaded?;
                compare(&loaded.tensor.name, &loaded.components[0].buffer);
                count += 1;
            }
            assert_eq!(count, names.len());
        }
    }
    Ok(())
}
