//! What a user says of the endpoint: headers, keys, proxies, certificates, prices.
//!
//! Invariant: a key and a password are read here, sent where they belong, and shown nowhere.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use super::args::ReplayArgs;
use crate::metrics::Price;
use crate::replay::call::Setup;
use crate::replay::endpoint::endpoint;
use crate::replay::http::Reach;
use crate::replay::identity::Identity;
use crate::replay::route::Proxies;

pub(super) fn setup(args: &ReplayArgs) -> anyhow::Result<Setup> {
    let mut headers = HeaderMap::new();
    for header in &args.traffic.header {
        let (name, value) = header.split_once(':').context("a header is NAME:VALUE")?;
        let name: HeaderName = name.trim().parse().context("a header has a name that cannot be sent")?;
        headers.insert(name, secret(value.trim())?);
    }
    if let Some(key) = key(args)? {
        headers.insert(AUTHORIZATION, secret(&Zeroizing::new(format!("Bearer {}", &*key)))?);
        if args.api == "messages" {
            headers.insert("x-api-key", secret(&key)?);
        }
    }
    let affinity = args.traffic.affinity_header.as_ref().map(|name| name.parse::<HeaderName>());
    let affinity = affinity.transpose().context("--affinity-header cannot be sent")?;
    let mut run = [0; 32];
    getrandom::fill(&mut run).context("the system gives no randomness")?;
    Ok(Setup {
        endpoint: endpoint(&args.api).context("no such API")?,
        model: args.model.clone().unwrap_or_default(),
        always_stream: true,
        exact: true,
        headers,
        identity: Identity::new(run, affinity),
        retries: args.traffic.retries,
    })
}

/// A header value that is never shown.
fn secret(value: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value).map_err(|_| anyhow!("a header's value cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[expect(clippy::disallowed_methods, reason = "the key may be in the environment, whose variable the user names")]
fn key(args: &ReplayArgs) -> anyhow::Result<Option<Zeroizing<String>>> {
    let key = match (&args.traffic.api_key_env, &args.traffic.api_key_file) {
        (Some(name), _) => std::env::var(name).map_err(|_| anyhow!("the variable {name} is not set"))?,
        (None, Some(path)) => {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Zeroizing::new(Zeroizing::new(key).trim().to_owned())))
}

pub(super) fn price(args: &ReplayArgs) -> anyhow::Result<Option<Price>> {
    let items = args.price.iter().map(String::as_str);
    if args.price.is_empty() { Ok(None) } else { Ok(Some(Price::parse(items).context("--price")?)) }
}

pub(super) fn random() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).context("the system gives no randomness")?;
    Ok(u64::from_le_bytes(bytes))
}

/// How the endpoint is reached.
pub(super) fn reach(args: &ReplayArgs) -> anyhow::Result<Reach> {
    let trusted = args
        .traffic
        .ca_file
        .as_ref()
        .map(|path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display())));
    let (connect, idle) = (args.traffic.connect_timeout, args.traffic.idle_timeout);
    Ok(Reach { connect, idle, proxies: proxies(args.traffic.proxy.as_deref()), trusted: trusted.transpose()? })
}

/// The proxies of the flag, else those of the usual variables.
#[expect(clippy::disallowed_methods, reason = "these variables are how users name their proxies to every program")]
fn proxies(flag: Option<&str>) -> Proxies {
    match flag {
        Some("none") => Proxies::default(),
        Some(proxy) => Proxies { http: proxy.to_owned(), https: proxy.to_owned(), except: String::new() },
        None => {
            let named = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
            Proxies {
                http: named(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]),
                https: named(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
                except: named(&["no_proxy", "NO_PROXY"]),
            }
        }
    }
}

/// Where what was found of a tokenizer is kept between runs; none without a home.
#[expect(clippy::disallowed_methods, reason = "caches lie where the user's variables say")]
pub(super) fn cache_dir() -> Option<PathBuf> {
    let home = || std::env::var("HOME").ok().map(|home| PathBuf::from(home).join(".cache"));
    std::env::var("XDG_CACHE_HOME").ok().map(PathBuf::from).or_else(home).map(|folder| folder.join("tracecloak"))
}
