//! Tests of the `weightstream` command as a process.

use super::bytes::{Apr, Entry, noise, ramp, safetensors};
use super::{Folder, content_of};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

fn command(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.args(arguments).current_dir(folder.0.path());
    command
}

#[track_caller]
pub(crate) fn run(folder: &Folder, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

/// Runs a command that must succeed without output on standard error. Returns its standard output.
#[track_caller]
pub(crate) fn succeed(folder: &Folder, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail. Returns its single line on standard error.
#[track_caller]
pub(crate) fn fail(folder: &Folder, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(output.stdout, b"");
    assert_eq!(stderr.matches('\n').count(), 1, "{stderr}");
    assert!(stderr.starts_with("weightstream: error["), "{stderr}");
    stderr
}

fn small(folder: &Folder) {
    let tensors = [("b", "F32", &[2, 2][..], vec![0; 16]), ("a\n", "U8", &[][..], b"a".to_vec())];
    folder.write("m.safetensors", &safetensors(Some(json!({ "format": "pt" })), &tensors));
}

#[test]
fn inspect_prints_the_documented_json() {
    let folder = Folder::new();
    small(&folder);
    let printed: Value = serde_json::from_str(&succeed(&folder, &["inspect", "--json", "m.safetensors"])).unwrap();
    let start = fs::metadata(folder.path("m.safetensors")).unwrap().len() - 17;
    let mut expected = json!({
        "format": "safetensors",
        "version": "1",
        "metadata": { "format": "pt" },
        "files": [{ "name": "m.safetensors", "byteLength": start + 17 }],
        "warnings": [],
        "tensors": [
            {
                "name": "b", "dtype": "F32", "shape": [2, 2], "layout": "dense",
                "byteLength": 16, "storedByteLength": 16, "encoding": "raw", "offset": start,
            },
            {
                "name": "a\n", "dtype": "U8", "shape": [], "layout": "dense",
                "byteLength": 1, "storedByteLength": 1, "encoding": "raw", "offset": start + 16,
            },
        ],
    });
    assert_eq!(printed, expected);

    // sha256 of 16 NULs, and of "a", as any sha256 tool prints them.
    expected["tensors"][0]["sha256"] = json!("374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb");
    expected["tensors"][1]["sha256"] = json!("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
    let printed = succeed(&folder, &["inspect", "m.safetensors", "--sha256", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), expected);
}

#[test]
fn inspect_prints_the_same_for_every_form_of_a_model() {
    let folder = Folder::new();
    let tensors = [("ramp", "I16", &[300, 100][..], ramp(60_000)), ("noise", "U8", &[50_000][..], noise(1, 50_000))];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    succeed(&folder, &["convert", "m.safetensors", "s.apr", "--compress", "lz4", "--shard-size", "100kB"]);
    let tensors = |file| {
        let printed: Value = serde_json::from_str(&succeed(&folder, &["inspect", "--json", "--sha256", file])).unwrap();
        printed["tensors"].as_array().unwrap().clone()
    };
    let (one, mut several) = (tensors("m.safetensors"), tensors("s.apr"));
    let shards: Vec<_> = several.iter_mut().map(|tensor| tensor.as_object_mut().unwrap().remove("shard")).collect();
    assert_eq!(shards, [Some(json!(0)), Some(json!(1))]);
    assert_eq!((&one[0]["encoding"], &several[0]["encoding"]), (&json!("raw"), &json!("lz4")));
    let without_storage = |mut tensors: Vec<Value>| {
        for tensor in &mut tensors {
            for key in ["storedByteLength", "encoding", "offset"] {
                tensor.as_object_mut().unwrap().remove(key).unwrap();
            }
        }
        tensors
    };
    assert_eq!(without_storage(one), without_storage(several));
}

#[test]
fn inspect_prints_a_table() {
    let folder = Folder::new();
    small(&folder);
    let expected = "\
m.safetensors: safetensors 1
1 file, 2 tensors, 5 elements, 17 B

format: \"pt\"

TENSOR  DTYPE  SHAPE   BYTES
b       F32    [2, 2]     16
a\\n     U8     []          1
";
    assert_eq!(succeed(&folder, &["inspect", "m.safetensors"]), expected);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = Folder::new();
    let entries = (0..2000).map(|at| Entry::raw(&format!("{at}{}", "x".repeat(200)), 7, &[1], vec![1])).collect();
    folder.write("m.apr", &Apr::new(entries).build());
    for arguments in [&["inspect", "m.apr"][..], &["inspect", "--json", "m.apr"], &["verify", "m.apr"]] {
        let mut child = command(&folder, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn verify_names_what_it_cannot_check() {
    let folder = Folder::new();
    // A GGUF file with a tensor of type 99, which ggml refuses.
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend([1u64, 0, 1].iter().flat_map(|field| field.to_le_bytes())); // tensors, pairs, length of the name
    file.push(b'a');
    file.extend(1u32.to_le_bytes());
    file.extend(4u64.to_le_bytes());
    file.extend(99u32.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.resize(file.len().next_multiple_of(32) + 32, 0);
    folder.write("m.gguf", &file);
    let output = run(&folder, &["verify", "m.gguf"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{error}");
    assert!(error.contains("error[UNSUPPORTED]: m.gguf: not checked: 1 tensor of GGML_99"), "{error}");
}

/// Messages of the library name its own options; those of the command, what its user can type.
#[test]
fn advice_names_options_of_the_command() {
    let folder = Folder::new();
    small(&folder);
    succeed(&folder, &["convert", "m.safetensors", "m.apr"]);
    for (arguments, option) in [
        (&["convert", "m.safetensors", "m.apr"][..], "`--force`"),
        (&["convert", "m.safetensors", "m.gguf"], "`--metadata`"),
        (&["convert", "m.safetensors", "m"], "`--format`"),
        (&["convert", "m.safetensors", "n.apr", "--compress", "zstd"], "`--compress`"),
        (&["convert", "m.safetensors", "n.aero", "--align", "7"], "`--align`"),
    ] {
        let error = fail(&folder, arguments);
        assert!(error.contains(option), "{error}");
        assert!(!error.contains("::") && !error.contains("keep_existing"), "{error}");
    }
}

#[test]
fn advice_names_the_command_of_an_option_that_the_running_one_lacks() {
    let folder = Folder::new();
    let mut model = Apr::new(vec![Entry::raw("w", 0xf0, &[256], vec![0; 144])]); // Q4_K
    model.metadata["weightstream.ggml_types"] = json!({ "w": 12 });
    folder.write("m.apr", &model.build());
    for (arguments, advice) in [
        (["convert", "m.apr", "n.apr"], "`--dtype` casts"),
        (["upgrade", "m.apr", "o.apr"], "`weightstream convert --dtype` casts"),
    ] {
        let output = run(&folder, &arguments);
        let warning = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && warning.contains(advice), "{warning}");
    }
}

#[test]
fn damaged_models_are_not_passed_on() {
    let folder = Folder::new();
    small(&folder);
    succeed(&folder, &["convert", "m.safetensors", "m.apr"]);
    let mut file = fs::read(folder.path("m.apr")).unwrap();
    let at = file.len() - 17;
    file[at] ^= 1;
    folder.write("m.apr", &file);
    for arguments in [
        &["convert", "m.apr", "out.safetensors"][..],
        &["upgrade", "m.apr", "out.apr"],
        &["publish", "m.apr", "out"],
        &["inspect", "m.apr", "--sha256"],
        &["inspect", "m.apr", "--sha256", "--json"],
        &["inspect", "m.apr", "--tensor", "b"],
        &["extract", "m.apr", "b", "out.npy"],
    ] {
        let error = fail(&folder, arguments);
        assert!(error.contains("error[CHECKSUM]: m.apr"), "{error}");
    }
    let diff = run(&folder, &["diff", "m.apr", "m.safetensors"]);
    assert_eq!((diff.status.code(), diff.stdout.as_slice()), (Some(2), &b""[..]));
    for out in ["out.safetensors", "out.apr", "out.npy", "out"] {
        assert!(!folder.path(out).exists(), "{out}");
    }
}

#[test]
fn verify_prints_the_checksums_or_the_error() {
    let folder = Folder::new();
    small(&folder);
    assert_eq!(
        succeed(&folder, &["verify", "m.safetensors"]),
        "ok: 1 file, 2 tensors, structure only: there is no checksum\n"
    );
    succeed(&folder, &["convert", "m.safetensors", "m.apr"]);
    assert_eq!(succeed(&folder, &["verify", "m.apr"]), "ok: 1 file, 2 tensors, crc32\n");
    let mut file = fs::read(folder.path("m.apr")).unwrap();
    let at = file.len() - 17;
    file[at] ^= 1;
    folder.write("m.apr", &file);
    let error = fail(&folder, &["verify", "m.apr"]);
    assert!(error.starts_with("weightstream: error[CHECKSUM]: m.apr: the bytes have the crc32 "), "{error}");
}

#[test]
fn strict_verification_fails_on_any_warning() {
    let folder = Folder::new();
    let warned = [
        ("padding.zt", "108 bytes of padding are not zero"),
        ("reserved.aero", "3 reserved fields are not zero"),
        ("reserved.weights", "the reserved flags 0x30 are set"),
    ];
    for (name, warning) in warned {
        fs::copy(super::corpus::root().join("rules").join(name), folder.path(name)).unwrap();
        for arguments in [&["verify", name][..], &["verify", "--strict", name]] {
            let output = run(&folder, arguments);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(stderr.contains(&format!("weightstream: warning: {name}: {warning}")), "{stderr}");
            let is_strict = arguments.contains(&"--strict");
            assert_eq!(output.status.code(), Some(i32::from(is_strict)), "{stderr}");
            assert_eq!(stderr.contains(&format!("error[FORMAT]: {name}: the checks gave ")), is_strict, "{stderr}");
            assert_eq!(output.stdout.starts_with(b"ok: "), !is_strict, "{stderr}");
        }
    }
    fs::copy(super::corpus::root().join("rules/padding_zero.zt"), folder.path("zero.zt")).unwrap();
    assert_eq!(succeed(&folder, &["verify", "--strict", "zero.zt"]), "ok: 1 file, 2 tensors, sha256\n");
    fs::copy(super::corpus::root().join("rules/sparse_index.zt"), folder.path("sparse.zt")).unwrap();
    let error = fail(&folder, &["verify", "sparse.zt"]);
    assert!(error.contains("error[FORMAT]: sparse.zt: tensor \"rows\": element 1 of `indices` is 5"), "{error}");
}

#[test]
fn convert_reports_what_it_wrote() {
    let folder = Folder::new();
    small(&folder);
    folder.write("config.json", br#"{"hidden_size": 384}"#);
    let printed =
        succeed(&folder, &["convert", "m.safetensors", "m.apr", "--metadata", "config.json", "--align", "32"]);
    let length = fs::metadata(folder.path("m.apr")).unwrap().len();
    assert_eq!(printed, format!("m.apr: 1 file, 2 tensors, {length} B\n"));
    assert_eq!(content_of(&folder.path("m.apr")), content_of(&folder.path("m.safetensors")));
    assert_eq!(folder.open("m.apr").metadata().metadata["architecture"], json!({ "hidden_size": 384 }));
    folder.write("config.json", b"[1]");
    let error = fail(&folder, &["convert", "m.safetensors", "n.apr", "--metadata", "config.json"]);
    assert!(error.contains("error[INVALID_ARGUMENT]: config.json: it is JSON, but not an object"), "{error}");
}

#[test]
fn convert_reports_the_sizes_before_and_after_casts_and_compression() {
    let folder = Folder::new();
    let tensors = [
        ("w", "F32", &[100, 64][..], vec![0; 25_600]),
        ("v", "F16", &[100, 64], vec![0; 12_800]),
        ("bias", "F32", &[64], vec![0; 256]),
    ];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    let second_line = |arguments: &[&str]| {
        let printed = succeed(&folder, &[&["convert", "m.safetensors", "--force"], arguments].concat());
        printed.split_once('\n').unwrap().1.to_owned()
    };
    assert_eq!(second_line(&["m.apr"]), "");
    let cast = "F32, F16 → Q8_0: 38.66 kB → 13.86 kB";
    assert_eq!(second_line(&["m.apr", "--dtype", "Q8_0"]), format!("{cast}\n"));
    let both = second_line(&["m.apr", "--dtype", "Q8_0", "--compress", "lz4"]);
    let compressed = both.strip_prefix(&format!("{cast}; compressed (LZ4): 13.86 kB → ")).unwrap();
    assert!(compressed.ends_with(" B (0.01)\n"), "{both}");
    let zstd = second_line(&["m.zt", "--compress", "zstd"]);
    assert!(zstd.starts_with("compressed (Zstandard): 38.66 kB → "), "{zstd}");
    // Noise does not get smaller.
    folder.write("noise.safetensors", &safetensors(None, &[("w", "U8", &[9000], noise(1, 9000))]));
    for (out, option, name) in [("n.apr", "lz4", "LZ4"), ("n.zt", "zstd", "Zstandard")] {
        let output = run(&folder, &["convert", "noise.safetensors", out, "--compress", option]);
        let warning = String::from_utf8(output.stderr).unwrap();
        assert!(warning.contains(&format!("warning: {name} does not make this model smaller")), "{warning}");
        assert!(output.status.success() && std::fs::metadata(folder.path(out)).unwrap().len() < 10_000);
    }
    // Integers are not cast, and SafeTensors has no compression.
    folder.write("m.safetensors", &safetensors(None, &[("w", "I32", &[2, 2], vec![0; 16])]));
    assert_eq!(second_line(&["out.safetensors", "--dtype", "F16", "--compress", "auto"]), "");
}

#[cfg(unix)]
#[test]
fn handles_more_shards_than_the_open_file_limit() {
    let folder = Folder::new();
    let names: Vec<_> = (0..200).map(|at| at.to_string()).collect();
    let tensors: Vec<_> = names.iter().map(|name| (name.as_str(), "U8", &[100][..], noise(1, 100))).collect();
    folder.write("m.safetensors", &safetensors(None, &tensors));
    let limited = |arguments: &str| {
        let program = env!("CARGO_BIN_EXE_weightstream");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n 32 && exec '{program}' {arguments}")]);
        let output = command.current_dir(folder.0.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(limited("convert m.safetensors s.apr --shard-size 400B").starts_with("s.apr: 200 files, 200 tensors"));
    assert_eq!(limited("verify s.apr"), "ok: 200 files, 200 tensors, crc32, sha256\n");
}

#[test]
fn failures_are_one_line_and_wrong_usage_is_exit_code_2() {
    let folder = Folder::new();
    small(&folder);
    assert!(fail(&folder, &["inspect", "none.apr"]).contains("error[NOT_FOUND]: none.apr: there is no such file."));
    let several = "error[INVALID_ARGUMENT]: .: 2 models are in this folder. Specify one of";
    folder.write("other.safetensors", b"x");
    assert!(fail(&folder, &["verify", "."]).contains(several));
    assert!(fail(&folder, &["serve", "none"]).contains("error[NOT_FOUND]: none: there is no such folder."));
    folder.write("line\nbreak.apr", b"x");
    assert!(fail(&folder, &["inspect", "line\nbreak.apr"]).contains("line\\nbreak.apr: "));
    for arguments in [&[][..], &["inspect"], &["convert", "m.safetensors", "m.apr", "--shard-size", "0"], &["fly"]] {
        assert_eq!(run(&folder, arguments).status.code(), Some(2), "{arguments:?}");
    }
    let output = run(&folder, &["convert", "m.safetensors", "m.apr", "--shard-size", "24"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("--shard-size <SIZE>': a size needs a unit: write 24MB or 24B"), "{stderr}");
}

#[test]
fn serve_serves_ranges_of_the_folder() {
    let folder = Folder::new();
    folder.write("m.apr", b"0123456789");
    let mut child = command(&folder, &["serve", ".", "--port", "0", "--quiet"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /m.apr HTTP/1.1\r\nHost: x\r\nRange: bytes=2-4\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 206 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n234"), "{answer}");
}

/// A tensor of an unknown dtype may claim any number of elements.
#[test]
fn inspect_counts_beyond_64_bits() {
    let folder = Folder::new();
    let shape = [u64::MAX];
    let tensors = ["a", "b", "c"].map(|name| (name, "Z9", &shape[..], vec![1]));
    folder.write("m.safetensors", &safetensors(None, &tensors));
    let expected = "1 file, 3 tensors, more than 18,446,744,073,709,551,615 elements, 3 B";
    assert!(succeed(&folder, &["inspect", "m.safetensors"]).contains(expected));
    succeed(&folder, &["inspect", "m.safetensors", "--json", "--sha256"]);
    assert!(fail(&folder, &["verify", "m.safetensors"]).contains("not checked: 3 tensors of Z9"));
}
