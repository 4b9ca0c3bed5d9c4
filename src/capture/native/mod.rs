//! Our own capture log: one exchange a line, as JSON. `schemas/capture.v1.json` describes it.
//!
//! Invariant: what [`write()`] writes, the reader reads back as the same exchange, as far as the format goes: names and values of
//! headers are UTF-8, and times are in microseconds.

mod write;

use std::io::Read;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::write::write;
use super::body::{base64, request_body, response_body};
use super::exchange::{
    Body, Cut, Exchange, Headers, Moment, Piece, Position, Precision, Provenance, ResponseBody, SkipReason,
};
use super::familiar::Record;
use super::json::{self, Part};
use super::lines::LineRecords;
use super::outline::{Outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;

/// The reader of our own capture log.
pub(super) struct Native;

impl LogReader for Native {
    fn name(&self) -> &'static str {
        "tracecloak-capture"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        sniff_lines(head, judge)
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        Box::new(LineRecords::new(source, limits, input, b"\"body\"", exchange))
    }
}

/// The field that marks a record; its value is the version of the format.
const MARK: &str = "tracecloak_capture";
/// The fields of a record beside the mark.
const FIELDS: [&str; 15] = [
    "method",
    "path",
    "start_us",
    "headers",
    "body",
    "body_base64",
    "body_lost",
    "status",
    "first_byte_us",
    "end_us",
    "response_headers",
    "response",
    "response_base64",
    "response_lost",
    "cut",
];

/// Of those, the ones that may fill a head before the mark comes.
const LARGE: [&[u8]; 4] = [b"body", b"body_base64", b"response", b"response_base64"];

fn judge(outline: &Outline) -> Sniff {
    let mut top = outline.iter().filter(|(parent, _)| parent.is_empty()).map(|(_, key)| *key);
    if top.clone().any(|key| key == MARK.as_bytes()) {
        Sniff::Match
    } else if top.clone().any(|key| LARGE.contains(&key))
        && top.all(|key| FIELDS.iter().any(|field| field.as_bytes() == key))
    {
        Sniff::Unsure
    } else {
        Sniff::Mismatch
    }
}

/// A record, its fields not yet looked into.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    tracecloak_capture: Part<'a>,
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    path: Part<'a>,
    #[serde(borrow)]
    start_us: Part<'a>,
    #[serde(borrow)]
    headers: Option<Vec<(&'a RawValue, &'a RawValue)>>,
    #[serde(borrow)]
    body: Part<'a>,
    #[serde(borrow)]
    body_base64: Part<'a>,
    #[serde(borrow)]
    body_lost: Part<'a>,
    #[serde(borrow)]
    status: Part<'a>,
    #[serde(borrow)]
    first_byte_us: Part<'a>,
    #[serde(borrow)]
    end_us: Part<'a>,
    #[serde(borrow)]
    response_headers: Option<Vec<(&'a RawValue, &'a RawValue)>>,
    #[serde(borrow)]
    response: Option<Vec<(Part<'a>, &'a RawValue)>>,
    #[serde(borrow)]
    response_base64: Option<Vec<(Part<'a>, &'a RawValue)>>,
    #[serde(borrow)]
    response_lost: Part<'a>,
    #[serde(borrow)]
    cut: Part<'a>,
}

fn exchange(line: &Record<'_>, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let record: Fields = json::parse(line.json, limits)?;
    if json::get(record.tracecloak_capture, json::number)? != Some(1_u32) {
        return Err(SkipReason::Malformed);
    }
    let headers = headers(record.headers)?;
    let response_headers = self::headers(record.response_headers)?;
    let body = match (json::get(record.body, |raw| line.text(raw))?, json::get(record.body_base64, json::text)?) {
        (Some(text), _) => Body::Bytes(limits.check(text)?),
        (None, Some(text)) => request_body(base64(&text).ok_or(SkipReason::Malformed)?, &headers, limits)?,
        (None, None) if json::get(record.body_lost, json::boolean)? == Some(true) => Body::Lost,
        (None, None) => Body::Empty,
    };
    let cut = json::get(record.cut, json::text)?.as_ref().map(cut).transpose()?;
    let (response, cut) = match (record.response, record.response_base64) {
        (Some(parts), _) => (ResponseBody::Pieces(pieces(parts, Some)?), cut),
        (None, Some(parts)) => response_body(pieces(parts, |text| base64(&text))?, &response_headers, limits, cut),
        (None, None) if json::get(record.response_lost, json::boolean)? == Some(true) => (ResponseBody::Lost, cut),
        (None, None) => (ResponseBody::Empty, cut),
    };
    Ok(Exchange {
        position,
        method: json::get(record.method, json::text)?.unwrap_or_default(),
        path: json::get(record.path, json::text)?.unwrap_or_default(),
        headers,
        body,
        status: json::get(record.status, json::number)?,
        response_headers,
        response,
        cut,
        start: moment(record.start_us)?,
        first_byte: moment(record.first_byte_us)?,
        end: moment(record.end_us)?,
        alike: None,
        provenance: Provenance::default(),
    })
}

fn headers(pairs: Option<Vec<(&RawValue, &RawValue)>>) -> Result<Headers, SkipReason> {
    let pairs =
        pairs.unwrap_or_default().into_iter().map(|(name, value)| Some((json::text(name)?, json::text(value)?)));
    pairs.collect::<Option<_>>().map(Headers).ok_or(SkipReason::Malformed)
}

fn pieces(parts: Vec<(Part, &RawValue)>, decode: fn(Text) -> Option<Text>) -> Result<Vec<Piece>, SkipReason> {
    let piece = |(at, text): (Part, &RawValue)| {
        let text = json::text(text).and_then(decode).ok_or(SkipReason::Malformed)?;
        Ok(Piece { at_us: json::get(at, json::number)?, text })
    };
    parts.into_iter().map(piece).collect()
}

fn moment(part: Part) -> Result<Option<Moment>, SkipReason> {
    Ok(json::get(part, json::number)?.map(|unix_us| Moment { unix_us, precision: Precision::Micro }))
}

fn cut(word: &Text) -> Result<Cut, SkipReason> {
    match word.as_bytes() {
        b"client" => Ok(Cut::Client),
        b"upstream" => Ok(Cut::Upstream),
        b"unknown" => Ok(Cut::Unknown),
        _ => Err(SkipReason::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::capture::testing::{CANARY, body, gzip, mutations, read, read_one, reasons, response};

    fn good() -> Value {
        json!({
            "tracecloak_capture": 1, "method": "POST", "path": "/v1/messages?beta=true", "start_us": 1_700_000_000_000_001_i64,
            "headers": [["X-App", "cli"], ["x-app", "two"]], "body": format!("{{\"model\":\"{CANARY}\\n\"}}"),
            "status": 200, "first_byte_us": 1_700_000_000_000_300_i64, "end_us": 1_700_000_000_000_500_i64,
            "response_headers": [["content-type", "text/event-stream"]],
            "response": [[300, "data: 1\n\n"], [null, "data: 2\n\n"]], "cut": "client", "from the future": [[[]]],
        })
    }

    fn line(record: &Value) -> Vec<u8> {
        format!("{record}\n").into_bytes()
    }

    fn written(exchange: &Exchange) -> Vec<u8> {
        let mut out = Vec::new();
        write(exchange, &mut out).unwrap();
        out
    }

    #[test]
    fn a_record_is_read_whole() {
        let exchange = read_one(&Native, &line(&good()));
        assert_eq!(exchange.method.as_str(), Some("POST"));
        assert_eq!(exchange.headers.all("x-app").collect::<Vec<_>>(), ["cli", "two"]);
        assert_eq!(body(&exchange), good()["body"].as_str());
        let ResponseBody::Pieces(pieces) = &exchange.response else { panic!("no pieces") };
        assert_eq!(pieces.iter().map(|piece| piece.at_us).collect::<Vec<_>>(), [Some(300), None]);
        assert_eq!((exchange.status, exchange.cut), (Some(200), Some(Cut::Client)));
        let at = |us: i64| Some(Moment { unix_us: 1_700_000_000_000_000 + us, precision: Precision::Micro });
        assert_eq!((exchange.start, exchange.first_byte, exchange.end), (at(1), at(300), at(500)));
        assert_eq!((exchange.position.record, exchange.position.offset), (1, 0));
    }

    #[test]
    fn a_record_needs_nothing_but_its_mark() {
        let exchange = read_one(&Native, br#"{"tracecloak_capture":1}"#);
        assert!(matches!(
            (exchange.body, exchange.response, exchange.status),
            (Body::Empty, ResponseBody::Empty, None)
        ));
        let lost = read_one(&Native, br#"{"response_lost":true,"body_lost":true,"tracecloak_capture":1}"#);
        assert!(matches!((lost.body, lost.response), (Body::Lost, ResponseBody::Lost)));
        assert_eq!(
            reasons(&Native, b"{}\n{\"tracecloak_capture\":2}", Limits::default()),
            [Some(SkipReason::Malformed); 2]
        );
    }

    #[test]
    fn coded_bodies_in_base64_are_decoded() {
        let base64 = |bytes: Vec<u8>| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, bytes);
        let coded = gzip(b"data: 1\n\n");
        let (first, second) = coded.split_at(7);
        let gzip_header = json!([["Content-Encoding", "gzip"]]);
        let record = |body: Vec<u8>| {
            json!({"tracecloak_capture": 1, "headers": gzip_header, "body_base64": base64(body), "response_headers": gzip_header,
                "response_base64": [[1, base64(first.to_vec())], [2, base64(second.to_vec())]]})
        };
        let exchange = read_one(&Native, &line(&record(gzip(b"{}"))));
        assert_eq!((body(&exchange), response(&exchange).as_deref()), (Some("{}"), Some("data: 1\n\n")));
        assert_eq!(body(&read_one(&Native, &line(&record(b"{}".to_vec())))), Some("{}"));
        let limits = Limits { body_bytes: 1000, ..Limits::default() };
        let bomb = line(&record(gzip(&vec![b' '; 1 << 20])));
        assert_eq!(reasons(&Native, &bomb, limits), [Some(SkipReason::Decompression)]);
    }

    #[test]
    fn a_wrong_type_anywhere_loses_only_its_record() {
        for mutant in mutations(&good()) {
            let log = [line(&good()), line(&mutant), line(&good())].concat();
            let records = read(&Native, &log, Limits::default());
            assert!(records.len() == 3 && records[0].is_ok() && records[2].is_ok());
        }
    }

    #[test]
    fn limits_hold_for_lines_bodies_and_nesting() {
        let deep = format!("{{\"tracecloak_capture\":1,\"headers\":{}{}}}\n", "[".repeat(200), "]".repeat(200));
        let log = [line(&good()), deep.into_bytes(), line(&good())].concat();
        assert_eq!(reasons(&Native, &log, Limits::default()), [None, Some(SkipReason::TooDeep), None]);
        let small = line(&json!({"tracecloak_capture": 1}));
        let log = [line(&good()), small].concat();
        let limits = Limits { record_bytes: 100, ..Limits::default() };
        assert_eq!(reasons(&Native, &log, limits), [Some(SkipReason::TooLarge), None]);
        let limits = Limits { body_bytes: 5, ..Limits::default() };
        assert_eq!(reasons(&Native, &log, limits), [Some(SkipReason::TooLarge), None]);
    }

    #[test]
    fn a_cut_last_line_is_truncated_wherever_it_is_cut() {
        let whole = line(&good());
        for end in 1..whole.len() - 1 {
            let log = [&whole[..], &whole[..end]].concat();
            assert_eq!(reasons(&Native, &log, Limits::default()), [None, Some(SkipReason::Truncated)]);
        }
        assert_eq!(reasons(&Native, &whole[..whole.len() - 1], Limits::default()), [None]);
    }

    #[test]
    fn the_schema_describes_what_is_written_and_nothing_else() {
        let schema: Value = serde_json::from_str(include_str!("../../../schemas/capture.v1.json")).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&good()));
        let fields = schema["properties"].as_object().unwrap().keys().map(String::as_str);
        assert!(fields.filter(|field| *field != MARK).eq(std::collections::BTreeSet::from(FIELDS)));
        for wrong in mutations(&good()) {
            let accepted = read(&Native, &line(&wrong), Limits::default())[0].is_ok();
            assert!(accepted || !validator.is_valid(&wrong), "the schema allows only what is read");
        }
    }

    /// Bytes that are text as often as not.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![any::<String>().prop_map(String::into_bytes), any::<Vec<u8>>()]
    }

    fn headers_of(pairs: Vec<(String, String)>) -> Headers {
        Headers(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            (method, path, sent, received) in any::<(String, String, Vec<(String, String)>, Vec<(String, String)>)>(),
            body in proptest::option::of(proptest::option::of(bytes())),
            response in proptest::option::of(proptest::option::of(
                proptest::collection::vec((any::<Option<u64>>(), bytes()), 0..4))),
            (status, cut, times) in any::<(Option<u16>, u8, [Option<i64>; 3])>(),
        ) {
            let piece = |(at_us, bytes): (_, Vec<u8>)| Piece { at_us, text: bytes.into() };
            let moments = times.map(|us| us.map(|unix_us| Moment { unix_us, precision: Precision::Micro }));
            let exchange = Exchange {
                position: Position { input: 3, record: 1, offset: 0 },
                method: method.into(),
                path: path.into(),
                headers: headers_of(sent),
                body: body.map_or(Body::Empty, |kept| kept.map_or(Body::Lost, |bytes| Body::Bytes(bytes.into()))),
                status,
                response_headers: headers_of(received),
                response: response.map_or(ResponseBody::Empty, |kept| {
                    kept.map_or(ResponseBody::Lost, |pieces| ResponseBody::Pieces(pieces.into_iter().map(piece).collect()))
                }),
                cut: [None, Some(Cut::Client), Some(Cut::Upstream), Some(Cut::Unknown)][usize::from(cut % 4)],
                start: moments[0],
                first_byte: moments[1],
                end: moments[2],
                alike: None,
                provenance: Provenance::default(),
            };
            let log = written(&exchange);
            let back = read_one(&Native, &log);
            prop_assert!(back.position == exchange.position);
            prop_assert!(back.method == exchange.method && back.path == exchange.path);
            prop_assert!(back.headers.0 == exchange.headers.0 && back.response_headers.0 == exchange.response_headers.0);
            prop_assert_eq!((back.status, back.cut), (exchange.status, exchange.cut));
            prop_assert_eq!((back.start, back.first_byte, back.end), (exchange.start, exchange.first_byte, exchange.end));
            let same_body = match (&back.body, &exchange.body) {
                (Body::Bytes(a), Body::Bytes(b)) => a == b,
                (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
            };
            let same_response = match (&back.response, &exchange.response) {
                (ResponseBody::Pieces(a), ResponseBody::Pieces(b)) =>
                    a.iter().map(|p| (p.at_us, p.text.as_bytes())).eq(b.iter().map(|p| (p.at_us, p.text.as_bytes()))),
                (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
            };
            prop_assert!(same_body && same_response);
        }
    }
}
