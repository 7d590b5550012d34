//! Credentials in the files of the AWS command line, which `object_store` does not read: it knows the variables of the
//! environment, web identities, and the metadata services of containers and instances.

use object_store::aws::AmazonS3ConfigKey;
use std::env;
use std::path::PathBuf;

/// Returns the keys and the region of the profile `AWS_PROFILE`, or `default`, from `~/.aws/credentials` and
/// `~/.aws/config`, or the files that `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` name. Returns no keys if the
/// environment has some: they take precedence.
pub(super) fn aws_profile() -> Vec<(AmazonS3ConfigKey, String)> {
    let profile = env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
    let mut found = Vec::new();
    let config_section = if profile == "default" { profile.clone() } else { format!("profile {profile}") };
    if let Some(text) = read("AWS_CONFIG_FILE", "config") {
        found.extend(section(&text, &config_section));
    }
    if let Some(text) = read("AWS_SHARED_CREDENTIALS_FILE", "credentials") {
        found.extend(section(&text, &profile));
    }
    let has_keys = env::var_os("AWS_ACCESS_KEY_ID").is_some() || env::var_os("AWS_WEB_IDENTITY_TOKEN_FILE").is_some();
    let key = |(name, value): (String, String)| {
        let key = match name.as_str() {
            "aws_access_key_id" | "aws_secret_access_key" | "aws_session_token" if !has_keys => name.parse().ok()?,
            "region" => AmazonS3ConfigKey::Region,
            "endpoint_url" => AmazonS3ConfigKey::Endpoint,
            _ => return None,
        };
        Some((key, value))
    };
    found.into_iter().filter_map(key).collect()
}

fn read(variable: &str, name: &str) -> Option<String> {
    let path = match env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => env::home_dir()?.join(".aws").join(name),
    };
    std::fs::read_to_string(path).ok()
}

/// The keys of a section of an INI file.
fn section(text: &str, wanted: &str) -> Vec<(String, String)> {
    let mut is_wanted = false;
    let mut keys = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_wanted = name.trim() == wanted;
        } else if let (true, Some((key, value))) = (is_wanted, line.split_once('=')) {
            keys.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_the_keys_of_the_profile() {
        let text =
            "[default]\nregion = eu-west-1\n# a comment\n[profile ci]\nregion=us-east-2\naws_session_token = a=b\n";
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(section(text, "default"), [pair("region", "eu-west-1")]);
        assert_eq!(section(text, "profile ci"), [pair("region", "us-east-2"), pair("aws_session_token", "a=b")]);
        assert_eq!(section(text, "other"), []);
    }
}
