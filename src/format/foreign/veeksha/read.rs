//! Rows of both flavours, from JSON lines or from a table.
//!
//! Invariant: rows are as the file states them, grouped by session in order of appearance; nothing is inferred here.

use crate::format::count;
use crate::format::foreign::json::{Object, ids, items, object, seconds, string, whole};
use crate::format::foreign::session::Groups;
use crate::format::foreign::{ForeignError, Ids, ImportReport, RowError, RowFault, Source};
use crate::trace::vocab::{Anomaly, Loss};

const ROW: &[&str] = &[
    "session_id",
    "input_length",
    "new_input_length",
    "output_length",
    "session_context",
    "turn_idx",
    "wait_after_previous_response_s",
    "hash_ids",
];

/// A request as it is stated; waits in milliseconds.
pub(super) struct Row {
    pub(super) place: (u32, u64),
    pub(super) input: Option<u32>,
    pub(super) new: u32,
    pub(super) output: u32,
    pub(super) context: Option<Context>,
    pub(super) turn: Option<i64>,
    pub(super) wait_ms: u64,
    pub(super) ids: Option<Ids>,
}

/// Its place in the graph.
pub(super) struct Context {
    pub(super) node: i64,
    pub(super) parents: Vec<i64>,
    pub(super) history: Option<i64>,
}

impl Row {
    fn read(row: &Object<'_>, place: (u32, u64), report: &mut ImportReport) -> Result<(i64, Self), RowError> {
        report.lost.add(Loss::Unknown, count(row.unknown(ROW)));
        let mut wait = |object: &Object<'_>, name: &'static str| {
            let (wait, exact) = object.maybe(name, seconds)?.unwrap_or((0, true));
            report.lost.note(Loss::Precision, !exact);
            report.anomalies.note(Anomaly::Negative, wait < 0);
            Ok::<u64, RowError>(u64::try_from(wait).unwrap_or(0))
        };
        let stated = row.raw("session_context").filter(|bytes| *bytes != b"\"\"");
        let text = match stated {
            Some(bytes) if bytes.starts_with(b"\"") => {
                Some(string(bytes).map_err(|fault| RowError::new("session_context", fault))?.into_owned())
            }
            _ => None,
        };
        let stated = text.as_deref().map(str::as_bytes).or(stated).filter(|bytes| *bytes != b"null");
        let mut wait_ms = wait(row, "wait_after_previous_response_s")?;
        let context = match stated {
            None => None,
            Some(bytes) => {
                let context = object(bytes).map_err(|fault| RowError::new("session_context", fault))?;
                let present = |name: &'static str| {
                    if context.unknown(&[name]) == context.unknown(&[]) {
                        Err(RowError::new(name, RowFault::Missing).within("session_context", 0))
                    } else {
                        Ok(name)
                    }
                };
                for name in ["parent_nodes", "history_parent", "wait_after_ready"] {
                    present(name)?;
                }
                wait_ms = wait(&context, "wait_after_ready")?;
                Some(Context {
                    node: context.get("node_id", whole)?,
                    parents: context.maybe("parent_nodes", items(whole))?.unwrap_or_default(),
                    history: context.maybe("history_parent", whole)?,
                })
            }
        };
        let read = Self {
            place,
            input: row.maybe("input_length", whole)?,
            new: row.get("new_input_length", whole)?,
            output: row.get("output_length", whole)?,
            context,
            turn: row.maybe("turn_idx", whole)?,
            wait_ms,
            ids: row.maybe("hash_ids", ids)?,
        };
        report.anomalies.note(Anomaly::EmptyOutput, read.output == 0);
        Ok((row.get("session_id", whole)?, read))
    }
}

/// The sessions of all files.
pub(super) fn sessions(
    sources: &[Source],
    report: &mut ImportReport,
) -> Result<impl Iterator<Item = Vec<Row>> + use<>, ForeignError> {
    let mut sessions: Groups<i64, Vec<Row>> = Groups::default();
    for source in sources {
        sessions.begin_file();
        source.each_or_line(report, |row, number, report| {
            let (session, row) = Row::read(row, (source.number, number), report)?;
            sessions.of(session).push(row);
            Ok(())
        })?;
    }
    Ok(sessions.into_groups())
}
