//! What the package does when the module panics, which it never should: the calls that wait are told, and the next
//! `open` works.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weightstream::serve::Server;

use crate::chromium::Chromium;
use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{command, package};

/// Crashes twice, once in the middle of calls and once inside one, and tells what came of all of it.
const IN_THE_PAGE: &str = r#"
async (url) => {
  const { StreamingLoader } = await import("/pkg/weightstream.js");
  const { crashForTest } = await import("/pkg/weightstream_glue.js");
  const outcome = (promise) => promise.then(() => "done", ({ name, code, message }) => `${name} ${code}: ${message}`);
  const never = () => new Promise(() => {});
  const told = {};

  const first = await StreamingLoader.open(url);
  const opening = outcome(StreamingLoader.open(url, { fetch: never }));
  const [{ name }] = await first.loadIndex();
  crashForTest(true);
  told.opening = await opening;
  told.callOfALostLoader = await outcome(first.loadTensor(name));

  const second = await StreamingLoader.open(url);
  told.tensorAfterwards = await outcome(second.loadTensor(name));
  told.oldLoader = await outcome(first.loadTensor(name));
  first.close();

  const iterator = second.tensors();
  await iterator.next();
  try { crashForTest(false); } catch {}
  told.iteration = await outcome(iterator.next());

  const third = await StreamingLoader.open(url);
  let count = 0;
  for await (const tensor of third.tensors()) count += tensor.data.length > 0;
  third.close();
  told.tensorsInTheEnd = count;
  return JSON.stringify(told);
}"#;

pub(crate) fn run(project: &Project) -> Result<()> {
    let package = with_hooks(project, "crash-test")?;
    let fixtures = project.root.join("tests/fixtures");
    let server = Server::new().mount("/", &fixtures).mount("/pkg", &package).bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.open(&format!("{}/", server.url()))?;
    let told = page.evaluate(&format!("({IN_THE_PAGE})({})", json!("/safetensors/basic.safetensors")))?;
    let told: Value = serde_json::from_str(told.as_str().context("the page gave no text")?)?;

    let crashed = |what: &str| {
        let text = told.get(what).and_then(Value::as_str).unwrap_or_default();
        text.starts_with("LoadError INTERNAL: weightstream crashed") && text.contains("this is a test")
    };
    for what in ["opening", "callOfALostLoader", "iteration"] {
        ensure!(crashed(what), "{what}: {told}");
    }
    let says = |what: &str, expected: &str| {
        told.get(what).and_then(Value::as_str).is_some_and(|text| text.starts_with(expected))
    };
    ensure!(says("tensorAfterwards", "done"), "{told}");
    ensure!(says("oldLoader", "LoadError CLOSED: This loader was lost"), "{told}");
    ensure!(told.get("tensorsInTheEnd").and_then(Value::as_u64) > Some(0), "{told}");
    println!("two panics, each told to whoever waited; the loader after each worked");
    Ok(())
}

/// The package, quickly built, with what only tests have: see the features of the crate. Each test has its own.
pub(crate) fn with_hooks(project: &Project, test: &str) -> Result<std::path::PathBuf> {
    let mut cargo = package::cargo_for_module(project)?;
    command::run(cargo.args(["--features", "crash-test,small-jobs"]))?;
    let package = project.target.join(test);
    package::bind(project, &project.target.join(TARGET).join("debug/weightstream.wasm"), &package)?;
    for name in ["weightstream.js", "weightstream.remote.js"] {
        fs::copy(project.root.join("src/js").join(name), package.join(name))?;
    }
    Ok(package)
}
