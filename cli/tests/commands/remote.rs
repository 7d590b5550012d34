//! Tests of the `weightstream` command with URLs.

use super::server::{Reply, Server, answer};
use super::{FILE, bytes, corpus, range_of};
use bytes::{Apr, Entry, noise, ramp};
use serde_json::Value;
use std::process::{Command, Output};
use weightstream_cli::serve;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.args(arguments).current_dir(corpus::root()).output().unwrap()
}

/// Runs a command that must succeed. Returns its standard output.
#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail. Returns its single line on standard error.
#[track_caller]
fn fail(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.matches('\n').count()), (Some(1), 1), "{stderr}");
    stderr
}

#[test]
fn inspect_and_verify_print_the_same_for_urls_and_files() {
    let server = serve::Server::new().mount("/", corpus::root()).bind("127.0.0.1:0").unwrap().spawn();
    let mut folders: Vec<String> = Vec::new();
    for corpus::Fixture { path, .. } in corpus::fixtures() {
        let url = format!("{}/{path}", server.url());
        let folder = path.rsplit_once('/').unwrap().0.to_owned();
        // One fixture per folder is enough, and one set names a host that does not exist.
        if folders.contains(&folder) || path.contains("v02.aeroset") || !run(&["inspect", &path]).status.success() {
            continue;
        }
        folders.push(folder);
        assert_eq!(succeed(&["verify", &url]), succeed(&["verify", &path]), "{path}");
        let json = ["--json", "--sha256"];
        let base = format!("{}/", server.url()); // files are named by their URL or their path
        let inspect = |place: &str| {
            let printed = succeed(&[&["inspect", place][..], &json].concat()).replace(&base, "");
            serde_json::from_str::<Value>(&printed).unwrap()
        };
        let (mut remote, local) = (inspect(&url), inspect(&path));
        for (remote, local) in
            remote["files"].as_array_mut().unwrap().iter_mut().zip(local["files"].as_array().unwrap())
        {
            if remote["byteLength"].is_null() {
                remote["byteLength"] = local["byteLength"].clone(); // a file of raw bytes, which was not read yet
            }
        }
        assert_eq!(remote, local, "{path}");
        let text = |place: &str| succeed(&["inspect", place, "--sha256"]).replacen(place, "", 1);
        assert_eq!(text(&url), text(&path), "{path}");
    }
    assert!(folders.len() > 8, "{folders:?}");
}

#[test]
fn inspect_reads_only_the_head() {
    let server = Server::new(|request| answer(&FILE, request));
    let printed = succeed(&["inspect", &server.url("/m.safetensors")]);
    assert!(printed.contains("1 file, 4 tensors"), "{printed}");
    assert_eq!(server.ranges(), [0..65_536]);
}

#[test]
fn hashing_takes_one_long_request_and_resumes_after_failures() {
    let server = Server::new(|request| match request.number {
        1 => answer(&FILE, request).cut_after(700_000),
        _ => answer(&FILE, request),
    });
    let printed = succeed(&["inspect", "--sha256", "--json", &server.url("/m.safetensors")]);
    let sha256 = |bytes: &[u8]| {
        use sha2::Digest;
        sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert!(printed.contains(&sha256(&FILE[range_of("fourth")])), "{printed}");
    assert_eq!(server.ranges(), [0..65_536, 65_536..FILE.len(), 65_536 + 700_000..FILE.len()]);
    assert_eq!(server.sent(), FILE.len());
}

#[test]
fn verify_reports_the_position_of_damage() {
    let entries =
        vec![Entry::raw("noise", 7, &[200_000], noise(1, 200_000)), Entry::lz4("ramp", 7, &[200_000], &ramp(200_000))];
    let mut file = Apr::new(entries).build();
    file[150_000] ^= 1;
    let server = Server::new(move |request| answer(&file, request));
    let error = fail(&["verify", &server.url("/m.apr")]);
    assert!(error.starts_with(&format!("weightstream: error[CHECKSUM]: {}: ", server.url("/m.apr"))), "{error}");
}

#[test]
fn headers_open_private_models_and_are_never_printed() {
    let server = Server::new(|request| match request.header("authorization") {
        Some("Bearer s3cret") => answer(&FILE, request),
        _ => Reply::new(401, b"s3cret"),
    });
    let url = server.url("/m.safetensors");
    succeed(&["inspect", &url, "--header", "Authorization: Bearer s3cret", "--header", "X-Other: 1"]);
    succeed(&["verify", &url, "--header", "authorization:Bearer s3cret"]);
    assert!(fail(&["inspect", &url]).contains("error[HTTP]"));
    for wrong in ["Authorization: Bearer s3cret.", "Bearer s3cret", "s3 cret: x", "X: s3cret\n", ": s3cret"] {
        let error = fail(&["verify", &url, "--header", wrong]);
        assert!(!error.contains("s3cret") && !error.contains("s3 cret"), "{error}");
    }
    assert!(fail(&["inspect", "m.apr", "--header", "X-Key: s3cret"]).contains("error[INVALID_ARGUMENT]"));
}

#[test]
fn a_url_converts_to_the_same_bytes_as_its_file_and_in_one_pass() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here.apr"), folder.path().join("there.apr"));
    let file = folder.path().join("m.safetensors");
    std::fs::write(&file, &*FILE).unwrap();
    let server = Server::new(|request| answer(&FILE, request));
    let convert = |from: &str, to: &std::path::Path| {
        succeed(&["convert", from, to.to_str().unwrap(), "--compress", "lz4"]);
        std::fs::read(to).unwrap()
    };
    assert!(convert(file.to_str().unwrap(), &here) == convert(&server.url("/m.safetensors"), &there));
    let sent: usize = server.ranges().iter().map(|range| range.end.min(FILE.len()) - range.start).sum();
    assert!(sent <= FILE.len() + 65_536, "{:?}", server.ranges());
}

#[test]
fn same_origin_rejects_other_hosts_and_requires_a_url() {
    let other = Server::new(|request| answer(&FILE, request));
    let target = other.url("/m");
    let server = Server::new(move |_| Reply::new(302, b"").with("Location", &target));
    let url = server.url("/m.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.apr");
    succeed(&["inspect", &url]);
    let asked = other.requests().len();
    for command in [&["inspect", &url][..], &["verify", &url], &["convert", &url, out.to_str().unwrap()]] {
        let error = fail(&[command, &["--same-origin"]].concat());
        assert!(error.starts_with("weightstream: error[HTTP]: ") && error.contains(&other.url("/m")), "{error}");
    }
    assert_eq!(other.requests().len(), asked);
    assert!(fail(&["inspect", "m.apr", "--same-origin"]).contains("error[INVALID_ARGUMENT]"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_stalled_conversion() {
    use std::time::{Duration, Instant};

    let server = Server::new(|request| match request.number {
        0 => answer(&FILE, request),
        _ => answer(&FILE, request).stall_after(200_000),
    });
    let folder = tempfile::tempdir().unwrap();
    let names = || std::fs::read_dir(folder.path()).unwrap().count();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.args(["convert", &server.url("/m.safetensors"), "out.apr"]).current_dir(folder.path());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    while names() == 0 || server.requests().len() < 2 {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((status.code(), names()), (Some(130), 0));
}
