//! Every check, one file each.
//!
//! Invariant: [`CHECKS`] is sorted by id and names each once.

mod l001;
mod l002;
mod l003;
mod l004;
mod l005;
mod l006;
mod l007;
mod l008;
mod l009;
mod l010;
mod l020;
mod l021;
mod l022;
mod l023;
mod l024;
mod l025;
mod l026;
mod l027;
mod l028;
mod l029;
mod l040;
mod l041;
mod l042;
mod l050;
mod l051;
mod l052;
mod l053;
mod l054;
mod l055;
mod l056;
mod l057;
mod l058;
mod l070;
mod l071;
mod l072;
mod l073;
mod l074;
mod l075;
mod l076;
mod l077;
mod l078;
mod l079;
mod l080;
mod l081;
mod l082;
mod l083;
mod l084;
mod l100;
mod l101;
mod l102;
mod l103;
mod l104;
mod l140;
mod l141;
mod l142;

use super::check::Check;

/// Every check, by id.
pub static CHECKS: &[&dyn Check] = &[
    &l001::L001,
    &l002::L002,
    &l003::L003,
    &l004::L004,
    &l005::L005,
    &l006::L006,
    &l007::L007,
    &l008::L008,
    &l009::L009,
    &l010::L010,
    &l020::L020,
    &l021::L021,
    &l022::L022,
    &l023::L023,
    &l024::L024,
    &l025::L025,
    &l026::L026,
    &l027::L027,
    &l028::L028,
    &l029::L029,
    &l040::L040,
    &l041::L041,
    &l042::L042,
    &l050::L050,
    &l051::L051,
    &l052::L052,
    &l053::L053,
    &l054::L054,
    &l055::L055,
    &l056::L056,
    &l057::L057,
    &l058::L058,
    &l070::L070,
    &l071::L071,
    &l072::L072,
    &l073::L073,
    &l074::L074,
    &l075::L075,
    &l076::L076,
    &l077::L077,
    &l078::L078,
    &l079::L079,
    &l080::L080,
    &l081::L081,
    &l082::L082,
    &l083::L083,
    &l084::L084,
    &l100::L100,
    &l101::L101,
    &l102::L102,
    &l103::L103,
    &l104::L104,
    &l140::L140,
    &l141::L141,
    &l142::L142,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_and_every_page_says_something() {
        assert!(CHECKS.windows(2).all(|pair| pair[0].meta().id < pair[1].meta().id));
        for check in CHECKS {
            let meta = check.meta();
            assert!(meta.page.len() > 60 && !meta.title.is_empty() && !meta.remedy.is_empty(), "{}", meta.id);
        }
    }
}
