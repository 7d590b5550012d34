//! What `publish` prints at its end: what was sent, and how to open it.

use crate::commands::terminal::inform;
use crate::commands::{Failure, count, one_line};
use indicatif::DecimalBytes;
use std::path::Path;
use weightstream::internals::location::{is_object, is_url};
use weightstream::internals::names;
use weightstream_publish::Published;

/// The address at which `weightstream serve` serves a folder by default.
const LOCAL_SERVER: &str = "http://127.0.0.1:8080";

/// Prints what was sent, and how clients open the entry. `public_url` is the URL of the entry's folder for clients.
pub(super) fn report(published: &Published, public_url: Option<&str>) -> Result<(), Failure> {
    let Published { entry, files, file_count, sent_files, sent_bytes, .. } = published;
    let bytes: u64 = files.iter().map(|(_, byte_length)| byte_length).sum();
    let (what, total) = match entry {
        Some(entry) => (one_line(entry), count(*file_count, "file")),
        None => ("part".to_owned(), format!("{} of {file_count}", count(files.len(), "file"))),
    };
    let existed = match files.len() - sent_files {
        0 => String::new(),
        existed => format!(", {existed} existed"),
    };
    let sent = format!("{} sent ({})", count(*sent_files, "file"), DecimalBytes(*sent_bytes));
    inform(&format!("{what}: {total}, {}; {sent}{existed}", DecimalBytes(bytes)))?;
    let uncompressed = published.uncompressed_bytes;
    if entry.is_some() && bytes < uncompressed {
        let (ratio, saved) = (bytes as f64 / uncompressed as f64, DecimalBytes(uncompressed - bytes));
        inform(&format!("each download is {saved} smaller than without compression ({ratio:.2})"))?;
    }
    if let Some(difference) = published.difference_bytes {
        let ratio = difference as f64 / (bytes as f64).max(1.0);
        let size = DecimalBytes(difference);
        inform(&format!("clients with the previous revision download differences of {size} instead ({ratio:.2})"))?;
    }
    for line in entry.iter().flat_map(|entry| next_steps(entry, published.url.as_deref(), public_url)) {
        inform(&line)?;
    }
    Ok(())
}

/// How clients open the entry: the line of JavaScript, and the check of its server. `url` is the URL in its store.
fn next_steps(entry: &str, url: Option<&str>, public_url: Option<&str>) -> Vec<String> {
    let steps = |url: &str| {
        let open = format!("open it in a page:  const loader = await StreamingLoader.open({});", in_javascript(url));
        let check = format!("check its server:   weightstream publish --check {}", in_shell(url));
        [open, check]
    };
    if let Some(folder) = public_url {
        let name =
            if is_location(entry) { entry.rsplit('/').next().unwrap_or(entry).to_owned() } else { name_of(entry) };
        return steps(&format!("{}/{name}", folder.trim_end_matches('/'))).into();
    }
    match url {
        Some(url) if url == entry => steps(url).into(),
        Some(url) => {
            let note = "The URL is that of the store: the bucket must be public. `--public-url` names another one, \
                        such as that of a CDN.";
            steps(url).into_iter().chain([note.to_owned()]).collect()
        }
        None if is_location(entry) => {
            vec!["clients need an http(s) URL of the bucket: `--public-url` shows how to open it".to_owned()]
        }
        None => {
            let folder = Path::new(entry).parent().unwrap_or(Path::new("."));
            let serve = format!("serve it here:      weightstream serve {}", in_shell(&folder.display().to_string()));
            [serve].into_iter().chain(steps(&format!("{LOCAL_SERVER}/{}", name_of(entry)))).collect()
        }
    }
}

fn is_location(entry: &str) -> bool {
    is_url(entry) || is_object(entry)
}

/// The encoded file name of a path.
fn name_of(path: &str) -> String {
    names::encoded_segment(&Path::new(path).file_name().unwrap_or_default().to_string_lossy())
}

fn in_javascript(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The text as one word of a shell.
fn in_shell(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-:@%+=,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", one_line(text).replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_that_of_clients_of_the_store_or_of_a_local_server() {
        let steps = |entry, url, public| next_steps(entry, url, public).join("\n");
        let own = steps("https://h/m.apr", Some("https://h/m.apr"), None);
        assert_eq!(
            own,
            "open it in a page:  const loader = await StreamingLoader.open(\"https://h/m.apr\");\n\
             check its server:   weightstream publish --check https://h/m.apr"
        );
        let bucket = steps("s3://b/m.apr", Some("https://b.s3.eu-west-1.amazonaws.com/m.apr"), None);
        assert!(bucket.contains("amazonaws.com/m.apr") && bucket.contains("must be public"), "{bucket}");
        let cdn = steps("s3://b/x/m%20.apr", None, Some("https://cdn.example/x/"));
        assert!(cdn.contains("\"https://cdn.example/x/m%20.apr\"") && !cdn.contains("public"), "{cdn}");
        assert!(steps("s3://b/m.apr", None, None).contains("--public-url"));
        let folder = steps("/a b/m 1.apr", None, None);
        assert!(folder.contains("weightstream serve '/a b'\n"), "{folder}");
        assert!(folder.contains("\"http://127.0.0.1:8080/m%201.apr\""), "{folder}");
        assert!(steps("/a/m 1.apr", None, Some("https://h")).contains("https://h/m%201.apr"));
    }
}
