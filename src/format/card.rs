//! tmp
use crate::trace::Manifest;
/// x
pub fn render(_m: &Manifest) -> String {
    String::new()
}
