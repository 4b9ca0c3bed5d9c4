//! A run as one HTML file: figures, and every request on a time line.
//!
//! Invariant: nothing is loaded from elsewhere; all text is the program's own or escaped.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Point, distributions, facts, maybe, time};
use crate::metrics::Summary;

const WIDTH: u64 = 1000;
const LANE: u64 = 9;
/// Sessions that are drawn.
const LANES: usize = 120;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:1080px;margin:2em auto;padding:0 1em;color:#1c2733;background:#fff}\
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse}td,th{padding:.25em .9em .25em 0;text-align:left;border-bottom:1px solid #e3e7eb}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.warn{background:#fff3d6;padding:.5em .8em;border-radius:4px}svg{width:100%;height:auto}\
@media(prefers-color-scheme:dark){body{background:#14181d;color:#dde3ea}td,th{border-color:#2c343d}.warn{background:#4a3a10}}";

/// The page of a run. `title` names it, `points` are requests to draw, in any order.
pub fn html(title: &str, summary: &Summary, points: &[Point]) -> String {
    let mut out = String::new();
    let title = escaped(title);
    put(
        &mut out,
        format_args!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
        ),
    );
    if summary.partial {
        out.push_str("<p class=\"warn\">Partial: the run was stopped before its end.</p>");
    }
    out.push_str("<h2>Run</h2><table>");
    for (name, value) in facts(summary) {
        put(&mut out, format_args!("<tr><th>{}</th><td>{}</td></tr>", escaped(&name), escaped(&value)));
    }
    out.push_str("</table><h2>Times</h2><table><tr><th></th>");
    for head in ["values", "p50", "p90", "p95", "p99", "max"] {
        put(&mut out, format_args!("<th class=\"n\">{head}</th>"));
    }
    out.push_str("</tr>");
    for (name, values) in distributions(summary) {
        put(&mut out, format_args!("<tr><th>{name}</th><td class=\"n\">{}</td>", values.count));
        for value in [values.p50, values.p90, values.p95, values.p99, values.max] {
            put(&mut out, format_args!("<td class=\"n\">{}</td>", maybe(value)));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>");
    lanes(&mut out, points);
    out.push_str("</html>\n");
    out
}

/// A lane a session: waiting for the first token is dark, the answer is light, a failure is red.
fn lanes(out: &mut String, points: &[Point]) {
    let mut sessions: BTreeMap<u32, Vec<&Point>> = BTreeMap::new();
    for point in points {
        sessions.entry(point.session).or_default().push(point);
    }
    let shown: Vec<_> = sessions.iter().take(LANES).collect();
    let Some(end) = shown.iter().flat_map(|(_, points)| points.iter()).map(|point| point.last_byte_us).max() else {
        return;
    };
    let x = |at: u64| at.saturating_mul(WIDTH) / end.max(1);
    let height = u64::try_from(shown.len()).unwrap_or(0) * LANE + 20;
    put(
        out,
        format_args!(
            "<h2>Requests over time</h2><p>A line a session, {} of {} shown. Dark: until the first token. Light: the answer. Red: failed.</p><svg viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"requests over time\">",
            shown.len(),
            sessions.len(),
            WIDTH + 40
        ),
    );
    for (lane, (number, points)) in (0..).zip(shown) {
        let y = lane * LANE;
        put(out, format_args!("<g><title>session {number}</title>"));
        for point in points {
            let (sent, last) = (x(point.sent_us), x(point.last_byte_us));
            let first = point.first_content_us.map_or(last, x);
            let mut bar = |from: u64, to: u64, color: &str| {
                put(
                    out,
                    format_args!(
                        "<rect x=\"{from}\" y=\"{y}\" width=\"{}\" height=\"7\" fill=\"{color}\" fill-opacity=\".75\"/>",
                        to.saturating_sub(from).max(1)
                    ),
                );
            };
            if point.fine {
                bar(first, last, "#7fb2e5");
                bar(sent, first, "#1f5fa8");
            } else {
                bar(sent, last, "#c0392b");
            }
        }
        out.push_str("</g>");
    }
    put(
        out,
        format_args!(
            "<text x=\"0\" y=\"{0}\" font-size=\"11\" fill=\"currentColor\">0</text><text x=\"{WIDTH}\" y=\"{0}\" font-size=\"11\" text-anchor=\"end\" fill=\"currentColor\">{1}</text></svg>",
            height - 4,
            time(end)
        ),
    );
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string never fails.
    out.write_fmt(text).ok();
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Collector, Wants};

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_is_given() {
        let summary = Collector::new(Wants::default()).summary(true);
        let point = Point { session: 3, request: 0, sent_us: 5, first_content_us: None, last_byte_us: 9, fine: false };
        let page = html("<a> & b", &summary, &[point]);
        assert!(page.contains("&lt;a&gt; &amp; b") && page.contains("Partial") && page.contains("#c0392b"));
        assert!(!page.contains("http") && !page.contains("<script"));
    }
}
