//! The parts of the package's module, and which code belongs to each.

use weightstream::format::{Format, formats};

/// The parts besides the main one, which has number 0. Each has the code below these paths, and what only that calls.
pub const PARTS: [Part; 12] = [
    Part {
        file: "weightstream_deferred.wasm",
        paths: &[
            "weightstream::values::cbor::",
            "weightstream::values::msgpack::",
            "weightstream::format::apr::apr1::",
            "weightstream::format::apr::aprn::",
            "weightstream::format::apr::wrapper::",
            "weightstream::codec::byte_streams::",
            "weightstream::codec::deflate::",
            "weightstream::codec::pages::",
            "weightstream::codec::zstd::",
            "weightstream::codec::zstd_seek::",
            "weightstream::index::byte_streams::",
            "weightstream::index::sparse::",
            "weightstream::pipeline::component::check_sparse_indices",
            "weightstream::loader::dense_copies::",
            "weightstream::loader::schedule::side_by_side::",
            "weightstream::loader::transfer::file::ModelFile<S>::fetch_pages",
            "weightstream::loader::transfer::seek_table::read_table",
            "weightstream::loader::transfer::streams::",
            "weightstream::loader::loaded::Loaded<B>::expanded",
            "weightstream::pipeline::expansion::",
            "weightstream::loader::transfer::joined::",
            // Only errors of serde about an unexpected float format one, and serde_json writes these itself.
            "serde_core::de::WithDecimalPoint",
            "structured_zstd::",
            "minicbor::",
            "miniz_oxide::",
            "twox_hash::",
            "rmp::",
        ],
        base: None,
    },
    Part {
        file: "weightstream_cache.wasm",
        paths: &[
            "weightstream::cache::",
            "weightstream::cache::indexed::Database::exists",
            "weightstream::js::cache::settled::{{closure}}::{{closure}}",
            "weightstream::source::cached::",
            "weightstream::source::late_cache::LateFile::cached_in",
            "weightstream::source::late_cache::stored_in",
        ],
        base: None,
    },
    Part {
        file: "weightstream_extras.wasm",
        paths: &[
            "weightstream::hub::address::Address::",
            "weightstream::hub::listing::",
            "weightstream::hub::locate",
            "weightstream::hub::request::reply_to",
            "weightstream::js::file::",
            "weightstream::js::options::signed_digests",
            "weightstream::js::reading::",
            "weightstream::js::tensor_reader::",
            "weightstream::js::view::JsView::has_file_checks::{{closure}}",
            "weightstream::js::view::JsView::read::{{closure}}",
            "weightstream::js::view::JsViewReader::",
            "weightstream::js::view::Pieces::",
            "weightstream::js::view::read",
            "weightstream::js::warnings::",
            "weightstream::loader::component_reader::",
            "weightstream::loader::differences::",
            "weightstream::loader::stored_bytes::",
            "weightstream::loader::stream_rows::",
            "weightstream::loader::transfer::signed::Blocks::",
            "weightstream::loader::transfer::signed::SignedContent::check",
            "weightstream::loader::transfer::signed::SignedContent::opened",
            "weightstream::loader::transfer::signed::SignedContent::part",
            "weightstream::model::finder::",
            "weightstream::signature::",
            "weightstream::source::fetch::on_hub::",
            "weightstream::source::files::find_root",
        ],
        base: None,
    },
    Part {
        file: "weightstream_manifests.wasm",
        paths: &[
            "weightstream::format::document::",
            "weightstream::format::parse_manifest",
            "weightstream::format::apr::manifest::",
            "weightstream::format::foreign::",
            "weightstream::format::safetensors::parse::parse_manifest",
            "weightstream::index::differences::",
            "weightstream::index::publication::",
            "weightstream::loader::digests::check_whole",
        ],
        base: None,
    },
    Part {
        file: "weightstream_workers.wasm",
        paths: &[
            "weightstream::workers::handle::RunningTask",
            "weightstream::workers::message::",
            "weightstream::workers::pool::WorkerPool::check_workers",
            "weightstream::workers::pool::WorkerPool::recycle",
            "weightstream::workers::pool::WorkerPool::register_waker",
            "weightstream::workers::pool::WorkerPool::remove_failed",
            "weightstream::workers::pool::WorkerPool::start::",
            "weightstream::workers::pool::WorkerPool::start_monitor",
            "weightstream::workers::serve::",
            "weightstream::workers::worker::",
        ],
        base: None,
    },
    Part {
        file: "weightstream_calls.wasm",
        paths: &["weightstream::codec::cast::", "weightstream::codec::dequantize::"],
        base: None,
    },
    Part {
        file: "weightstream_databases.wasm",
        paths: &[
            "weightstream::cache::chunked_kv::",
            "weightstream::cache::indexed::",
            "weightstream::cache::kv_cache::",
            "weightstream::cache::user_cache::",
            "weightstream::js::folder_path::",
            "weightstream::names::path_in_folder",
            "weightstream::names::portable",
        ],
        base: None,
    },
    Part {
        file: "weightstream_containers.wasm",
        paths: &["weightstream::format::warned::", "weightstream::window::scattered::", "weightstream::zip::"],
        base: Some(FORMATS),
    },
    Part {
        file: "weightstream_quantization.wasm",
        paths: &[
            "weightstream::adapter::",
            "weightstream::js::adapters::",
            "weightstream::loader::adapters::",
            "weightstream::loader::quantized::",
            "weightstream::pipeline::expansion::quantized::",
            "weightstream::quantization::",
        ],
        base: Some(FORMATS),
    },
    Part { file: "weightstream_blake3.wasm", paths: &["blake3::"], base: None },
    Part {
        file: "weightstream_cached.wasm",
        paths: &[
            "weightstream::cache::files::caches",
            "weightstream::cache::files::clear",
            "weightstream::cache::files::delete",
            "weightstream::cache::files::list",
            "weightstream::js::cached_files::",
            "weightstream::js::cached_models::",
            "weightstream::source::coverage::",
            "weightstream::source::cross_origin::",
        ],
        base: Some(CACHE),
    },
    Part {
        file: "weightstream_mirrors.wasm",
        paths: &[
            "weightstream::js::mirrors::",
            "weightstream::source::fetch::FetchSource::alone",
            "weightstream::source::fetch::FetchSource::with_mirrors",
            "weightstream::source::fetch::mirrored::",
            "weightstream::source::mirrors::",
            "weightstream::source::web::WebSource::with_mirrors",
        ],
        base: None,
    },
];

/// The numbers of parts that others call.
const FORMATS: usize = 1;
const CACHE: usize = 2;

/// Code below these paths that is called before the part is loaded.
const MAIN_PATHS: [&str; 17] = [
    "weightstream::format::foreign::check_headerless",
    "weightstream::format::foreign::is_text",
    "weightstream::format::foreign::unrecognised",
    "weightstream::index::sparse::<impl ",
    "weightstream::pipeline::expansion::Expansion::",
    "weightstream::quantization::may_be_quantized",
    "weightstream::quantization::config::ModelConfig::unchecked",
    "weightstream::codec::dequantize::decoder_of",
    "weightstream::codec::zstd::limits::check_lengths",
    "weightstream::cache::key::name_in",
    "weightstream::cache::key::partition",
    "weightstream::cache::key::without_fragment",
    "weightstream::cache::option::CacheOption::is_of_caller",
    "weightstream::cache::option::CacheOption::with_observer",
    "weightstream::cache::pending::",
    "weightstream::cache::user_cache::UserCache::new",
    "weightstream::source::cached::report::Report::",
];

/// Functions of deferred formats that detection calls.
const DETECTION: [&str; 2] = ["::recognises", "::is_manifest"];

/// A part of the module.
pub struct Part {
    /// The name of its file.
    pub file: &'static str,
    paths: &'static [&'static str],
    /// The number of the part that is loaded before it. It has what both call.
    pub base: Option<usize>,
}

/// The part that is loaded before a part of this number.
pub fn base_of(part: usize) -> Option<usize> {
    PARTS.get(part.checked_sub(1)?)?.base
}

/// Tells in which part the code of a function must be, by its name; `None` for the part that calls it.
pub fn part_of_function() -> impl Fn(&str) -> Option<usize> {
    let path = |format: &Format| Some((format!("weightstream::format::{}::", format.name), format.part()? + 1));
    let formats: Vec<_> = formats().iter().filter_map(path).collect();
    move |name| part_of(name, &formats)
}

/// The number of the part that must have the code of a function, `None` for the part that calls it. `formats` are the
/// paths of deferred formats, with the numbers of their parts.
fn part_of(name: &str, formats: &[(String, usize)]) -> Option<usize> {
    // The compiler merges equal functions, of which only one keeps its name. Those that drop a value, import something
    // from JavaScript or convert its values are equal for many types, so they are where they are called.
    let is_shared = ["core::ptr::drop_in_place", "__wbg_", "wasm_bindgen::"].iter().any(|path| name.contains(path));
    let name = (!is_shared).then(|| own_path(name))?;
    if MAIN_PATHS.iter().any(|path| name.starts_with(path)) {
        return Some(0);
    }
    let paths = PARTS.iter().zip(1..).flat_map(|(part, number)| part.paths.iter().map(move |path| (*path, number)));
    let paths = paths.chain(formats.iter().map(|(path, number)| (path.as_str(), *number)));
    // The longest path decides, because a part may have code in a folder of another one.
    let (_, part) = paths.filter(|(path, _)| name.starts_with(path)).max_by_key(|(path, _)| path.len())?;
    Some(if DETECTION.iter().any(|name_end| name.contains(name_end)) { 0 } else { part })
}

/// The path of a function, or of the type whose trait it implements.
fn own_path(name: &str) -> &str {
    name.trim_start_matches(['<', '&'])
}
