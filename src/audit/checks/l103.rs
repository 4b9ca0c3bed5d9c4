//! L103: key material.
//!
//! Invariant: it reports places and classes only, and keeps nothing. What finds it needs the key, so it is in `cli`.

use crate::audit::check::check;

check! {
    /// The key of a conversion is in what is to be published: its bytes, or as hexadecimal digits or base64. Looked for with
    /// `--key-file FILE`. With the key, every guess of a block can be confirmed.
    L103 Error "key material"; "throw the trace and the key away, and convert with a new key";
}
