//! L104: source check not run.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;

check! {
    /// Without the logs only the file itself was looked at: that it can hold no text, not that it holds none of *this* text. With
    /// `--source LOG…` every string of the logs is looked for, decoded in many ways, and the logs are hashed with the usual hashes.
    L104 Info "source check not run"; "give the logs with --source";
}
