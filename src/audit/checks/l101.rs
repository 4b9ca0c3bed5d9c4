//! L101: canary.
//!
//! Invariant: it reports places and classes only, and keeps nothing. What finds it needs the canaries, so it is in `proof`.

use crate::audit::check::check;

check! {
    /// A string that was planted in the logs on purpose is in the file, plain or decoded as for L100. `--canary FILE` takes a file with
    /// one such string a line, of 12 bytes or more: put random ones into every kind of field before recording, and convert.
    L101 Error "canary"; "find out which step let it through, and convert again";
}
