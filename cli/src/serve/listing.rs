//! The page for a folder without an `index.html`: the names and sizes of its files.

use std::fs;
use std::io;
use std::path::Path;

use super::site::is_visible_name;
use weightstream::internals::names::encoded_segment;

/// Lists the visible files and folders of `folder`.
pub(super) fn of_folder(folder: &Path) -> io::Result<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().filter(|name| is_visible_name(name)).map(str::to_owned) else {
            continue;
        };
        // Follows links, like requests; dangling links are omitted.
        let Ok(metadata) = entry.path().metadata() else {
            continue;
        };
        rows.push(if metadata.is_dir() {
            row(&format!("./{}/", encoded_segment(&name)), &format!("{name}/"), "")
        } else {
            row(&format!("./{}", encoded_segment(&name)), &name, &size(metadata.len()))
        });
    }
    rows.sort();
    Ok(page(&rows))
}

/// Lists the prefixes of the mounts.
pub(super) fn of_mounts(prefixes: &[String]) -> String {
    page(&prefixes.iter().map(|prefix| row(prefix, prefix, "")).collect::<Vec<_>>())
}

fn page(rows: &[String]) -> String {
    let rows = rows.concat();
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>weightstream serve</title>\n\
         <style>\n\
         body {{ font: 16px/1.5 system-ui; margin: 2rem }}\n\
         td {{ padding-right: 2rem }}\n\
         td + td {{ text-align: right }}\n\
         </style>\n\
         <table>\n{rows}</table>\n"
    )
}

fn row(link: &str, name: &str, size: &str) -> String {
    format!("<tr><td><a href=\"{link}\">{}</a></td><td>{size}</td></tr>\n", escape(name))
}

fn size(byte_length: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = byte_length as f64;
    let mut named = None;
    for unit in UNITS {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        named = Some(unit);
    }
    named.map_or(format!("{byte_length} B"), |unit| format!("{scaled:.1} {unit}"))
}

fn escape(name: &str) -> String {
    name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
