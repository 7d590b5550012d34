//! What a web app does with the packages: it opens a model at a URL and gives its tensors to candle and to burn.

#![cfg(target_arch = "wasm32")]

use burn_store::ModuleSnapshot;
use candle_core::{DType, Device};
use std::rc::Rc;
use weightstream::{Result, web};
use weightstream_burn::WeightStore;
use weightstream_candle::{Request, var_builder};

pub async fn contains_tensor(url: &str, name: &str) -> Result<bool> {
    let mut options = web::Options::default();
    options.cache = Some(web::Cache::Auto);
    let loader = web::open(url, options).await?;
    let weights = var_builder(&loader, DType::F32, &Request::new(&Device::Cpu), Rc::new(())).await?;
    Ok(weights.contains_tensor(name))
}

pub async fn apply<M: ModuleSnapshot>(url: &str, module: &mut M) -> Result<()> {
    let loader = web::open(url, web::Options::default()).await?;
    let mut store = WeightStore::load(&loader, None, Rc::new(())).await?;
    module.load_from(&mut store).map(drop)
}
