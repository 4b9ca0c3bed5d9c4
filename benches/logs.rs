//! Made-up logs: sessions that grow turn by turn, the same on every run.
//!
//! Invariant: nothing in them comes from anywhere; a session is known by its number alone.

use std::fmt::Write as _;
use std::io::{self, Write};

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Lines of claude-trace, whose bodies are JSON within JSON.
    ClaudeTrace,
    /// The same, where every body begins otherwise: nothing can be reused byte by byte.
    Moving,
    /// Our own capture log: bodies and pieces of streams as strings, a line each.
    Native,
    /// One HAR: bodies as strings.
    Har,
}

impl Format {
    /// The format with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let names = [
            ("claude-trace", Self::ClaudeTrace),
            ("moving", Self::Moving),
            ("native", Self::Native),
            ("har", Self::Har),
        ];
        names.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    fn around(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Har => {
                (r#"{"log":{"version":"1.2","creator":{"name":"bench","version":"1"},"entries":["#, ",", "]}}\n")
            }
            _ => ("", "", ""),
        }
    }
}

/// What to write: so many sessions side by side, each of so many turns, each of which brings about so many new bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) format: Format,
    pub(crate) sessions: usize,
    pub(crate) turns: usize,
    pub(crate) new: usize,
}

impl Plan {
    /// Writes the log: the first turns of all sessions, then the second ones, and so on.
    pub(crate) fn write(self, out: &mut impl Write) -> io::Result<()> {
        let (open, between, close) = self.format.around();
        let mut sessions: Vec<Conversation> =
            (0..self.sessions).map(|number| Conversation::new(number as u64, self.new)).collect();
        out.write_all(open.as_bytes())?;
        for turn in 0..self.turns {
            for (place, session) in sessions.iter_mut().enumerate() {
                if turn + place > 0 {
                    out.write_all(between.as_bytes())?;
                }
                session.record(self.format, turn * self.sessions + place, out)?;
                session.advance();
            }
        }
        out.write_all(close.as_bytes())
    }

    /// The log in memory.
    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes).unwrap();
        bytes
    }
}

/// A generator of numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn word(&mut self) -> String {
        const SYLLABLES: [&str; 24] = [
            "al", "ber", "con", "der", "est", "fer", "gra", "hol", "in", "jo", "ker", "lo", "mat", "nor", "on", "per",
            "qua", "re", "ser", "tra", "un", "ver", "wor", "yel",
        ];
        (0..=self.below(3)).map(|_| SYLLABLES[self.below(SYLLABLES.len())]).collect()
    }

    /// Lines as agents read and write them: code, listings, search results, prose.
    pub(crate) fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 200);
        while text.len() < bytes {
            let [a, b, c, d] = [self.word(), self.word(), self.word(), self.word()];
            let n = self.below(4000);
            match self.below(6) {
                0 => writeln!(text, "    let {a}_{b} = {c}::{d}(&self.{a}, {n});"),
                1 => writeln!(text, "        if {a}.{b}() > {n} {{\n            return Err(\"{c} {d}\");\n        }}"),
                2 => writeln!(text, "// The {a} {b} must not {c} before the {d} is there."),
                3 => writeln!(text, "{n:6}\t\"{a}\": [{n}, \"{b}-{c}\", null],"),
                4 => writeln!(text, "src/{a}/{b}.rs:{n}:    pub fn {c}({d}: u32) -> Self {{"),
                _ => writeln!(text, "{a} {b} {c} {d}, {b} {a} the {d} of {c}; 变更 {n}."),
            }
            .unwrap();
        }
        text
    }
}

/// A string as JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// A conversation and its next request.
pub(crate) struct Conversation {
    random: Random,
    number: u64,
    new: usize,
    turn: usize,
    /// The messages before the last, each followed by a comma.
    messages: String,
    /// The last message, without what closes its block: there the cache marker stands as long as it is the last.
    last: String,
    /// What follows the messages.
    tail: String,
}

impl Conversation {
    /// The session of this number, `new` bytes longer each turn.
    pub(crate) fn new(number: u64, new: usize) -> Self {
        let mut random = Random(number ^ 0x5EED);
        let tools: Vec<String> = (0..12)
            .map(|tool| {
                let (description, property) = (quoted(&random.text(500)), quoted(&random.text(80)));
                format!(
                    r#"{{"name":"tool_{tool}","description":{description},"input_schema":{{"type":"object","properties":{{"p0":{{"type":"string","description":{property}}}}},"required":["p0"]}}}}"#
                )
            })
            .collect();
        let (system, opening) = (quoted(&random.text(6000)), quoted(&random.text(200)));
        let tail = format!(
            r#"],"system":[{{"type":"text","text":{system},"cache_control":{{"type":"ephemeral"}}}}],"tools":[{}],"metadata":{{"user_id":"user_x_session_{}"}},"max_tokens":32000,"stream":true}}"#,
            tools.join(","),
            id(number),
        );
        let last = format!(r#"{{"role":"user","content":[{{"type":"text","text":{opening}"#);
        Self { random, number, new, turn: 0, messages: String::new(), last, tail }
    }

    /// The body of the next request.
    pub(crate) fn body(&self) -> String {
        let Self { messages, last, tail, .. } = self;
        let marker = r#","cache_control":{"type":"ephemeral"}}]}"#;
        [r#"{"model":"claude-opus-4-5-20251101","messages":["#, messages, last, marker, tail].concat()
    }

    /// The answer, and what its tool gives back.
    pub(crate) fn advance(&mut self) {
        self.turn += 1;
        let said = quoted(&self.random.text(150));
        let (path, tool) = (self.random.word(), self.random.below(12));
        let length = self.new / 2 + self.random.below(self.new);
        let result = quoted(&self.random.text(length.saturating_sub(700)));
        let call = format!("toolu_{:022}", self.turn);
        self.messages += &self.last;
        write!(
            self.messages,
            r#"}}]}},{{"role":"assistant","content":[{{"type":"text","text":{said}}},{{"type":"tool_use","id":"{call}","name":"tool_{tool}","input":{{"p0":"src/{path}.rs"}}}}]}},"#
        )
        .unwrap();
        self.last =
            format!(r#"{{"role":"user","content":[{{"tool_use_id":"{call}","type":"tool_result","content":{result}"#);
    }

    /// Writes the next request with its answer; `place` is where it stands in the log.
    fn record(&self, format: Format, place: usize, out: &mut impl Write) -> io::Result<()> {
        let (body, id, turn) = (self.body(), id(self.number), self.turn);
        let start = 1_793_534_400_000_000_i64 + i64::try_from(place).unwrap() * 2_000_000;
        let answer = format!(
            r#"{{"id":"msg_{turn:024}","type":"message","role":"assistant","model":"claude-opus-4-5-20251101","content":[{{"type":"text","text":"ok"}}],"stop_reason":"tool_use","usage":{{"input_tokens":3,"cache_read_input_tokens":{},"output_tokens":200}}}}"#,
            900 * turn
        );
        match format {
            Format::ClaudeTrace | Format::Moving => {
                let at = start as f64 / 1e6;
                let body =
                    if format == Format::Moving { body.replacen('{', &format!("{{\"seq\":{place},"), 1) } else { body };
                writeln!(
                    out,
                    r#"{{"request":{{"timestamp":{at:.3},"method":"POST","url":"https://api.example.invalid/v1/messages?beta=true","headers":{{"content-type":"application/json","x-app":"cli","user-agent":"claude-cli/2.1.112 (external, cli)","x-claude-code-session-id":"{id}"}},"body":{body}}},"response":{{"timestamp":{:.3},"status_code":200,"headers":{{"content-type":"application/json"}},"body":{answer}}},"logged_at":"2026-11-01T12:00:00.123Z"}}"#,
                    at + 0.9
                )
            }
            Format::Native => writeln!(
                out,
                r#"{{"tracecloak_capture":1,"method":"POST","path":"/v1/messages","start_us":{start},"headers":[["user-agent","claude-cli/2.1.112 (external, cli)"],["x-app","cli"],["x-claude-code-session-id","{id}"]],"body":{},"status":200,"first_byte_us":{},"end_us":{},"response_headers":[["content-type","text/event-stream"]],"response":[[900000,{}]]}}"#,
                quoted(&body),
                start + 900_000,
                start + 1_500_000,
                quoted(&stream(20)),
            ),
            Format::Har => write!(
                out,
                r#"{{"startedDateTime":"2026-11-01T12:{:02}:{:02}.123Z","time":6000,"request":{{"method":"POST","url":"https://api.example.invalid/v1/messages","httpVersion":"HTTP/1.1","cookies":[],"queryString":[],"headersSize":-1,"bodySize":{},"headers":[{{"name":"user-agent","value":"claude-cli/2.1.112 (external, cli)"}},{{"name":"x-app","value":"cli"}},{{"name":"x-claude-code-session-id","value":"{id}"}}],"postData":{{"mimeType":"application/json","text":{}}}}},"response":{{"status":200,"statusText":"","httpVersion":"HTTP/1.1","cookies":[],"redirectURL":"","headersSize":-1,"bodySize":{},"headers":[],"content":{{"size":{},"mimeType":"application/json","text":{}}}}},"cache":{{}},"timings":{{"send":0,"wait":900,"receive":5100}}}}"#,
                place / 30 % 60,
                place % 30 * 2,
                body.len(),
                quoted(&body),
                answer.len(),
                answer.len(),
                quoted(&answer),
            ),
        }
    }
}

/// The id of a session.
fn id(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// An answer as a stream of events, with so many pieces of text.
pub(crate) fn stream(pieces: usize) -> String {
    let mut random = Random(7);
    let mut stream = String::new();
    let mut event = |name: &str, data: &str| {
        write!(stream, "event: {name}\ndata: {{\"type\":\"{name}\",{data}}}\n\n").unwrap();
    };
    event(
        "message_start",
        r#""message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":900,"output_tokens":1}}"#,
    );
    event("content_block_start", r#""index":0,"content_block":{"type":"text","text":""}"#);
    for _ in 0..pieces {
        let text = quoted(&format!("{} ", random.word()));
        event("content_block_delta", &format!(r#""index":0,"delta":{{"type":"text_delta","text":{text}}}"#));
    }
    event("content_block_stop", r#""index":0"#);
    event("message_delta", r#""delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":200}"#);
    write!(stream, "event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n").unwrap();
    stream
}
