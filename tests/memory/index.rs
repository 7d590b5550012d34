//! The upper bound of the memory that the index of a large model takes, while it arrives and afterwards.

use super::{MIB, alone, peak_of};
use futures::executor::block_on;
use std::fmt::Write;
use std::rc::Rc;
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::source::memory::MemorySource;

const TENSORS: usize = 100_000;

/// A SafeTensors file of 100,000 tensors. `separator` is between its entries.
fn large_index(separator: &str) -> Vec<u8> {
    let mut header = String::from("{");
    for i in 0..TENSORS {
        let (layer, expert, start, end) = (i / 1000, i % 1000, i * 4, i * 4 + 4);
        let name = format!("model.layers.{layer}.mlp.experts.{expert}.down_proj.weight");
        let comma = if i > 0 { separator } else { "" };
        write!(header, r#"{comma}"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[{start},{end}]}}"#).unwrap();
    }
    header.push('}');
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; 4 * TENSORS]].concat()
}

fn source(file: &Rc<[u8]>) -> MemorySource {
    MemorySource::new(vec![("model.safetensors".to_owned(), Rc::clone(file))]).unwrap()
}

#[test]
fn an_index_of_100_000_tensors_takes_less_than_its_header() {
    let _alone = alone();
    let file: Rc<[u8]> = large_index(",").into();
    let (list, peak) = peak_of(|| {
        block_on(async { Loader::open(source(&file), Options::default()).await.unwrap().load_index().await.unwrap() })
    });
    println!("peak {peak}, header {}", file.len() - 4 * TENSORS);
    assert_eq!(list.len(), TENSORS);
    let last = list.iter().last().unwrap();
    assert_eq!((&*last.name, &*last.shape), ("model.layers.99.mlp.experts.999.down_proj.weight", &[1][..]));
    assert_eq!(last.components[0].range.end, file.len() as u64);
    assert!(peak < 11 * MIB, "{peak} bytes were allocated");
}
