//! Sentence embeddings in the browser: candle's BERT with weights that weightstream loads.

#![cfg(target_arch = "wasm32")]
#![allow(missing_debug_implementations, reason = "JavaScript holds the exported types")]

use candle_core::{DType, Device, Tensor};
use candle_transformers::models::bert::{BertModel, Config};
use wasm_bindgen::prelude::*;
use weightstream::{OpenOptions, web};
use weightstream_candle::{Request, var_builder};

/// A BERT model that embeds sentences, such as all-MiniLM-L6-v2.
#[wasm_bindgen]
pub struct Embedder {
    model: BertModel,
    cached_bytes: f64,
    missing: Vec<String>,
}

#[wasm_bindgen]
impl Embedder {
    /// Loads the weights at an absolute URL. `config` is the text of the model's `config.json`.
    ///
    /// # Errors
    /// Those of loading, and of candle for weights of another model.
    pub async fn open(url: String, config: String) -> Result<Embedder, JsError> {
        let config: Config = serde_json::from_str(&config)?;
        let options = OpenOptions::new().cache(web::Cache::Auto).workers(web::default_workers());
        let model = options.open(&url).await?;
        let weights = var_builder(&model, DType::F32, &Request::new(&Device::Cpu)).await?;
        let missing = model.cache_error().into_iter().chain(model.workers_error()).collect();
        let cached_bytes = model.stats().bytes_from_cache() as f64;
        Ok(Embedder { model: BertModel::load(weights, &config)?, cached_bytes, missing })
    }

    /// The number of bytes that came from the cache.
    #[wasm_bindgen(getter, js_name = cachedBytes)]
    pub fn cached_bytes(&self) -> f64 {
        self.cached_bytes
    }

    /// Why the cache or the workers were not used.
    #[wasm_bindgen(getter)]
    pub fn missing(&self) -> Vec<String> {
        self.missing.clone()
    }

    /// Computes the embedding of a sentence from the IDs of its tokens: the mean of its tokens, with length 1.
    ///
    /// # Errors
    /// That of candle for an ID that the vocabulary does not have.
    pub fn embed(&self, ids: &[u32]) -> Result<Vec<f32>, JsError> {
        let ids = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        let tokens = self.model.forward(&ids, &ids.zeros_like()?, None)?;
        let mean = tokens.mean(1)?.squeeze(0)?;
        let length = mean.sqr()?.sum_all()?.sqrt()?;
        Ok(mean.broadcast_div(&length)?.to_vec1()?)
    }
}
