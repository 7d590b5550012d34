//! A page for each task. These pages exist only in the documentation.

/// Lists the tensors of a model, and loads one, or rows of it.
///
/// Opening reads the headers; each load then reads only the bytes of its tensor. [`Model::open`](crate::Model::open)
/// takes a path of a file, of a manifest or of a folder; with the feature `http`, also a URL ([`remote`]).
/// `blocking::Model` has the same calls for code that is not asynchronous.
///
/// ```
/// use weightstream::Model;
///
/// # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
/// # fn main() -> weightstream::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = r#"{"weight":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}"#;
/// # std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 24]].concat())?;
/// # futures::executor::block_on(async {
/// let model = Model::open(&path).await?;
/// for tensor in model.tensors() {
///     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
/// }
///
/// let weight = model.load("weight").await?;
/// assert_eq!(weight.shape(), [3, 2]);
/// assert_eq!(weight.bytes()?.len(), 24); // little-endian elements in row-major order
///
/// let rows = model.rows("weight", 1..3).await?; // reads the bytes of two rows
/// assert_eq!(rows.shape(), [2, 2]);
/// # Ok(())
/// # })
/// # }
/// # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
///
/// A name that the model does not have is the error `NOT_FOUND`, which suggests similar names. [`Model`](crate::Model)
/// is `Send` and `Sync`, cheap to clone, and runs under any executor. Dropping a future stops its load.
pub mod load {}

/// Computes with the floats of a tensor: F16, BF16, F8 and quantized types as F32.
///
/// [`elements`](crate::LoadedTensor::elements) borrows the bytes as a slice of the type that is stored.
/// [`as_f32`](crate::LoadedTensor::as_f32) also converts other floats and quantized types.
/// [`LoadRequest::dtype`](crate::LoadRequest::dtype) converts while bytes arrive, so that the stored bytes are never in
/// memory as a whole. [`LoadRequest::dense`](crate::LoadRequest::dense) expands a sparse tensor.
///
/// ```
/// use weightstream::{Dtype, LoadRequest, blocking::Model};
///
/// # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
/// # fn main() -> weightstream::Result<()> {
/// # let header = r#"{"scale":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#;
/// # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0x80, 0x3f, 0, 0x40]].concat();
/// let model = Model::from_bytes([("model.safetensors", file)])?;
///
/// let stored = model.load("scale")?;
/// assert_eq!(*stored.elements::<u16>()?, [0x3f80, 0x4000]); // the bits of two BF16 values
/// assert_eq!(*stored.as_f32()?, [1.0, 2.0]);
///
/// let converted = model.load(LoadRequest::new("scale").dtype(Dtype::F32))?;
/// assert_eq!(*converted.elements::<f32>()?, [1.0, 2.0]);
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
///
/// The crates `weightstream-candle` and `weightstream-burn` load weights into these engines.
pub mod compute {}

/// Loads all tensors, or some of them, each as soon as it has arrived.
///
/// A stream reads neighbouring tensors in one request, and more of them than separate calls of
/// [`Model::load`](crate::Model::load) would. It yields tensors in file order; [`StreamRequest`](crate::StreamRequest)
/// selects and orders them.
///
/// ```
/// use weightstream::{StreamRequest, blocking::Model};
///
/// # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
/// # fn main() -> weightstream::Result<()> {
/// # let entry = |name, from, to| format!(r#""{name}":{{"dtype":"U8","shape":[1],"data_offsets":[{from},{to}]}}"#);
/// # let header = format!("{{{},{}}}", entry("a", 0, 1), entry("b", 1, 2));
/// # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[1, 2]].concat();
/// let model = Model::from_bytes([("model.safetensors", file)])?;
/// let mut byte_length = 0;
/// for tensor in model.stream(StreamRequest::new()) {
///     byte_length += tensor?.into_bytes()?.len();
/// }
/// assert_eq!(byte_length, 2);
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
///
/// [`OpenOptions::max_memory_bytes`](crate::OpenOptions::max_memory_bytes) limits the bytes of tensors that have
/// arrived and that your code has not taken. Dropping the stream stops its requests.
pub mod stream {}

/// Loads models at URLs and on model hubs: tokens, retries, progress.
///
/// Natively, this needs the feature `http`. A connection that breaks is resumed where it broke, unless the file has
/// changed. Headers are sent only to the origin of the URL.
///
/// ```no_run
/// use weightstream::{OpenOptions, RetryPolicy};
///
/// # async fn example() -> weightstream::Result<()> {
/// let options = OpenOptions::new()
///     .header("authorization", "Bearer …")
///     .retry(RetryPolicy::default().max_attempts(10))
///     .on_progress(|progress| println!("{} of {:?} bytes", progress.loaded, progress.total));
/// let model = options.open("https://example.org/model.gguf").await?;
///
/// let options = OpenOptions::new().hub_token("hf_…"); // for gated and private repositories
/// let from_hub = options.open("hf:owner/name@main/model.safetensors").await?;
/// # Ok(())
/// # }
/// ```
///
/// [`OpenOptions::previous`](crate::OpenOptions) names a local model that was the previous revision of a published one.
/// Loads then download differences where that is less.
pub mod remote {}

/// Checks bytes against checksums and digests before they are used.
///
/// Each load compares what the format has for its tensor; [`LoadedTensor::verified`](crate::LoadedTensor::verified)
/// says which algorithm it was. A tensor whose digest differs is the error `CHECKSUM`.
/// [`Model::verify`](crate::Model::verify) reads the whole model and compares everything that can be compared.
/// [`OpenOptions::file_digest`](crate::OpenOptions::file_digest) and
/// [`tensor_digest`](crate::OpenOptions::tensor_digest) pin digests that you know:
///
/// ```
/// use weightstream::{ErrorKind, OpenOptions};
///
/// # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = r#"{"bias":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
/// # std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0]].concat())?;
/// let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000".parse()?;
/// let options = OpenOptions::new().tensor_digest("bias", digest);
/// let error = options.open_blocking(&path)?.load("bias").unwrap_err();
/// assert_eq!(error.kind, ErrorKind::Checksum);
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
///
/// Who published a model is the task of [signatures](sign).
pub mod verify {}

/// Maps local files into memory, so that raw tensors are slices of the file.
///
/// `blocking::Model::open_mapped` needs the feature `mmap`, which is a default. It is `unsafe`, because no other
/// process may write into the files or truncate them while the model exists.
///
/// ```
/// # #[cfg(all(feature = "safetensors", feature = "mmap", not(target_arch = "wasm32")))]
/// # fn main() -> weightstream::Result<()> {
/// use weightstream::blocking::Model;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = r#"{"bias":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
/// # std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[1, 2]].concat())?;
/// // SAFETY: no other process writes into this file.
/// let model = unsafe { Model::open_mapped(&path) }?;
/// assert_eq!(model.tensor_slice("bias")?, [1, 2]); // no copy
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "safetensors", feature = "mmap", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
pub mod map {}

/// Reads a model from a source of your own: a database, an archive, another protocol.
///
/// A [`Source`](crate::source::Source) answers reads of byte ranges. A [`ModelSource`](crate::source::ModelSource) also
/// finds the other files of a model by their names. [`SourceModel`](crate::SourceModel) then has the calls of
/// [`Model`](crate::Model), on the thread that opened it. This source is one file, of which any range can be read:
///
/// ```
/// use std::ops::Range;
/// use weightstream::source::{Body, CacheHints, ModelSource, RangeResponse, Source};
/// use weightstream::{Error, ErrorKind, OpenOptions, Result, SourceModel};
///
/// struct Blob(&'static [u8]);
///
/// impl CacheHints for Blob {} // it has no cache
///
/// impl Source for Blob {
///     type Body = Slice;
///
///     fn name(&self) -> &str {
///         "weights.safetensors"
///     }
///
///     async fn read(&self, range: Range<u64>) -> Result<RangeResponse<Slice>> {
///         let end = range.end.min(self.0.len() as u64);
///         let bytes = self.0.get(range.start as usize..end as usize);
///         let missing = || Error::new(ErrorKind::Truncated, "the range is outside the file").at(range.clone());
///         let mut response = RangeResponse::new(range.start, Slice(bytes.ok_or_else(missing)?));
///         response.end = Some(end);
///         response.file_length = Some(self.0.len() as u64);
///         Ok(response)
///     }
/// }
///
/// impl ModelSource for Blob {
///     fn file_name(&self) -> Option<String> {
///         Some(self.name().to_owned())
///     }
///
///     fn part(&self, path: &str) -> Result<Self> {
///         Err(Error::new(ErrorKind::NotFound, format!("there is no other file, such as {path}")))
///     }
/// }
///
/// struct Slice(&'static [u8]);
///
/// impl Body for Slice {
///     type Buffer = Vec<u8>;
///
///     async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
///         let (copied, rest) = self.0.split_at(self.0.len().min((at.end - at.start) as usize));
///         into[at.start as usize..][..copied.len()].copy_from_slice(copied);
///         self.0 = rest;
///         Ok(copied.len() as u64)
///     }
/// }
///
/// # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
/// # fn main() -> Result<()> {
/// # let header = r#"{"bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
/// # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat().leak();
/// futures::executor::block_on(async {
///     let model = SourceModel::open(Blob(file), OpenOptions::new()).await?;
///     assert_eq!(*model.load("bias").await?.as_f32()?, [0.0]);
///     Ok(())
/// })
/// # }
/// # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
///
/// The crate `weightstream-publish` has such a source, `object::ObjectSource`, for `s3://`, `gs://` and `az://` URLs.
pub mod source {}

/// Loads models in a browser, from an app that is compiled to wasm32.
///
/// [`Model`](crate::Model) uses `fetch` there. Bytes go into memory that JavaScript owns, and not into the memory of
/// your module: `LoadedTensor::array` is a `Uint8Array` over it, and typed slices are copies. The library exports no
/// function from your module. With the feature `web-workers`, a cache keeps the files for the next visit, and workers
/// decode and verify beside the thread of the page.
///
/// ```no_run
/// # #[cfg(all(target_arch = "wasm32", feature = "web-workers"))]
/// # async fn example() -> weightstream::Result<()> {
/// use weightstream::{OpenOptions, web};
///
/// let options = OpenOptions::new().cache(web::Cache::Auto).workers(web::default_workers());
/// let model = options.open("https://example.org/model.apr").await?;
/// let bias = model.load("encoder.bias").await?.array()?; // a js_sys::Uint8Array
/// if let Some(reason) = model.cache_error().or_else(|| model.workers_error()) {
///     // The model is loaded without them.
/// }
/// # Ok(())
/// # }
/// ```
///
/// The cache and the workers run your own module in workers. If it has a `start` function or a `main`, this runs there,
/// too, and must return at once if `web::is_worker()`. The module `web` has the details.
pub mod browser {}

/// Writes a model in another format, or one tensor as a NumPy array.
///
/// This needs the feature `write`. `convert` keeps only a few blocks of a tensor in memory. The output file gets its
/// name when it is complete, and the same input and options produce the same bytes.
///
/// ```
/// # #[cfg(all(feature = "safetensors", feature = "ztensor", feature = "write", not(target_arch = "wasm32")))]
/// # fn main() -> weightstream::Result<()> {
/// use weightstream::blocking::Model;
/// use weightstream::write::{Compression, ConvertOptions, ExtractOptions, convert, extract_npy};
///
/// # let folder = tempfile::tempdir()?;
/// # let (path, array) = (folder.path().join("model.zt"), folder.path().join("bias.npy"));
/// # let header = r#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
/// let model = Model::from_bytes([("model.safetensors", file)])?; // or `Model::open`
/// convert(&model, &path, &ConvertOptions::new().compression(Compression::Auto))?;
/// assert_eq!(Model::open(&path)?.metadata().format, "ztensor");
///
/// extract_npy(&model, "bias", &array, &ExtractOptions::new())?;
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "safetensors", feature = "ztensor", feature = "write", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
///
/// By default, the name of the output decides its format.
pub mod convert {}

/// Verifies who published a model, and signs one.
///
/// This needs the feature `signatures`, and is native only. A signature is a bundle of OpenSSF Model Signing beside the
/// files of the model. Opened with its statement, a model is compared with the signed digests, file by file.
///
/// ```no_run
/// # #[cfg(all(feature = "signatures", not(target_arch = "wasm32")))]
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::fs;
/// use std::path::Path;
/// use weightstream::OpenOptions;
/// use weightstream::signature::{PrivateKey, PublicKey, Trust, sign_folder, verify};
///
/// let key = PrivateKey::from_pem(&fs::read_to_string("private.pem")?)?;
/// let bundle = sign_folder(Path::new("model"), &key, &[])?; // the paths in the last argument are left out
/// fs::write("model.sig", bundle)?;
///
/// let key = PublicKey::from_pem(&fs::read_to_string("public.pem")?)?;
/// let statement = verify(&fs::read("model.sig")?, &Trust::Key(key))?;
/// let model = OpenOptions::new().signature(statement.files).open_blocking("model/model.safetensors")?;
/// model.load("bias")?; // other bytes than those that were signed are the error `SIGNATURE`
/// # Ok(())
/// # }
/// ```
///
/// `Trust::Certificates` verifies keyless signatures against roots that you pin.
pub mod sign {}

/// Handles errors: what went wrong, where, and what to do.
///
/// [`Error`](crate::Error) states the file, the tensor, the byte range and the HTTP status, as far as they are known.
/// [`Error::code`](crate::Error::code) is the stable code that JavaScript calls `LoadError.code`.
///
/// ```
/// use weightstream::{ErrorKind, blocking::Model};
///
/// # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
/// # fn main() -> weightstream::Result<()> {
/// # let header = r#"{"encoder.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
/// let model = Model::from_bytes([("model.safetensors", file)])?;
/// let error = model.load("encoder.bais").unwrap_err();
/// assert_eq!((error.kind, error.code()), (ErrorKind::NotFound, "NOT_FOUND"));
/// assert!(error.to_string().contains("encoder.bias")); // a similar name
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
///
/// Connections that break, and answers such as 503, are retried first, as [`RetryPolicy`](crate::RetryPolicy) says.
pub mod errors {}
