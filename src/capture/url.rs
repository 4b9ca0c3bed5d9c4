//! URLs as recorders write them.
//!
//! Invariant: scheme, host and fragment go no further.

/// The path and query of a URL.
pub(super) fn path_and_query(url: &str) -> &str {
    let path = match url.split_once("://") {
        Some((_, rest)) if !url.starts_with('/') => rest.find(['/', '?']).and_then(|at| rest.get(at..)).unwrap_or("/"),
        _ => url,
    };
    path.split('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_path_and_query_are_kept() {
        for (url, path) in [
            ("https://host.invalid/v1/messages?beta=true#top", "/v1/messages?beta=true"),
            ("http://127.0.0.1:80", "/"),
            ("https://host.invalid?a=b", "?a=b"),
            ("/v1/models?at=http://host.invalid/", "/v1/models?at=http://host.invalid/"),
            ("", ""),
        ] {
            assert_eq!(path_and_query(url), path);
        }
    }
}
