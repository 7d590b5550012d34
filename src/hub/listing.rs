//! What a hub says about a repository: the commit of a revision, and the files with their SHA-256.
//!
//! Source: `GET /api/models/{owner}/{name}/revision/{revision}?blobs=true` of the Hub API.

use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::model::finder::{self, Content, Found};
use crate::similar_names;
use serde_json::Value;

/// The answer to a request for a revision.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listing {
    pub(super) commit: Option<String>,
    pub(super) files: Vec<ListedFile>,
}

#[derive(Debug, PartialEq)]
pub(super) struct ListedFile {
    pub(super) path: String,
    pub(super) sha256: Option<Digest>,
    /// Whether the hub says how the file is stored. Only files in Git LFS or Xet then have a SHA-256.
    pub(super) is_described: bool,
}

impl Listing {
    /// Parses an answer. `None` if it is not one about a repository.
    pub(super) fn parse(answer: &[u8]) -> Option<Self> {
        let answer: Value = serde_json::from_slice(answer).ok()?;
        let commit = answer.get("sha").and_then(Value::as_str).filter(|commit| is_commit(commit));
        let files = answer.get("siblings")?.as_array()?.iter().filter_map(ListedFile::parse).collect();
        Some(Listing { commit: commit.map(str::to_owned), files })
    }

    pub(super) fn find(&self, path: &str) -> Option<&ListedFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The file to open for the repository as a whole.
    ///
    /// # Errors
    /// `NOT_FOUND` with the files to choose from, unless there is exactly one model.
    pub(super) fn model(&self, repository: &str) -> Result<&str> {
        let paths: Vec<_> = self.files.iter().map(|file| file.path.as_str()).collect();
        // The names of published files and of shards say which manifest they belong to.
        let found = finder::find(&paths, &|_| Content::Unknown);
        let not_found = |what: &str, advice: String| {
            let what = format!("the repository {repository} has {what}");
            Err(Error::new(ErrorKind::NotFound, what).advise(advice))
        };
        match &found {
            Found::One(model) => Ok(model),
            Found::Several(models) => {
                let advice = format!("Name one of them: `hf:{repository}/PATH` with {}.", finder::list(models));
                not_found(&format!("{} models", models.len()), advice)
            }
            Found::Part(_) | Found::Nothing => {
                let usual = || "Name the file to open: `hf:owner/name/path`.".to_owned();
                let advice = finder::advice(&found, &paths).unwrap_or_else(usual);
                not_found("no file of a model in a format that weightstream reads", advice)
            }
        }
    }

    /// The error for a file that the repository does not have.
    pub(super) fn no_file(&self, path: &str, repository: &str) -> Error {
        let what = format!("the repository {repository} has no file \"{path}\"");
        let error = Error::new(ErrorKind::NotFound, what);
        match similar_names::did_you_mean(path, self.files.iter().map(|file| file.path.as_str())) {
            Some(advice) => error.advise(advice),
            None => error.advise("Check the path and the revision."),
        }
    }
}

impl ListedFile {
    fn parse(file: &Value) -> Option<Self> {
        let path = file.get("rfilename")?.as_str()?.to_owned();
        let sha256 = file.pointer("/lfs/sha256").or_else(|| file.pointer("/lfs/oid")).and_then(Value::as_str);
        let is_described = file.get("size").is_some() || file.get("blobId").is_some();
        Some(ListedFile { path, sha256: sha256.and_then(sha256_of), is_described })
    }
}

/// A SHA-256 in hexadecimal.
pub(super) fn sha256_of(text: &str) -> Option<Digest> {
    format!("sha256:{text}").parse().ok()
}

/// Whether this is the full name of a commit.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    fn listing(paths: &[&str]) -> Listing {
        let file = |path: &&str| ListedFile { path: (*path).to_owned(), sha256: None, is_described: false };
        Listing { commit: None, files: paths.iter().map(file).collect() }
    }

    #[test]
    fn reads_the_commit_and_digests() {
        let digest = "ab".repeat(32);
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let answer = format!(
            r#"{{"sha":"{commit}","siblings":[{{"rfilename":"config.json","size":3,"blobId":"x"}},
            {{"rfilename":"m.gguf","size":9,"lfs":{{"sha256":"{digest}","size":9,"pointerSize":1}}}},{{"x":1}}]}}"#
        );
        let listing = Listing::parse(answer.as_bytes()).unwrap();
        assert_eq!(listing.commit.as_deref(), Some(commit));
        let [config, model] = listing.files.as_slice() else { panic!("{listing:?}") };
        assert!(config.sha256.is_none() && config.is_described);
        assert_eq!(model.sha256, sha256_of(&digest));
        assert!(model.sha256.is_some());
    }

    #[test]
    fn other_answers_are_not_listings() {
        for answer in ["", "{}", "[]", "<html>", r#"{"siblings":3}"#] {
            assert_eq!(Listing::parse(answer.as_bytes()), None, "{answer}");
        }
        assert_eq!(Listing::parse(br#"{"sha":"../x","siblings":[]}"#).unwrap().commit, None);
    }

    #[test]
    fn finds_the_model_of_a_repository() {
        let index = "model.safetensors.index.json";
        let sharded = listing(&["model-00001-of-00002.safetensors", index, "model-00002-of-00002.safetensors"]);
        assert_eq!(sharded.model("a/b"), Ok(index));
        assert_eq!(listing(&["x.gguf", "model.safetensors"]).model("a/b"), Ok("model.safetensors"));
        assert_eq!(listing(&["README.md", "q/x-q4_0.gguf"]).model("a/b"), Ok("q/x-q4_0.gguf"));
        let split = listing(&["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"]);
        assert_eq!(split.model("a/b"), Ok("m-00001-of-00003.gguf"));
    }

    #[test]
    fn lists_the_choices() {
        let error = listing(&["q4.gguf", "q8.gguf", "x.bin"]).model("a/b").unwrap_err();
        assert_eq!(error.code(), "NOT_FOUND");
        let message = error.to_string();
        assert!(message.contains("has 2 models") && message.contains("with q4.gguf, q8.gguf."), "{message}");
        let error = listing(&["x.bin"]).model("a/b").unwrap_err().to_string();
        assert!(error.contains("no file of a model") && error.contains("x.bin may be a PyTorch"), "{error}");
    }

    #[test]
    fn a_missing_file_suggests_similar_ones() {
        let error = listing(&["model.safetensors", "x.bin"]).no_file("models.safetensors", "a/b").to_string();
        assert!(error.contains("Did you mean \"model.safetensors\"?"), "{error}");
    }
}
