//! The cache-hit curve, and requests in flight, as text and as JSON.
//!
//! Invariant: hit ratios are shares of prompt tokens; sizes are in blocks, in tokens and, if a token's size is given, in bytes.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::analyze::{CacheCurve, InFlight, Split};
use crate::cli::args::InspectArgs;
use crate::cli::output::{bytes, number, percent};

/// Shares of what an unbounded cache finds, for which the size is told.
const SHARES: [u32; 3] = [50, 90, 99];

/// Sums over all sessions.
fn split(curve: &CacheCurve) -> Split {
    curve.splits().fold(Split::default(), |sum, (_, split)| Split {
        blocks: sum.blocks + split.blocks,
        cold: sum.cold + split.cold,
        own: sum.own + split.own,
        shared: sum.shared + split.shared,
    })
}

/// The smallest cache that finds this share, in percent, of what any cache finds.
fn size_of_share(curve: &CacheCurve, share: u32) -> Option<u64> {
    curve.size_for(curve.hit_ratio(curve.distinct) * f64::from(share) / 100.0)
}

pub(super) fn as_text(curve: &CacheCurve, in_flight: &InFlight, args: &InspectArgs) -> String {
    let mut text = String::new();
    if in_flight.time_ms() > 0 {
        let levels = in_flight.levels.iter().enumerate().filter(|(_, time)| **time > 0);
        let shares: Vec<String> =
            levels.map(|(level, time)| format!("{level}: {}", percent(*time, in_flight.time_ms()))).collect();
        writeln!(text, "\nin flight  {:.2} on average; {}", in_flight.mean(), shares.join(", ")).ok();
    }
    if curve.blocks == 0 {
        return text;
    }
    let split = split(curve);
    writeln!(
        text,
        "\nprefix cache, {} at a time: of {} blocks {} are new, {} were last used by their session, {} by another",
        if args.concurrency == 1 { "1 session".to_owned() } else { format!("{} sessions", args.concurrency) },
        number(split.blocks),
        number(split.cold),
        number(split.own),
        number(split.shared),
    )
    .ok();
    let size = |blocks: u64| {
        let tokens = blocks * u64::from(curve.block_size);
        let of_bytes = args.bytes_per_token.map(|each| format!("{:>12}", bytes(tokens.saturating_mul(each))));
        format!("{:>12}{:>16}{}", number(blocks), number(tokens), of_bytes.unwrap_or_default())
    };
    let in_bytes = if args.bytes_per_token.is_some() { format!("{:>12}", "bytes") } else { String::new() };
    writeln!(text, "{:>12}{:>16}{in_bytes}{:>8}", "blocks", "tokens", "hits").ok();
    for (blocks, _) in curve.doublings() {
        let ratio = curve.hit_ratio(blocks) * 100.0;
        // A column for each two percent.
        let stars = (1..=50_u32).filter(|column| f64::from(*column) * 2.0 <= ratio).count();
        writeln!(text, "{}{ratio:>6.1} %  {}", size(blocks), "▪".repeat(stars)).ok();
    }
    let shares: Vec<String> = SHARES
        .iter()
        .filter_map(|share| Some(format!("{share} % of it with {} blocks", number(size_of_share(curve, *share)?))))
        .collect();
    writeln!(text, "at most {:.1} %; {}", curve.hit_ratio(curve.distinct) * 100.0, shares.join(", ")).ok();
    text
}

pub(super) fn as_json(curve: &CacheCurve, in_flight: &InFlight, args: &InspectArgs) -> Value {
    let point = |blocks: u64| {
        let tokens = blocks * u64::from(curve.block_size);
        json!({
            "blocks": blocks, "tokens": tokens, "bytes": args.bytes_per_token.map(|each| tokens.saturating_mul(each)),
            "found_blocks": curve.found(blocks), "hit_ratio": curve.hit_ratio(blocks),
        })
    };
    let split = split(curve);
    json!({
        "concurrency": args.concurrency,
        "curve": curve.doublings().into_iter().map(|(blocks, _)| point(blocks)).collect::<Vec<_>>(),
        "most": point(curve.distinct),
        "size_for_share": SHARES.map(|share| json!({ "percent": share, "blocks": size_of_share(curve, share) })),
        "blocks": { "all": split.blocks, "new": split.cold, "own": split.own, "other_session": split.shared },
        "in_flight_ms": in_flight.levels,
    })
}
