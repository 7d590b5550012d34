//! Where files go: the origin of a URL, and names that need encoding in URLs.

use crate::model::{Folder, content};
use crate::published::{options, publish, seven_layers, with_conversion};
use crate::server::Server;
use weightstream::ErrorKind;
use weightstream::internals::format::{aero, safetensors};
use weightstream::internals::loader::Options;
use weightstream::internals::native::{Reader, RemoteReader};
use weightstream_publish::{DownloadOptions, PublishOptions, Published, download};

/// Characters with a meaning in URLs, in shells, or in the rules of stores.
const ODD: &str = "~a [1] {2} #3 %41 %2F? * + & = @ ; ' \" < > | ^ ` é 模型";

fn publish_at(folder: &Folder, url: &str, options: &PublishOptions) -> weightstream::Result<Published> {
    weightstream_publish::publish_with(&seven_layers(folder), url, options, &())
}

fn with_secret() -> PublishOptions {
    options().with_headers(vec![("X-Secret".to_owned(), "token".to_owned())])
}

#[test]
fn uploads_go_to_the_host_and_port_of_the_url() {
    for path in ["", "/", "/a b/c", "/ü/", "/%C3%BC/%7Em/", "/a%5B1%5D/", "/m%20x.apr", "/a//b/"] {
        let (folder, server) = (Folder::new(), Server::start());
        let published = publish_at(&folder, &server.url(path), &with_secret()).unwrap();
        let entry = published.entry.unwrap();
        let requests = server.requests();
        assert!(!requests.is_empty());
        for request in requests {
            assert_eq!((&request.host, request.secret.as_deref()), (&server.address, Some("token")), "{path}");
        }
        let reader = RemoteReader::open(&entry, &[], Options::default()).unwrap();
        assert_eq!(reader.tensors().len(), 7, "{path}");
        let expected = weightstream::internals::names::decoded(path).unwrap();
        let expected = expected.trim_start_matches('/').trim_end_matches('/').trim_end_matches(".apr").to_owned();
        let files = server.files();
        assert!(files.keys().all(|name| name.starts_with(&format!("/{expected}"))), "{path}: {:?}", files.keys());
    }
}

#[test]
fn an_encoded_slash_stays_encoded() {
    let (folder, server) = (Folder::new(), Server::start());
    let url = server.url("/api/group%2Fname/generic/m.apr");
    publish_at(&folder, &url, &options()).unwrap();
    for request in server.requests() {
        assert!(request.path.starts_with("/api/group%2Fname/generic/m"), "{request:?}");
    }
    let error = publish_at(&folder, &server.url("/api/group%2Fm.apr"), &options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[test]
fn a_name_is_encoded_in_the_same_way_by_uploads_and_readers() {
    let name = "~ [1]+&=;|@'(),#%?*{} ü";
    let (folder, server) = (Folder::new(), Server::start());
    // A manifest cannot name files with a colon.
    let url = server.url(&format!("/{}/{}.apr", encoded(&format!("{name}:")), encoded(name)));
    let entry = publish_at(&folder, &url, &options()).unwrap().entry.unwrap();
    assert_eq!(entry, url);
    publish_at(&folder, &url, &options().with_previous(Some(entry.clone()))).unwrap();
    download(&entry, folder.path("copy"), &DownloadOptions::default()).unwrap();
    let requests = server.requests();
    for method in ["PUT", "GET"] {
        assert!(requests.iter().any(|request| request.method == method), "{requests:?}");
    }
    for request in requests {
        let decoded = weightstream::internals::names::decoded(&request.path).unwrap();
        assert_eq!(request.path, weightstream::internals::names::encoded(&decoded), "{request:?}");
    }
}

#[test]
fn a_folder_is_requested_as_it_was_given() {
    let (folder, server) = (Folder::new(), Server::start());
    let url = server.url("/a[1]+b/c%2bd/e:f/m[1].apr");
    let entry = publish_at(&folder, &url, &options()).unwrap().entry.unwrap();
    assert_eq!(entry, server.url("/a[1]+b/c%2bd/e:f/m%5B1%5D.apr"));
    RemoteReader::open(&entry, &[], Options::default()).unwrap();
    for request in server.requests() {
        assert!(request.path.starts_with("/a[1]+b/c%2bd/e:f/m%5B1%5D"), "{request:?}");
    }
}

#[test]
fn headers_are_not_sent_to_the_origin_of_the_previous_revision() {
    let (folder, first, second) = (Folder::new(), Server::start(), Server::start());
    let previous = publish_at(&folder, &first.url("/m/"), &options()).unwrap().entry.unwrap();
    publish_at(&folder, &second.url("/m/"), &with_secret().with_previous(Some(previous.clone()))).unwrap();
    assert!(second.requests().iter().all(|request| request.secret.as_deref() == Some("token")));
    assert!(first.requests().iter().all(|request| request.secret.is_none()), "{:?}", first.requests());
    publish_at(&folder, &first.url("/m/"), &with_secret().with_previous(Some(previous))).unwrap();
    assert!(first.requests().last().unwrap().secret.is_some(), "the same origin");
}

#[test]
fn odd_names_in_a_folder_are_those_that_the_entry_states() {
    for format in [None, Some(&aero::FORMAT), Some(&safetensors::FORMAT)] {
        let folder = Folder::new();
        let odd = ODD.replace('/', "");
        let extension = format.map_or("apr", |format| format.name);
        let options = with_conversion(|convert| convert.format(format));
        let out = folder.path(&odd).join(format!("{odd}.{extension}"));
        let input = seven_layers(&folder);
        let published = publish(&input, &out, &options).unwrap();
        assert_eq!(content(&Reader::open(published.entry.unwrap()).unwrap()), content(&input));
        let again = publish(&input, &out, &options).unwrap();
        assert_eq!(again.sent_files, 0);
    }
}

#[test]
fn odd_names_survive_a_server_and_a_download() {
    for format in [None, Some(&aero::FORMAT), Some(&safetensors::FORMAT)] {
        let (folder, server) = (Folder::new(), Server::start());
        let odd = ODD.replace('/', "");
        let extension = format.map_or("apr", |format| format.name);
        let options = with_conversion(|convert| convert.format(format));
        let url = server.url(&format!("/x/{}/{}.{extension}", encoded(&odd), encoded(&odd)));
        let entry = publish_at(&folder, &url, &options).unwrap().entry.unwrap();
        assert_eq!(RemoteReader::open(&entry, &[], Options::default()).unwrap().tensors().len(), 7);
        let again = publish_at(&folder, &url, &options.clone().with_previous(Some(entry.clone()))).unwrap();
        assert_eq!((again.sent_files, again.warnings), (0, Vec::new()));
        let copy = folder.path("copy");
        let downloaded = download(&entry, &copy, &DownloadOptions::default()).unwrap();
        let input = seven_layers(&folder);
        assert_eq!(content(&Reader::open(&downloaded.entry).unwrap()), content(&input));
        assert!(downloaded.entry.file_name().unwrap().to_str().unwrap().starts_with(&odd));
    }
}

#[test]
fn refuses_names_that_no_store_can_have() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let error = publish(&input, &folder.path("out").join("a\nb.apr"), &options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
}

fn encoded(name: &str) -> String {
    weightstream::internals::names::encoded_segment(name)
}
