//! HAR (HTTP Archive 1.2) of mitmproxy, Charles, Proxyman, browsers and others.
//!
//! Invariant: the file is never held as a whole: entries are cut from the stream one by one. So memory is bounded by the largest;
//! a broken one loses only itself, as long as its brackets and quotes pair; and a file that ends early gives all entries before.

mod entries;
mod entry;

use std::io::Read;

use self::entries::Entries;
use super::outline::outline;
use super::reader::{Limits, LogReader, Records, Sniff};

/// The reader of HAR files.
pub(super) struct Har;

impl LogReader for Har {
    fn name(&self) -> &'static str {
        "har"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        let keys = outline(head);
        let has = |parent: &str, key: &str| keys.contains(&(parent.as_bytes(), key.as_bytes()));
        let entries = has("", "entries");
        // Its pages may fill the head, but what wrote it stands before them.
        if has("log", "entries")
            || has("log", "version") && (has("log", "creator") || has("log", "pages"))
            || entries && (has("entries", "startedDateTime") || has("entries", "request"))
        {
            Sniff::Match
        } else if entries && !keys.iter().any(|(parent, _)| *parent == b"entries") {
            Sniff::Unsure
        } else {
            Sniff::Mismatch
        }
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        Box::new(Entries::new(source, limits, input))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::capture::exchange::{Body, Cut, Exchange, Precision, ResponseBody, SkipReason};
    use crate::capture::testing::{CANARY, body, gzip, mutations, read, read_one, reasons, response};

    fn good() -> Value {
        json!({
            "startedDateTime": "2023-11-14T23:13:20.000250+01:00", "time": 31.5,
            "request": {
                "method": "POST", "url": "https://host.invalid/v1/messages?beta=true", "bodySize": 20,
                "headers": [{"name": ":authority", "value": "host.invalid"}, {"name": "X-App", "value": "cli"}],
                "postData": {"mimeType": "application/json", "text": format!("{{\"a\":\"[{{{CANARY}\n\\\"\"}}"), "params": []},
            },
            "response": {
                "status": 200, "bodySize": -1,
                "headers": [{"name": "content-encoding", "value": "gzip"}, {"name": "content-type", "value": "text/event-stream"}],
                "content": {"size": 18, "mimeType": "text/event-stream", "text": "data: {\"b\":1}\n\n"},
            },
            "cache": {}, "timings": {"connect": 3.1, "ssl": -1, "send": 0.5, "wait": 20.25, "receive": 10.25},
        })
    }

    fn har(entries: &[Value]) -> Vec<u8> {
        let log =
            json!({"version": "1.2", "creator": {"name": "entries"}, "pages": [{"entries": [1]}], "entries": entries});
        json!({ "log": log }).to_string().into_bytes()
    }

    fn with(pointer: &str, value: Value) -> Exchange {
        let mut entry = good();
        *entry.pointer_mut(pointer).unwrap() = value;
        read_one(&Har, &har(&[entry]))
    }

    #[test]
    fn an_entry_is_read_whole() {
        let exchange = read_one(&Har, &har(&[good()]));
        assert_eq!((exchange.method.as_str(), exchange.path.as_str()), (Some("POST"), Some("/v1/messages?beta=true")));
        assert_eq!(exchange.headers.0.len(), 1, "pseudo headers are dropped");
        assert_eq!(body(&exchange), good()["request"]["postData"]["text"].as_str());
        assert_eq!(response(&exchange).as_deref(), Some("data: {\"b\":1}\n\n"));
        assert_eq!((exchange.status, exchange.cut), (Some(200), None));
        let us = |moment: Option<crate::capture::Moment>| moment.map(|moment| moment.unix_us - 1_700_000_000_000_000);
        assert_eq!(exchange.start.unwrap().precision, Precision::Micro);
        assert_eq!(
            [us(exchange.start), us(exchange.first_byte), us(exchange.end)],
            [Some(250), Some(21_000), Some(31_250)]
        );
    }

    #[test]
    fn a_client_counts_what_comes_before_it_sends() {
        let timings = json!({"blocked": 1, "dns": -1, "connect": 2, "ssl": 2, "send": 4, "wait": 8, "receive": -1});
        let exchange = with("/timings", timings);
        let start = exchange.start.unwrap().unix_us;
        assert_eq!(exchange.first_byte.unwrap().unix_us - start, 15_000);
        assert_eq!(exchange.end.unwrap().unix_us - start, 31_500, "by `time`");
        let unknown = with("/timings", Value::Null);
        assert!(unknown.first_byte.is_none() && unknown.end.is_some());
        assert!(with("/time", json!(-1)).end.is_some());
    }

    #[test]
    fn bodies_that_were_not_kept_are_lost() {
        assert!(matches!(with("/request/postData/text", Value::Null).body, Body::Lost));
        assert!(matches!(with("/request/postData", Value::Null).body, Body::Lost), "bodySize tells");
        let mut entry = good();
        entry["request"]["bodySize"] = json!(-1);
        entry["request"]["postData"] = Value::Null;
        assert!(matches!(read_one(&Har, &har(&[entry.clone()])).body, Body::Empty));
        entry["request"]["headers"] = json!([{"name": "content-length", "value": "9"}]);
        assert!(matches!(read_one(&Har, &har(&[entry])).body, Body::Lost));

        let left_out = with("/response/content/text", json!(""));
        assert!(matches!((left_out.response, left_out.cut), (ResponseBody::Lost, None)), "a size without text");
        let cut = with("/response/content", json!({"size": 0, "text": ""}));
        assert!(
            matches!((cut.response, cut.cut), (ResponseBody::Lost, Some(Cut::Unknown))),
            "mitmproxy, cut or cancelled"
        );
        let mut streamed = good();
        streamed["request"]["postData"]["text"] = Value::Null;
        streamed["response"]["content"] = json!({"size": 0, "text": ""});
        let streamed = read_one(&Har, &har(&[streamed]));
        assert!(matches!((streamed.body, streamed.response, streamed.cut), (Body::Lost, ResponseBody::Lost, None)));
        let unanswered = with("/response", json!({"status": 0, "_error": "net::ERR_ABORTED"}));
        assert!(matches!(
            (unanswered.status, unanswered.response, unanswered.cut),
            (None, ResponseBody::Empty, Some(Cut::Client))
        ));
    }

    #[test]
    fn recorders_tell_who_cut() {
        let cut = |error: Value| {
            let mut entry = good();
            entry["response"]["_error"] = error;
            read_one(&Har, &har(&[entry])).cut
        };
        assert_eq!(cut(json!("client closed")), Some(Cut::Client));
        assert_eq!(cut(json!("Server disconnected")), Some(Cut::Upstream));
        assert_eq!(cut(json!({"code": 7})), Some(Cut::Unknown));
        assert_eq!(cut(Value::Null), None);
    }

    #[test]
    fn base64_is_undone_on_both_sides_and_compression_behind_it() {
        let base64 = |bytes: &[u8]| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, bytes);
        let mut entry = good();
        entry["request"]["postData"] = json!({"encoding": "base64", "text": base64(b"{}")});
        entry["response"]["content"] = json!({"encoding": "base64", "text": base64(&gzip(b"data: 1\n\n"))});
        let exchange = read_one(&Har, &har(&[entry.clone()]));
        assert_eq!((body(&exchange), response(&exchange).as_deref()), (Some("{}"), Some("data: 1\n\n")));
        entry["response"]["content"]["text"] = json!(base64(&gzip(b"data: 1\n\n")[..25]));
        assert_eq!(read_one(&Har, &har(&[entry])).cut, Some(Cut::Unknown), "what is cut shows");
    }

    #[test]
    fn a_wrong_type_anywhere_loses_only_its_entry() {
        for mutant in mutations(&good()) {
            let records = read(&Har, &har(&[good(), mutant, good()]), Limits::default());
            assert!(records.len() == 3 && records[0].is_ok() && records[2].is_ok());
        }
    }

    #[test]
    fn entries_stand_in_the_log_or_at_the_top() {
        for log in [
            json!({"entries": [good(), good()], "log": {"x": {"entries": [1]}}}),
            json!({"log": {"entries": [good(), good()]}}),
            json!({"log": {"entries": [good(), good()], "comment": "]}"}, "entries": []}),
        ] {
            for text in [log.to_string(), serde_json::to_string_pretty(&log).unwrap()] {
                assert_eq!(reasons(&Har, text.as_bytes(), Limits::default()), [None, None]);
            }
        }
        assert_eq!(reasons(&Har, br#"{"log":{"entries":[]}}"#, Limits::default()), []);
        assert_eq!(reasons(&Har, br#"{"log":{"version":"1.2"}}"#, Limits::default()), []);
    }

    #[test]
    fn a_har_that_is_cut_gives_all_whole_entries_and_one_error() {
        let whole = har(&[good(), good()]);
        let text = String::from_utf8(whole.clone()).unwrap();
        let first = text.find("\"entries\":[{").unwrap() + 11;
        let length = good().to_string().len();
        for end in 1..whole.len() {
            let truncated = Some(SkipReason::Truncated);
            let expected = match end {
                _ if end < first + length => vec![truncated],
                _ if end <= first + 2 * length => vec![None, truncated],
                _ if end <= first + 2 * length + 1 => vec![None, None, truncated],
                _ => vec![None, None],
            };
            assert_eq!(reasons(&Har, &whole[..end], Limits::default()), expected, "{end} {first} {length}");
        }
    }

    #[test]
    fn a_broken_entry_loses_only_itself() {
        let text = good().to_string();
        let deep = text.replace("\"cache\":{}", &format!("\"cache\":{}{}", "[".repeat(200), "]".repeat(200)));
        let long = text.replace("\"cache\":{}", &format!("\"cache\":\"{}\"", "x".repeat(1000)));
        let latin =
            [&text.as_bytes()[..text.find(CANARY).unwrap()], b"\xff", &text.as_bytes()[text.find(CANARY).unwrap()..]]
                .concat();
        let entries: [&[u8]; 9] = [
            text.as_bytes(),
            &latin,
            deep.as_bytes(),
            long.as_bytes(),
            b"null",
            b"{\"request\":tru}",
            b"{\"request\":{}}}",
            b"\"],[\"",
            text.as_bytes(),
        ];
        let log = [&b"{\"log\":{\"entries\":["[..], &entries.join(&b", "[..]), b"]}}"].concat();
        let limits = Limits { record_bytes: u64::try_from(text.len()).unwrap() + 500, ..Limits::default() };
        let bad = Some(SkipReason::Malformed);
        let expected = [
            None,
            Some(SkipReason::NotUtf8),
            Some(SkipReason::TooDeep),
            Some(SkipReason::TooLarge),
            bad,
            bad,
            bad,
            bad,
            None,
        ];
        assert_eq!(reasons(&Har, &log, limits), expected);
    }
}
