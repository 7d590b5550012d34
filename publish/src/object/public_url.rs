//! The http(s) URLs under which stores deliver the objects of public buckets.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use reqwest::Url;
use weightstream::internals::names;

/// The region of S3 if none is set.
const DEFAULT_REGION: &str = "us-east-1";

/// Hosts that never deliver without credentials: public buckets of R2 have domains of their own.
const PRIVATE_HOSTS: [&str; 1] = [".r2.cloudflarestorage.com"];

/// The URL of a bucket of S3, or of another host with its interface, without a slash at its end.
pub(super) fn of_s3(builder: &AmazonS3Builder, bucket: &str) -> Option<String> {
    if let Some(endpoint) = builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
        let is_of_bucket = builder.get_config_value(&AmazonS3ConfigKey::VirtualHostedStyleRequest);
        let base = on_endpoint(&endpoint)?;
        return Some(if is_of_bucket.as_deref() == Some("true") { base } else { below(&base, bucket) });
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| DEFAULT_REGION.to_owned());
    // The certificates of the hosts of buckets have one wildcard, which does not include dots.
    Some(match bucket.contains('.') {
        true => format!("https://s3.{region}.amazonaws.com/{bucket}"),
        false => format!("https://{bucket}.s3.{region}.amazonaws.com"),
    })
}

/// The URL of a bucket of Google Cloud Storage.
pub(super) fn of_gcs(builder: &GoogleCloudStorageBuilder, bucket: &str) -> Option<String> {
    let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    Some(below(&on_endpoint(endpoint.as_deref().unwrap_or("https://storage.googleapis.com"))?, bucket))
}

/// The URL of a container of Azure.
pub(super) fn of_azure(builder: &MicrosoftAzureBuilder, container: &str) -> Option<String> {
    if let Some(endpoint) = builder.get_config_value(&AzureConfigKey::Endpoint) {
        return Some(below(&on_endpoint(&endpoint)?, container));
    }
    if builder.get_config_value(&AzureConfigKey::UseEmulator).as_deref() == Some("true") {
        return None;
    }
    let account = builder.get_config_value(&AzureConfigKey::AccountName)?;
    Some(format!("https://{account}.blob.core.windows.net/{container}"))
}

/// The URL of an endpoint, without a slash at its end; `None` if it is not that of clients.
fn on_endpoint(endpoint: &str) -> Option<String> {
    let url = Url::parse(endpoint).ok()?;
    let is_private = |host: &str| PRIVATE_HOSTS.iter().any(|private| host.ends_with(private));
    let is_public = url.host_str().is_some_and(|host| !is_private(host)) && matches!(url.scheme(), "http" | "https");
    is_public.then(|| endpoint.trim_end_matches('/').to_owned())
}

fn below(base: &str, bucket: &str) -> String {
    format!("{base}/{}", names::encoded_segment(bucket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_bucket_has_the_url_of_its_region_or_endpoint() {
        let s3 = || AmazonS3Builder::new().with_region("eu-west-1");
        assert_eq!(of_s3(&s3(), "b").as_deref(), Some("https://b.s3.eu-west-1.amazonaws.com"));
        assert_eq!(of_s3(&s3(), "b.c").as_deref(), Some("https://s3.eu-west-1.amazonaws.com/b.c"));
        assert_eq!(of_s3(&AmazonS3Builder::new(), "b").as_deref(), Some("https://b.s3.us-east-1.amazonaws.com"));
        let with = |endpoint: &str| of_s3(&s3().with_endpoint(endpoint), "b");
        assert_eq!(with("http://127.0.0.1:9000/").as_deref(), Some("http://127.0.0.1:9000/b"));
        assert_eq!(with("https://0123.r2.cloudflarestorage.com"), None, "R2 requires credentials there");
        let gcs = GoogleCloudStorageBuilder::new();
        assert_eq!(of_gcs(&gcs, "b").as_deref(), Some("https://storage.googleapis.com/b"));
        let azure = MicrosoftAzureBuilder::new();
        assert_eq!(of_azure(&azure, "c"), None, "the account is not known");
        let azure = azure.with_account("a");
        assert_eq!(of_azure(&azure, "c").as_deref(), Some("https://a.blob.core.windows.net/c"));
    }
}
