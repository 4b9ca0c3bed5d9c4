//! Benchmarks. `cargo bench` runs one a stage ([`stages`]); with the words that [`floors`] knows the same program makes logs and runs
//! what conversion is compared with, for `scripts/bench`.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "benchmarks measure time, print what they find, and stop where something is wrong"
)]

mod floors;
mod logs;
mod stages;

use std::time::Duration;

use criterion::Criterion;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if floors::run(&words) {
        return;
    }
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    stages::capture(&mut criterion);
    stages::wire(&mut criterion);
    stages::anonymize(&mut criterion);
    stages::trace(&mut criterion);
    stages::prompts(&mut criterion);
    criterion.final_summary();
}
