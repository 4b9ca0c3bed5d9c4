//! What the start of a log shows of its shape, for telling formats apart.
//!
//! Invariant: works on a head that is cut anywhere, and on keys in any order; looks at keys only, two objects deep.

use super::json::after_string;
use super::reader::Sniff;

/// Keys of an object and of the objects in it, as (parent, key); the parent of the outer ones is empty, that of an object in an
/// array is the key of the array.
pub(super) type Outline<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The outline of the JSON value at the start of `head`.
pub(super) fn outline(head: &[u8]) -> Outline<'_> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let mut keys = Vec::new();
    // Each open array or object: whether it is an object, and its key or that of the array around it.
    let mut open: Vec<(bool, &[u8])> = Vec::new();
    let (mut objects, mut rest, mut last) = (0, head, Default::default());
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'"' => {
                rest = after_string(tail);
                last = tail.get(..(tail.len() - rest.len()).saturating_sub(1)).unwrap_or_default();
            }
            b':' if objects <= 2 => keys.extend(open.last().map(|(_, parent)| (*parent, last))),
            b'{' | b'[' => {
                let name = match open.last() {
                    Some((false, array)) => array,
                    Some((true, _)) => last,
                    None => &[],
                };
                open.push((*byte == b'{', name));
                objects += usize::from(*byte == b'{');
            }
            b'}' | b']' => objects -= usize::from(open.pop().is_some_and(|(object, _)| object)),
            _ => {}
        }
        if open.is_empty() {
            break;
        }
    }
    keys
}

/// The best that `judge` says of the lines of `head`: the first ones may be broken. What follows a bracket, a comma or a colon is
/// no line of its own, but of a document.
pub(super) fn sniff_lines(head: &[u8], judge: fn(&Outline) -> Sniff) -> Sniff {
    let mut inside = false;
    let mut best = Sniff::Mismatch;
    for line in head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        if !std::mem::replace(&mut inside, line.last().is_some_and(|last| b"[{,:".contains(last))) {
            best = best.max(judge(&outline(line)));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(head: &str) -> Vec<(&str, &str)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        outline(head.as_bytes()).into_iter().map(|(parent, key)| (text(parent), text(key))).collect()
    }

    #[test]
    fn keys_are_found_two_objects_deep() {
        let keys =
            shown("\u{feff} {\"a\":{\"b\":[1,{\"c\":2}],\"d\":\"{x:\\\"\"},\"e\":[[{\"f\":1},{\"g\":2}]]} {\"h\":1}");
        assert_eq!(keys, [("", "a"), ("a", "b"), ("a", "d"), ("", "e"), ("e", "f"), ("e", "g")]);
    }

    #[test]
    fn a_head_may_be_cut_anywhere() {
        let whole = r#"{"a":{"b":"c\"d"},"e":1}"#;
        for end in 0..whole.len() {
            let keys = shown(&whole[..end]);
            assert!([("", "a"), ("a", "b"), ("", "e")].starts_with(&keys));
        }
        assert_eq!(shown("nothing"), []);
        assert_eq!(shown("}}]]"), []);
    }
}
