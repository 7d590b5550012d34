use std::fs;
use std::net::TcpListener;

use weightstream_cli::serve::Server;

use crate::client::Client;
use crate::{Site, write};

#[test]
fn never_leaves_the_mounted_folder() {
    let outer = tempfile::tempdir().unwrap();
    write(outer.path(), "secret", b"secret");
    write(outer.path(), "served/model", b"weights");
    write(outer.path(), "served-too/model", b"secret");
    let server = Server::new().mount("/m", outer.path().join("served")).bind("127.0.0.1:0").unwrap().spawn();
    let paths = [
        "/m/../secret",
        "/m/../served/model",
        "/m/%2e%2e/secret",
        "/m/%2E%2E%2Fsecret",
        "/m/..%2fsecret",
        "/m/..%5csecret",
        "/m/..\\secret",
        "/m/./../secret",
        "/m//../secret",
        "/m/model/../../secret",
        "/../secret",
        "/m-too/model",
        "/m/%00",
        "/m/model%00",
        "/m/model%00.txt",
        "/m/%2fetc%2fpasswd",
        "/m//etc/passwd",
        "/m/%ff",
        "/secret",
        "*",
    ];
    for path in paths {
        let reply = Client::connect(&server).ask("GET", path, &[]);
        assert_eq!(reply.status, 404, "{path}");
    }
    assert_eq!(Client::connect(&server).ask("GET", "/m/model", &[]).text(), "weights");
}

#[cfg(unix)]
#[test]
fn follows_links_only_within_the_mounted_folder() {
    use std::os::unix::fs::symlink;

    let outer = tempfile::tempdir().unwrap();
    write(outer.path(), "secret", b"secret");
    write(outer.path(), "served-too/index.html", b"secret");
    write(outer.path(), "served/blob", b"weights");
    fs::create_dir(outer.path().join("served/empty")).unwrap();
    let served = outer.path().join("served");
    symlink("blob", served.join("inside")).unwrap();
    symlink("../secret", served.join("outside")).unwrap();
    symlink("../served-too", served.join("folder")).unwrap();
    symlink("../../secret", served.join("empty/index.html")).unwrap();
    symlink("nowhere", served.join("dangling")).unwrap();
    symlink("loop", served.join("loop")).unwrap();
    let server = Server::new().mount("/", served).bind("127.0.0.1:0").unwrap().spawn();
    let get = |path| Client::connect(&server).ask("GET", path, &[]);
    assert_eq!(get("/inside").text(), "weights");
    for path in ["/outside", "/folder", "/folder/", "/folder/index.html"] {
        assert_eq!(get(path).status, 403, "{path}");
    }
    for path in ["/dangling", "/loop"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
    assert!(!get("/empty/").text().contains("secret"));
}

#[test]
fn serves_no_hidden_files() {
    let site = Site::with(&[(".env", b"secret"), (".git/config", b"secret"), ("model", b"weights")]);
    for path in ["/.env", "/%2eenv", "/.git/config", "/.git/"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    let listing = site.get("/");
    assert!(listing.text().contains("model") && !listing.text().contains("env"));
}

#[cfg(unix)]
#[test]
fn does_not_open_what_is_not_a_file() {
    let site = Site::with(&[]);
    // A socket represents all special files; opening a pipe would block forever.
    let _socket = std::os::unix::net::UnixListener::bind(site.path("socket")).unwrap();
    assert_eq!(site.get("/socket").status, 404);
}

#[test]
fn decodes_names_and_ignores_the_query() {
    let site = Site::with(&[("ein Modell/größe #1%.bin", b"weights"), ("a+b", b"plus")]);
    for path in ["/ein%20Modell/gr%C3%B6%c3%9fe%20%231%25.bin", "//ein%20Modell//gr%C3%B6%c3%9fe%20%231%25.bin?v=1"] {
        assert_eq!(site.get(path).text(), "weights", "{path}");
    }
    assert_eq!(site.get("/a+b").text(), "plus");
    assert_eq!(site.get("/a+b?").text(), "plus");
    assert_eq!(site.get("/a+b/").status, 404);
    assert_eq!(site.get("http://weights:80/a+b?x").text(), "plus");
}

#[test]
fn the_longest_prefix_takes_precedence() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["top", "models", "tiny"] {
        write(folder.path(), &format!("{name}/file"), name.as_bytes());
    }
    write(folder.path(), "top/models/only-here", b"hidden by the mount");
    let server = Server::new()
        .mount("/", folder.path().join("top"))
        .mount("/models/tiny", folder.path().join("tiny"))
        .mount("/models", folder.path().join("models"))
        .mount("/one.bin", folder.path().join("tiny/file"))
        .bind("127.0.0.1:0")
        .unwrap()
        .spawn();
    let get = |path| Client::connect(&server).ask("GET", path, &[]);
    assert_eq!(get("/file").text(), "top");
    assert_eq!(get("/models/file").text(), "models");
    assert_eq!(get("/models/tiny/file").text(), "tiny");
    assert_eq!(get("/one.bin").text(), "tiny");
    assert_eq!(get("/one.bin/file").status, 404);
    assert_eq!(get("/models/only-here").status, 404);
    assert_eq!(get("/modelsfile").status, 404);
}

#[test]
fn redirects_a_folder_to_its_slash_and_serves_its_index() {
    let site = Site::with(&[("app/index.html", b"<p>hello</p>"), ("ein Ort/x", b"")]);
    let reply = site.get("/app?x=1");
    assert_eq!((reply.status, reply.header("location")), (307, Some("/app/?x=1")));
    let page = site.get("/app/?x=1");
    assert_eq!((page.status, page.text()), (200, "<p>hello</p>"));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(site.get("/ein%20Ort").header("location"), Some("/ein%20Ort/"));
    // "//app/" would refer to a host called app.
    assert_eq!(site.get("//app").header("location"), Some("/app/"));
}

#[test]
fn lists_a_folder_without_an_index_by_names_and_sizes() {
    let site = Site::with(&[("b & <c>.bin", &[0; 1536]), ("a.txt", b"hi"), ("sub/model", b"")]);
    let reply = site.get("/");
    assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"));
    let page = reply.text();
    assert!(page.contains("<a href=\"./a.txt\">a.txt</a></td><td>2 B</td>"), "{page}");
    assert!(
        page.contains("<a href=\"./b%20%26%20%3Cc%3E.bin\">b &amp; &lt;c&gt;.bin</a></td><td>1.5 KiB</td>"),
        "{page}"
    );
    assert!(page.contains("<a href=\"./sub/\">sub/</a>"), "{page}");
    assert!(site.get("/sub/").text().contains("./model"));
}

#[test]
fn lists_the_mounts_where_none_is_at_the_top() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new().mount("/models", folder.path()).bind("127.0.0.1:0").unwrap().spawn();
    assert!(Client::connect(&server).ask("GET", "/", &[]).text().contains("href=\"/models\""));
}

#[test]
fn refuses_to_start_with_a_missing_folder_or_a_taken_port() {
    let missing = Server::new().mount("/", "no/such/folder").bind("127.0.0.1:0").unwrap_err();
    assert!(missing.to_string().contains("no/such/folder"), "{missing}");
    assert!(Server::new().mount("/../x", ".").bind("127.0.0.1:0").is_err());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(Server::new().bind(taken.local_addr().unwrap()).is_err());
}
