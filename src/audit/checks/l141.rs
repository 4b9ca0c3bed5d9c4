//! L141: core dumps are on.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;

check! {
    /// The system writes memory to disk when a program fails. This program turns that off for itself; other programs that see the logs
    /// do not.
    L141 Warning "core dumps are on"; "ulimit -c 0";
}
