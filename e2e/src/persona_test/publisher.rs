//! Runs the commands of the README one after another, and the line of JavaScript that `publish` prints.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use weightstream::blocking::Model;
use weightstream_cli::serve::Server;
use xtask::{command, workspace};

use super::World;

pub(super) fn follows_the_readme(world: &World<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = folder.path();
    let program = workspace::build(world.project, "weightstream")?;
    let weightstream = |arguments: &str| {
        let mut command = world.command(&program, files);
        command.args(arguments.split_whitespace());
        command
    };
    fs::copy(world.models.path().join("model.safetensors"), files.join("model.safetensors"))?;
    // The block begins with a model in APR, which most publishers make first.
    command::output(&mut weightstream("convert model.safetensors model.apr"))?;

    let block = world.code("README.md", "sh", "weightstream inspect")?;
    let mut results = Vec::new();
    for line in block.lines() {
        let command = line.split('#').next().unwrap_or_default().trim();
        let arguments = command.strip_prefix("weightstream ").with_context(|| format!("not a command: {line}"))?;
        let arguments = arguments
            .replace("NAME", "encoder.bias")
            .replace("s3://bucket/minilm/", "published/")
            .replace("model.apr --dtype", "quantized.apr --dtype")
            .replace("hf:owner/name", &format!("{}/model.safetensors", world.server.url()));
        if arguments == "serve" {
            serves_the_folder(&mut weightstream(&arguments))?;
            continue;
        }
        let printed = command::output(&mut weightstream(&arguments)).with_context(|| arguments.clone())?;
        results.push((arguments, printed));
    }
    let printed = |start: &str| {
        let result = results.iter().find(|(arguments, _)| arguments.starts_with(start));
        result.map(|(_, printed)| printed.as_str()).with_context(|| format!("README.md has no `weightstream {start}`"))
    };
    ensure!(printed("inspect")?.contains("encoder.bias"), "{}", printed("inspect")?);
    ensure!(files.join("out.npy").is_file() && files.join("models/name/model.safetensors").is_file());
    opens_what_was_published(world, files, printed("publish")?)
}

/// Serves the published folder with the printed command, and opens it with the printed line in Node.js.
fn opens_what_was_published(world: &World<'_>, files: &Path, printed: &str) -> Result<()> {
    let step = |start: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(start));
        line.map(str::trim).with_context(|| format!("`publish` does not print \"{start}\": {printed}"))
    };
    let served = step("serve it here:")?.strip_prefix("weightstream serve ").context("another command is printed")?;
    let line = step("open it in a page:")?;
    let server = Server::new().mount("/", served).bind("127.0.0.1:0")?.spawn();
    let line = line.replace("http://127.0.0.1:8080", &server.url()); // another port, which is certainly free
    world.install(files)?;
    let code = format!(
        "import {{ StreamingLoader }} from \"weightstream\";\n{line}\n\
         console.log((await loader.loadTensor(\"encoder.bias\")).data[0]);\nloader.close();\n"
    );
    fs::write(files.join("page.mjs"), code)?;
    let printed = command::output(world.command("node", files).arg("page.mjs"))?;
    ensure!(printed.trim() == "-0.5", "the published model has {printed}");
    Ok(())
}

/// Starts the server, and requests a part of a file.
fn serves_the_folder(serve: &mut Command) -> Result<()> {
    let mut child = serve.args(["--port", "0"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let outcome = (|| {
        let mut output = BufReader::new(child.stdout.take().context("the server has no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).context(line.clone())?;
        let file = Model::open(format!("{}/model.safetensors", url.trim_end_matches('/')))?;
        ensure!(file.tensors().len() == 5, "the served model has {} tensors", file.tensors().len());
        Ok(())
    })();
    child.kill()?;
    child.wait()?;
    outcome
}
