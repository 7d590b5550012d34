//! Tests how visitors of the demo page choose a model, load it again, and find the project.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weightstream_cli::serve::Server;

use crate::page::{LOAD_LIMIT, Page, SOON};
use crate::page_test::{TestCase, open_model, wait_for_error_message, wait_for_the_model};
use xtask::demo::Demo;
use xtask::sources;

pub const CASES: [(&str, TestCase); 6] = [
    ("reloads from the cache and from the network", reloads_from_cache_and_network),
    ("opens a repository of Hugging Face", opens_a_repository),
    ("offers the models of a repository with several", offers_several_models),
    ("opens the page of a file of Hugging Face", opens_the_page_of_a_file),
    ("links only to pages", links_only_to_pages),
    ("keeps saying that a tensor was verified with its file", keeps_saying_what_was_verified),
];

/// The origins of a load from the network. When a connection takes over the end of a file, a few of its bytes may be
/// received twice, or the second time come from the cache.
const FROM_NETWORK: &str = r": (0\sbytes|[0-4]\.\d+\sMB|\d+\skB) from the cache, 7[4-6]\.\d\sMB from the network\.";

const STATUS: &str = "document.querySelector('#status').textContent";

/// More bytes than the requests that check whether cached files are unchanged.
const FEW: u64 = 100_000;

fn reloads_from_cache_and_network(page: &mut Page, demo: &Demo) -> Result<()> {
    open_model(page)?;
    page.click("#load-all")?;
    wait_for_a_load(page, FROM_NETWORK)?;
    let before = demo.traffic.bytes();
    page.click("#reload")?;
    wait_for_a_load(page, r": 74\.\d\sMB from the cache, 0\sbytes from the network\.")?;
    let fetched = demo.traffic.bytes() - before;
    ensure!(fetched < FEW, "{fetched} bytes were fetched although the model is cached");
    page.click("#reload-network")?;
    wait_for_a_load(page, FROM_NETWORK)?;
    let weights: u64 = demo.model.expected.iter().map(|tensor| tensor.byte_length).sum();
    let fetched = demo.traffic.bytes() - before;
    ensure!(fetched > weights / 2, "{fetched} bytes were fetched after the cache was cleared");
    let times = page.evaluate("document.querySelector('#figures dd').textContent")?;
    ensure!(times.as_str().is_some_and(|text| text.ends_with("from the cache")), "the load times are {times}");
    Ok(())
}

/// Waits for the end of a load with these origins, all of whose files are verified. `origins` is a regular
/// expression.
fn wait_for_a_load(page: &mut Page, origins: &str) -> Result<()> {
    let end = format!("/{origins} 104 of 104 tensors match SHA-256\\.$/");
    page.wait_for("a verified load", LOAD_LIMIT, &format!("{end}.test({STATUS})"))
}

fn opens_a_repository(page: &mut Page, demo: &Demo) -> Result<()> {
    stand_in_for_hugging_face(page, demo)?;
    open_address(page, "https://huggingface.co/owner/one")?;
    wait_for_the_model(page)?;
    let count = page.evaluate("document.querySelector('#tensor-count').textContent")?;
    ensure!(count == format!("{} tensors", demo.model.expected.len()), "the model has {count}");
    let address = page.evaluate("new URLSearchParams(location.search).get('model')")?;
    ensure!(address == "https://huggingface.co/owner/one", "the address of the model is {address}");

    open_address(page, "https://huggingface.co/owner/none")?;
    wait_for_error_message(page, "owner/none")
}

fn offers_several_models(page: &mut Page, demo: &Demo) -> Result<()> {
    stand_in_for_hugging_face(page, demo)?;
    open_address(page, "https://hf.co/owner/many/tree/main")?;
    page.wait_for("the choice", SOON, "document.querySelectorAll('#choices button').length === 2")?;
    let status = page.evaluate(STATUS)?;
    ensure!(status == "owner/many has several models. Choose one of them.", "the status is {status}");
    page.click("#choices li:last-child button")?;
    wait_for_the_model(page)?;
    let address = page.evaluate("new URLSearchParams(location.search).get('model')")?;
    let expected = "https://huggingface.co/owner/many/resolve/main/large.safetensors";
    ensure!(address == expected, "the address of the model is {address}");
    ensure!(page.evaluate("document.querySelector('#choices').hidden")? == true, "the choice is still there");
    Ok(())
}

fn opens_the_page_of_a_file(page: &mut Page, demo: &Demo) -> Result<()> {
    for view in ["blob/v1", "resolve/v1", "raw/main"] {
        stand_in_for_hugging_face(page, demo)?;
        open_address(page, &format!("https://huggingface.co/owner/one/{view}/model.safetensors?download=true"))?;
        wait_for_the_model(page)?;
    }
    Ok(())
}

fn links_only_to_pages(page: &mut Page, _: &Demo) -> Result<()> {
    check_links(page)
}

/// Checks the links of the page that is open, and its preview.
pub fn check_links(page: &mut Page) -> Result<()> {
    let wrong = page.evaluate(&format!("({})()", include_str!("project_links.js")))?;
    ensure!(wrong == json!([]), "{wrong}");
    Ok(())
}

fn keeps_saying_what_was_verified(page: &mut Page, demo: &Demo) -> Result<()> {
    let fixtures = sources::root().join("tests/fixtures/apr");
    let server = Server::new().mount("/", fixtures).bind("127.0.0.1:0")?.spawn();
    page.open(&demo.page(&format!("?model={}/alltypes.apr&load=all", server.url())))?;
    says_crc_of_file(page, "after the load")?;
    page.click("tr[data-tensor]")?;
    page.wait_for("the tensor", SOON, "/^Loaded/.test(document.querySelector('#tensor-view .hint')?.textContent)")?;
    says_crc_of_file(page, "after a tensor was loaded alone")?;
    page.click("th.name button")?;
    says_crc_of_file(page, "after sorting")?;
    page.click("#reload")?;
    page.wait_for("the reload", LOAD_LIMIT, &format!("/^Loaded.*from the cache/.test({STATUS})"))?;
    says_crc_of_file(page, "after a load from the cache")?;
    page.click("tr[data-tensor]")?;
    page.wait_for("the tensor", SOON, "/^Loaded/.test(document.querySelector('#tensor-view .hint')?.textContent)")?;
    says_crc_of_file(page, "after a tensor was loaded from the cache")
}

/// Checks what each row of the table says: the tensors have no checksums, their file has one.
fn says_crc_of_file(page: &mut Page, when: &str) -> Result<()> {
    let cells = "[...document.querySelectorAll('tr[data-tensor] td.checked')].map((cell) => cell.textContent)";
    let said = format!("(({cells}).length > 1 && ({cells}).every((text) => text === 'CRC-32 of file'))");
    let limit = Duration::from_secs(10);
    page.wait_for(&format!("the checksum of the file {when}"), limit, &said)
        .with_context(|| format!("{when}, the rows say {:?}", page.evaluate(cells)))
}

/// Opens the page with a script that answers its requests to Hugging Face.
fn stand_in_for_hugging_face(page: &mut Page, demo: &Demo) -> Result<()> {
    let script = json!({ "source": include_str!("hugging_face.js") });
    page.call("Page.addScriptToEvaluateOnNewDocument", script)?;
    page.open(&demo.page(""))
}

fn open_address(page: &mut Page, address: &str) -> Result<()> {
    page.type_into("#url", address)?;
    page.press("Enter")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weightstream::internals::format;

    use super::*;

    #[test]
    fn the_page_finds_the_files_of_every_format_in_a_repository() {
        let script = fs::read_to_string(sources::root().join("www/hugging-face.js")).unwrap();
        let pattern = |name: &str| script.split(name).nth(1).and_then(|rest| rest.lines().nth(1)).unwrap();
        let patterns = format!("{}{}", pattern("const MODEL_FILE ="), pattern("const OTHER_FILE ="));
        let known: Vec<_> = patterns.split(|character: char| !character.is_ascii_alphanumeric()).collect();
        for extension in format::formats().iter().flat_map(|format| format.extensions) {
            assert!(known.contains(&extension.trim_start_matches('.')), "{extension} is missing in {patterns}");
        }
    }
}
