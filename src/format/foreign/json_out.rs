//! JSON as other programs write it: compact, seconds with a point, long lists of ids fast.
//!
//! Invariant: what is written needs no escape: names come from closed lists.

use super::counting;
use crate::format::count;

/// An object or list being written.
#[derive(Debug, Default)]
pub struct Json {
    bytes: Vec<u8>,
}

impl Json {
    /// What is written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins anew, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Opens an object or a list.
    pub fn open(&mut self, bracket: u8) {
        self.comma();
        self.bytes.push(bracket);
    }

    /// Closes an object or a list.
    pub fn close(&mut self, bracket: u8) {
        self.bytes.push(bracket);
    }

    /// Ends a line.
    pub fn line(&mut self) {
        self.bytes.push(b'\n');
    }

    /// A member's name.
    pub fn key(&mut self, name: &str) {
        self.word(name);
        self.bytes.push(b':');
    }

    /// A listed word.
    pub fn word(&mut self, word: &str) {
        self.comma();
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(word.as_bytes());
        self.bytes.push(b'"');
    }

    /// A number, or null.
    pub fn number(&mut self, number: Option<u64>) {
        self.comma();
        match number {
            Some(number) => self.digits(number),
            None => self.bytes.extend_from_slice(b"null"),
        }
    }

    /// −1, for nothing.
    pub fn minus_one(&mut self) {
        self.raw(b"-1");
    }

    /// A value that is JSON already.
    pub fn raw(&mut self, value: &[u8]) {
        self.comma();
        self.bytes.extend_from_slice(value);
    }

    /// True or false.
    pub fn truth(&mut self, truth: bool) {
        self.comma();
        self.bytes.extend_from_slice(if truth { b"true" } else { b"false" });
    }

    /// Milliseconds as seconds: at least one place after the point, no zeros beyond it.
    pub fn seconds(&mut self, ms: u64) {
        self.number(Some(ms / 1000));
        self.bytes.push(b'.');
        let mut places = ms % 1000;
        let mut unit = 100;
        loop {
            self.digits(places / unit);
            places %= unit;
            unit /= 10;
            if places == 0 || unit == 0 {
                return;
            }
        }
    }

    /// A member that is a listed word.
    pub fn word_member(&mut self, name: &str, word: &str) {
        self.key(name);
        self.word(word);
    }

    /// A member that is a number, or null.
    pub fn number_member(&mut self, name: &str, number: impl Into<Option<u64>>) {
        self.key(name);
        self.number(number.into());
    }

    /// A member that is a time in seconds.
    pub fn seconds_member(&mut self, name: &str, ms: u64) {
        self.key(name);
        self.seconds(ms);
    }

    /// A list of numbers, from runs of consecutive ones.
    pub fn runs(&mut self, runs: impl IntoIterator<Item = (u64, u32)>) {
        self.open(b'[');
        for (first, count) in runs {
            if let Some(written) = counting::written(first, count).and_then(|text| text.strip_suffix(b",")) {
                self.comma();
                self.bytes.extend_from_slice(written);
                continue;
            }
            let mut digits = first.to_string().into_bytes();
            for _ in 0..count {
                self.comma();
                self.bytes.extend_from_slice(&digits);
                increment(&mut digits);
            }
        }
        self.close(b']');
    }

    /// Puts a comma where one is due.
    fn comma(&mut self) {
        if !matches!(self.bytes.last(), None | Some(b'{' | b'[' | b':' | b'\n')) {
            self.bytes.push(b',');
        }
    }

    fn digits(&mut self, number: u64) {
        self.bytes.extend_from_slice(number.to_string().as_bytes());
    }
}

/// Adds one to a number in digits.
fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

/// A length as a number.
pub fn length(length: usize) -> Option<u64> {
    Some(count(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_json_without_spaces() {
        let mut json = Json::default();
        json.open(b'{');
        json.seconds_member("a", 71_000);
        json.seconds_member("b", 1_050);
        json.seconds_member("c", 7);
        json.number_member("d", None);
        json.key("e");
        json.runs([(8, 3), (99, 2)]);
        json.key("f");
        json.open(b'[');
        json.word("x");
        json.word("y");
        json.close(b']');
        json.close(b'}');
        assert_eq!(
            String::from_utf8_lossy(json.as_bytes()),
            r#"{"a":71.0,"b":1.05,"c":0.007,"d":null,"e":[8,9,10,99,100],"f":["x","y"]}"#
        );
    }
}
