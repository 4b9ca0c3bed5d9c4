//! Analyses and summaries as pages.
//!
//! Invariant: a page is one file that loads nothing; it holds numbers and words of closed vocabularies.

pub mod trace_html;
