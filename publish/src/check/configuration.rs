//! The configuration of common servers that passes every check.

use reqwest::header::{self, HeaderMap};

/// A kind of server, for which there is a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Server {
    /// nginx.
    Nginx,
    /// Amazon S3 and stores with its API.
    S3,
    /// Cloudflare, in front of a server or of R2.
    Cloudflare,
}

/// A part of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snippet {
    /// Where to put it.
    pub place: &'static str,
    /// The text to insert, or the commands to run.
    pub text: &'static str,
}

impl Server {
    /// Every kind.
    pub const ALL: [Server; 3] = [Server::Nginx, Server::S3, Server::Cloudflare];

    /// The name: `nginx`, `s3` or `cloudflare`.
    pub fn name(self) -> &'static str {
        match self {
            Server::Nginx => "nginx",
            Server::S3 => "s3",
            Server::Cloudflare => "cloudflare",
        }
    }

    /// The complete configuration for files of models.
    pub fn configuration(self) -> Vec<Snippet> {
        match self {
            Server::Nginx => vec![
                Snippet { place: "in the http block", text: include_str!("configuration/nginx_http.conf") },
                Snippet {
                    place: "in the location block of the files",
                    text: include_str!("configuration/nginx_location.conf"),
                },
            ],
            Server::S3 => vec![
                Snippet {
                    place: "cors.json, for `aws s3api put-bucket-cors --bucket BUCKET --cors-configuration \
                            file://cors.json`",
                    text: include_str!("configuration/s3_cors.json"),
                },
                Snippet { place: "when uploading", text: include_str!("configuration/s3_upload.sh") },
            ],
            Server::Cloudflare => vec![
                Snippet { place: "in the dashboard", text: include_str!("configuration/cloudflare.txt") },
                Snippet {
                    place: "cors.json, for `wrangler r2 bucket cors set BUCKET --file cors.json`",
                    text: include_str!("configuration/r2_cors.json"),
                },
            ],
        }
    }

    /// The server that sent a response. A CDN in front comes first, because it decides what clients see.
    pub(super) fn guess(headers: &HeaderMap) -> Option<Server> {
        let server = headers.get(header::SERVER).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let server = server.to_ascii_lowercase();
        if headers.contains_key("cf-ray") || server.contains("cloudflare") {
            Some(Server::Cloudflare)
        } else if headers.contains_key("x-amz-request-id") || server.contains("amazons3") {
            Some(Server::S3)
        } else if server.contains("nginx") || server.contains("openresty") {
            Some(Server::Nginx)
        } else {
            None
        }
    }
}
