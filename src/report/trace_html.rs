//! A trace as one HTML page: its totals, the cache-hit curve, distributions, and a timeline of a session.
//!
//! Invariant: the page stands alone, with no script and nothing to load; the same trace gives the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::analyze::{Bins, CacheCurve, Distributions, InFlight, Overview, concurrency, float};
use crate::trace::vocab::{AgentKind, Relation, RequestKind, Vocabulary};
use crate::trace::{Manifest, Request, Session};

/// What a page shows.
pub struct TracePage<'a> {
    /// The head of the trace.
    pub manifest: &'a Manifest,
    /// Its totals.
    pub overview: &'a Overview,
    /// Its distributions.
    pub distributions: &'a Distributions,
    /// Its cache-hit curve.
    pub curve: &'a CacheCurve,
    /// Sessions that the curve takes to run at a time.
    pub lanes: usize,
    /// Requests in flight.
    pub in_flight: &'a InFlight,
    /// The session of the timeline, by its row.
    pub session: Option<(u32, &'a Session)>,
}

const STYLE: &str = "\
:root{--ink:#1b2430;--dim:#66717f;--line:#d9dee5;--paper:#fff;--a:#2f6fb4;--b:#e08a2e;--c:#8a98a8;--soft:#eef2f7}\
@media(prefers-color-scheme:dark){:root{--ink:#e3e8ee;--dim:#97a3b0;--line:#38424e;--paper:#151a20;--a:#6aa7e8;--b:#f0a857;--c:#788696;--soft:#1e252d}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2rem auto;padding:0 1rem;max-width:1060px}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.2rem 0 .6rem;color:var(--dim)}\
svg{display:block;width:100%;height:auto;overflow:visible}text{font:11px system-ui,sans-serif;fill:var(--dim)}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:1rem 2rem}h3{font-size:.95rem;margin:.5rem 0 .2rem;font-weight:600}\
.grid{stroke:var(--line)}.curve{fill:none;stroke:var(--a);stroke-width:2}.bar,.turn{fill:var(--a)}.other{fill:var(--c)}.wait{fill:var(--b)}\
.failed{fill:none;stroke:var(--b)}.link{stroke:var(--c);fill:none;stroke-dasharray:3 2}.gap,.lane{fill:var(--soft)}.level{fill:var(--soft);stroke:var(--c)}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.1rem .9rem .1rem 0;text-align:right;font-weight:400}th{color:var(--dim)}td:first-child,th:first-child,.words td{text-align:left}";

const WIDTH: f64 = 1000.0;

/// The page.
pub fn render(page: &TracePage<'_>) -> String {
    let mut out = String::with_capacity(1 << 16);
    let totals = &page.manifest.totals;
    write!(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>trace: {} sessions</title><style>{STYLE}</style><h1>{} sessions, {} agents, {} requests</h1>\
         <p>profile {}, scope {}, blocks of {} tokens, tokenizer {}</p>",
        totals.sessions,
        thousands(totals.sessions),
        thousands(totals.agents),
        thousands(totals.requests),
        page.manifest.profile.word(),
        page.manifest.scope.word(),
        page.manifest.block_size,
        page.manifest.tokenizer.name.word(),
    )
    .ok();
    counts(page.overview, &mut out);
    curve(page, &mut out);
    out.push_str("<h2>Distributions</h2><p>Bins double in width.</p><div class=\"plots\">");
    let of = page.distributions;
    for (title, bins, unit) in [
        ("Prompt tokens", &of.input_tokens, Unit::Count),
        ("Prompt tokens not seen before", &of.new_tokens, Unit::Count),
        ("Answer tokens", &of.output_tokens, Unit::Count),
        ("Duration of requests", &of.durations, Unit::Milliseconds),
        ("Pauses of the user", &of.user_delays, Unit::Milliseconds),
        ("Time that tools took", &of.tool_delays, Unit::Milliseconds),
    ] {
        histogram(title, bins, unit, &mut out);
    }
    out.push_str("</div>");
    in_flight(page.in_flight, &mut out);
    if let Some((row, session)) = page.session {
        timeline(row, session, page.manifest.block_size, &mut out);
    }
    out.push_str("</html>\n");
    out
}

fn counts(overview: &Overview, out: &mut String) {
    out.push_str("<table class=\"words\">");
    for (name, counts) in
        [("kinds", overview.kinds()), ("status", overview.statuses()), ("edges", overview.relations())]
    {
        let counts: Vec<String> =
            counts.into_iter().map(|(word, count)| format!("{} {word}", thousands(count))).collect();
        write!(out, "<tr><th>{name}<td>{}", counts.join(", ")).ok();
    }
    out.push_str("</table>");
}

/// Hit ratio over cache size, on an axis that doubles.
fn curve(page: &TracePage<'_>, out: &mut String) {
    let (curve, height) = (page.curve, 260.0);
    let points = curve.doublings();
    let last = float(u64::try_from(points.len()).unwrap_or(1)).max(2.0) - 1.0;
    let x = |doublings: f64| doublings / last * WIDTH;
    let y = |ratio: f64| height * (1.0 - ratio);
    write!(
        out,
        "<h2>Prefix cache</h2><p>Share of prompt tokens that a cache of each size finds: exact, blocks evicted least recently used \
         first, {} sessions at a time.</p><svg viewBox=\"-40 -10 1050 300\" role=\"img\" aria-label=\"cache-hit curve\">",
        page.lanes
    )
    .ok();
    for step in 0..=4_u32 {
        let ratio = f64::from(step) / 4.0;
        let at = y(ratio);
        write!(
            out,
            "<line class=\"grid\" x1=\"0\" x2=\"1000\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{} %</text>",
            at + 4.0,
            step * 25
        )
        .ok();
    }
    let mut path = String::new();
    for ((size, _), at) in points.iter().zip(0_u32..) {
        let ratio = curve.hit_ratio(*size);
        write!(path, "{:.1},{:.1} ", x(f64::from(at)), y(ratio)).ok();
        write!(
            out,
            "<circle class=\"bar\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{} blocks, {} tokens: {:.1} %</title></circle>",
            x(f64::from(at)),
            y(ratio),
            thousands(*size),
            thousands(size * u64::from(curve.block_size)),
            ratio * 100.0
        )
        .ok();
        if at % 2 == 0 {
            write!(
                out,
                "<text x=\"{:.1}\" y=\"278\" text-anchor=\"middle\">{}</text>",
                x(f64::from(at)),
                short(size * u64::from(curve.block_size))
            )
            .ok();
        }
    }
    write!(out, "<polyline class=\"curve\" points=\"{path}\"/></svg><p>cache size in tokens</p>").ok();
}

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Milliseconds,
}

fn show(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Count => short(value),
        Unit::Milliseconds => time(value),
    }
}

fn histogram(title: &str, bins: &Bins, unit: Unit, out: &mut String) {
    if bins.count() == 0 {
        return;
    }
    let first = bins.counts.iter().position(|count| *count > 0).unwrap_or(0);
    let shown: Vec<(usize, u64)> = bins.counts.iter().copied().enumerate().skip(first).collect();
    let most = float(shown.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1));
    let width = 400.0 / float(u64::try_from(shown.len()).unwrap_or(1));
    write!(out, "<div><h3>{title}</h3><svg viewBox=\"0 0 400 140\" role=\"img\" aria-label=\"{title}\">").ok();
    for ((bin, count), at) in shown.iter().zip(0_u32..) {
        let (left, tall) = (f64::from(at) * width, float(*count) / most * 115.0);
        write!(
            out,
            "<rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"><title>{} to {}: {}</title></rect>",
            left + 1.0,
            118.0 - tall,
            (width - 2.0).max(1.0),
            show(Bins::from(*bin), unit),
            show(Bins::from(bin + 1), unit),
            thousands(*count)
        )
        .ok();
        let room = if matches!(unit, Unit::Count) { 34.0 } else { 56.0 };
        if width > room || at % 2 == 0 {
            write!(out, "<text x=\"{left:.1}\" y=\"133\">{}</text>", show(Bins::from(*bin), unit)).ok();
        }
    }
    out.push_str("</svg></div>");
}

fn in_flight(of: &InFlight, out: &mut String) {
    if of.time_ms() == 0 {
        return;
    }
    write!(
        out,
        "<h2>Requests in flight</h2><p>Within a session, over its time: {:.2} on average, {} at most.</p><table><tr><th>in flight",
        of.mean(),
        of.peak()
    )
    .ok();
    let levels: Vec<(usize, u64)> = of.levels.iter().copied().enumerate().filter(|(_, time)| *time > 0).collect();
    for (level, _) in &levels {
        write!(out, "<th>{level}").ok();
    }
    out.push_str("<tr><td>share of time");
    for (_, time) in &levels {
        write!(out, "<td>{:.1} %", float(*time) / float(of.time_ms()) * 100.0).ok();
    }
    out.push_str("</table>");
}

/// Time to place: pauses in which nothing is in flight take little room.
struct Axis {
    /// `(time, place)` where the scale changes.
    knots: Vec<(u64, f64)>,
    /// Pauses that were shortened.
    gaps: Vec<(u64, u64)>,
}

impl Axis {
    fn of(session: &Session) -> Self {
        let steps = concurrency::steps(session);
        let idle: Vec<(u64, u64)> = steps
            .windows(2)
            .filter_map(|pair| match pair {
                [(from, 0), (to, _)] => Some((*from, *to)),
                _ => None,
            })
            .collect();
        let (first, last) = (steps.first().map_or(0, |step| step.0), steps.last().map_or(0, |step| step.0));
        let busy = (last - first).saturating_sub(idle.iter().map(|(from, to)| to - from).sum());
        let longest = (busy / 50).max(1);
        let gaps: Vec<(u64, u64)> = idle.into_iter().filter(|(from, to)| to - from > longest).collect();
        let (mut knots, mut place) = (vec![(first, 0.0)], 0.0);
        let mut before = first;
        for (from, to) in &gaps {
            place += float(from - before);
            knots.push((*from, place));
            place += float(longest);
            knots.push((*to, place));
            before = *to;
        }
        place += float(last - before);
        knots.push((last, place));
        let scale = WIDTH / place.max(1.0);
        for (_, place) in &mut knots {
            *place *= scale;
        }
        Self { knots, gaps }
    }

    fn place(&self, time: u64) -> f64 {
        let after = self.knots.partition_point(|(knot, _)| *knot <= time);
        let at = |index: Option<usize>| index.and_then(|index| self.knots.get(index)).copied();
        match (at(after.checked_sub(1)), at(Some(after))) {
            (Some((from, left)), Some((to, right))) => {
                left + (right - left) * float(time - from) / float((to - from).max(1))
            }
            (Some((_, place)), None) | (None, Some((_, place))) => place,
            (None, None) => 0.0,
        }
    }
}

/// Agents as rows, requests as bars.
fn timeline(row: u32, session: &Session, block_size: u32, out: &mut String) {
    const TALL: f64 = 18.0;
    const AGENTS: usize = 80;
    let axis = Axis::of(session);
    // Agents in the order in which they begin.
    let mut rows: BTreeMap<u32, f64> = BTreeMap::new();
    for request in &session.requests {
        let next = float(u64::try_from(rows.len()).unwrap_or(0));
        if rows.len() < AGENTS {
            rows.entry(request.agent).or_insert(next * TALL);
        }
    }
    let levels = 44.0;
    let height = float(u64::try_from(rows.len()).unwrap_or(0)) * TALL + levels;
    write!(
        out,
        "<h2>Session {row}</h2><p>A row an agent, a bar a request; the first part of a bar is the time to its first token. Dashed: what \
         started an agent, and where its result went. Pauses of more than 2 % are cut short (grey). Below: requests in flight.</p>\
         <svg viewBox=\"-90 -4 1100 {:.0}\" role=\"img\" aria-label=\"timeline of session {row}\">",
        height + 10.0
    )
    .ok();
    for (from, to) in &axis.gaps {
        let (left, right) = (axis.place(*from), axis.place(*to));
        write!(
            out,
            "<rect class=\"gap\" x=\"{left:.1}\" y=\"-4\" width=\"{:.1}\" height=\"{height:.1}\"><title>{} in which nothing is in flight</title></rect>",
            right - left,
            time(to - from)
        )
        .ok();
    }
    for (agent, top) in &rows {
        let name = match usize::try_from(*agent).ok().and_then(|at| session.agents.get(at)) {
            Some(agent) if agent.kind != AgentKind::Main => agent.agent_type.word(),
            _ => "main",
        };
        write!(out, "<text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>", top + 12.0).ok();
    }
    links(session, &axis, &rows, out);
    for (request, number) in session.requests.iter().zip(0_u32..) {
        if let (Some(top), Some(start)) = (rows.get(&request.agent), request.start_ms) {
            bar(request, number, (*top, start), block_size, &axis, out);
        }
    }
    let steps = concurrency::steps(session);
    let most = float(steps.iter().map(|step| step.1).max().unwrap_or(1).max(1));
    let (base, mut path) = (height - 6.0, String::new());
    let mut before = 0.0;
    for (at, level) in &steps {
        let (left, now) = (axis.place(*at), float(*level) / most * (levels - 14.0));
        write!(path, "{left:.1},{:.1} {left:.1},{:.1} ", base - before, base - now).ok();
        before = now;
    }
    write!(
        out,
        "<polyline class=\"level\" points=\"{path}\"/><text x=\"-6\" y=\"{base:.1}\" text-anchor=\"end\">0 to {most:.0}</text></svg>"
    )
    .ok();
}

fn bar(request: &Request, number: u32, place: (f64, u64), block_size: u32, axis: &Axis, out: &mut String) {
    let (top, start) = place;
    let end = start + u64::from(request.duration_ms.unwrap_or(0));
    let first = start + u64::from(request.ttft_ms.unwrap_or(0)).min(end - start);
    let (left, middle, right) = (axis.place(start), axis.place(first), axis.place(end));
    let class = if request.kind == RequestKind::Turn { "turn" } else { "other" };
    let known = u64::from(request.prefix.shared_blocks) * u64::from(block_size);
    let shared = float(known) / float(u64::from(request.input_tokens).max(1)) * 100.0;
    write!(
        out,
        "<g><title>request {number}: {}, {}, at {}, {}; {} tokens in, {:.1} % there before; {} out</title>\
         <rect class=\"{class}\" x=\"{left:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"12\"/>",
        request.kind.word(),
        request.status.word(),
        time(start),
        time(end - start),
        thousands(request.input_tokens.into()),
        shared.min(100.0),
        request.output_tokens.map_or_else(|| "?".to_owned(), |tokens| thousands(tokens.into())),
        top + 2.0,
        (right - left).max(1.0),
    )
    .ok();
    if middle > left {
        write!(
            out,
            "<rect class=\"wait\" x=\"{left:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"12\"/>",
            top + 2.0,
            middle - left
        )
        .ok();
    }
    out.push_str("</g>");
}

/// Lines from the requests that started agents, and to those that took their results.
fn links(session: &Session, axis: &Axis, rows: &BTreeMap<u32, f64>, out: &mut String) {
    let find = |request: u32| {
        let request = session.requests.get(usize::try_from(request).ok()?)?;
        Some((request, rows.get(&request.agent)? + 8.0))
    };
    for edge in session.edges.iter().filter(|edge| matches!(edge.relation, Relation::Spawn | Relation::Join)) {
        let (Some((from, top)), Some((to, bottom))) = (find(edge.from), find(edge.to)) else { continue };
        if let (Some(end), Some(start)) = (from.end_ms(), to.start_ms) {
            // An agent may start while the answer that started it still streams.
            let (left, right) = (axis.place(end.min(start)), axis.place(start));
            write!(out, "<path class=\"link\" d=\"M{left:.1} {top:.1}L{right:.1} {bottom:.1}\"/>").ok();
        }
    }
}

fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count in three or four characters.
fn short(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        1_000_000..1_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// Milliseconds in the unit that fits.
fn time(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        60_000..3_600_000 => format!("{}:{:02} min", milliseconds / 60_000, milliseconds / 1_000 % 60),
        _ => format!("{}:{:02} h", milliseconds / 3_600_000, milliseconds / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Accesses;
    use crate::format::sample;
    use crate::trace::vocab::Scope;

    #[test]
    fn a_page_stands_alone_and_is_the_same_each_time() {
        let (sessions, manifest) = (sample::dataset(1, 5, Scope::Session), sample::head(Scope::Session));
        let page = || {
            let (mut overview, mut distributions) = (Overview::new(manifest.block_size), Distributions::default());
            let (mut in_flight, mut accesses) =
                (InFlight::default(), Accesses::new(Scope::Session, manifest.block_size, 1));
            for session in &sessions {
                overview.add(session);
                distributions.add(session, manifest.block_size);
                in_flight.add(session);
                accesses.add(session);
            }
            render(&TracePage {
                manifest: &manifest,
                overview: &overview,
                distributions: &distributions,
                curve: &accesses.finish(),
                lanes: 1,
                in_flight: &in_flight,
                session: Some((0, &sessions[0])),
            })
        };
        let text = page();
        assert_eq!(text, page());
        for outside in ["http:", "https:", "src=", "<script", "url(", "@import", "NaN", "inf"] {
            assert!(!text.contains(outside), "{outside}");
        }
        for tag in ["svg", "g", "title", "div", "table"] {
            let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
            let opened = text.matches(&open).count() + text.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, text.matches(&close).count(), "{tag}");
        }
    }

    #[test]
    fn long_pauses_take_little_room() {
        let mut session = sample::linear(1, 2).remove(0);
        for (request, start) in session.requests.iter_mut().zip([0, 1_000_000]) {
            (request.start_ms, request.duration_ms) = (Some(start), Some(1_000));
        }
        let axis = Axis::of(&session);
        assert_eq!(axis.gaps, [(1_000, 1_000_000)]);
        assert!((axis.place(500) - axis.place(0) - (axis.place(1_000_500) - axis.place(1_000_000))).abs() < 1e-6);
        assert!(axis.place(1_000_000) - axis.place(1_000) < 25.0);
        assert!((axis.place(1_001_000) - WIDTH).abs() < 1e-6);
    }
}
