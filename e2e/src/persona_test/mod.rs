//! Follows the documentation to the letter as new users do: a web developer, one with strict TypeScript, one who
//! publishes a model, one with a server, and one who writes Rust. Each starts in an empty folder with an empty home
//! folder, takes the commands and the code from README.md and docs/, and must see the result.
//!
//! What differs from the letter: the package and the crates are not published yet, so that `npm install` gets the
//! packed package and `cargo add` the path of the repository; the URL of the model is that of a server of the test; and
//! tools of other projects (Vite, TypeScript, Deno, Bun) are those that the repository pins.

mod page;
mod publisher;
mod rust;
mod server;
mod typescript;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use weightstream_cli::serve::{Running, Server};
use xtask::project::Project;
use xtask::{command, npm, package};

use crate::cases;
use crate::docs_test::fences::{Fence, fences};
use crate::docs_test::site;
use crate::timed::timed;

const INSTALL_LIMIT: Duration = Duration::from_secs(120);

/// The URL of the model in the documentation.
const MODEL_URL: &str = "https://example.org/model.safetensors";

type Follow = fn(&World<'_>) -> Result<()>;

const PERSONAS: [(&str, Follow); 5] = [
    ("a web developer", page::follows_the_readme),
    ("a web developer with strict TypeScript", typescript::follows_the_documentation),
    ("a publisher", publisher::follows_the_readme),
    ("a developer of servers", server::follows_the_documentation),
    ("a developer in Rust", rust::follows_the_readme),
];

/// What the personas find.
struct World<'a> {
    project: &'a Project,
    /// The packed npm package.
    tarball: PathBuf,
    /// The tools of other projects.
    tools: PathBuf,
    /// Has `model.safetensors`.
    models: TempDir,
    /// Serves these models.
    server: Running,
}

pub fn run(project: &Project) -> Result<()> {
    let built = package::build(project)?;
    let tools = npm::ready(project)?;
    let (packed, models) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--pack-destination"]).arg(packed.path()).current_dir(&built);
    let tarball = packed.path().join(command::output(&mut pack)?.trim());
    fs::write(models.path().join("model.safetensors"), site::model()?)?;
    let server = Server::new().mount("/", models.path()).bind("127.0.0.1:0")?.spawn();
    let world = World { project, tarball, tools, models, server };
    for (name, follow) in PERSONAS.into_iter().filter(|(name, _)| cases::is_wanted(name)) {
        timed(name, || follow(&world).with_context(|| format!("as {name}")))?;
    }
    Ok(())
}

impl World<'_> {
    /// The first code block of a document in this language that contains a text, with the model's URL on the server.
    fn code(&self, document: &str, language: &str, containing: &str) -> Result<String> {
        let text = fs::read_to_string(self.project.root.join(document))?;
        let lines: Vec<_> = text.lines().collect();
        let is_wanted = |fence: &Fence| {
            let opening = lines.get(fence.line - 1).map(|line| line.trim());
            let code = fence.code.join("\n");
            (opening == Some(format!("```{language}").as_str()) && code.contains(containing)).then_some(code)
        };
        let found = fences(document, &text)?.iter().find_map(is_wanted);
        let code = found.with_context(|| format!("{document} has no ```{language} block with {containing:?}"))?;
        Ok(code.replace(MODEL_URL, &format!("{}/model.safetensors", self.server.url())))
    }

    /// A program that runs in a folder, and whose home is empty.
    fn command(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        self.at_home(Command::new(program), folder)
    }

    fn at_home(&self, mut command: Command, folder: &Path) -> Command {
        command.current_dir(folder).env("XDG_CACHE_HOME", folder.join(".cache"));
        command
    }

    /// Runs `npm install weightstream` in an empty app.
    fn install(&self, folder: &Path) -> Result<()> {
        fs::write(folder.join("package.json"), r#"{ "private": true, "type": "module" }"#)?;
        let mut npm = self.command("npm", folder);
        npm.args(["install", "--offline", "--no-audit", "--no-fund"]).arg(&self.tarball);
        command::quiet(&mut npm, INSTALL_LIMIT)
    }
}
