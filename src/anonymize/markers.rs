//! The marks that harnesses leave in fixed places of a conversation.
//!
//! Invariant: a mark counts only where its harness puts it (the result of a known call, the first message of an agent, a
//! notification block), never where text quotes it. What comes out is a borrowed identifier or a count, for [`super::extract`] to
//! turn into a tag. Source: `reference/claude-code-traffic.md` §§3–4, seen in Claude Code 1.0.128 to 2.1.332.

use crate::trace::vocab::{AgentType, ToolClass, Vocabulary};

use super::draft::Outcome;

/// What a tool result says about an agent.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct AgentResult<'a> {
    /// The agent or task that it names.
    pub(super) agent: Option<&'a str>,
    pub(super) outcome: Outcome,
    pub(super) total_tokens: Option<u32>,
    pub(super) tool_calls: Option<u32>,
}

/// A task notification.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notification<'a> {
    pub(super) task: &'a str,
    pub(super) call: Option<&'a str>,
    pub(super) failed: bool,
    pub(super) total_tokens: Option<u32>,
    pub(super) tool_calls: Option<u32>,
}

/// Reads the texts of a tool result.
pub(super) fn agent_result<'a>(texts: impl Iterator<Item = &'a str>) -> AgentResult<'a> {
    let mut found = AgentResult::default();
    for (at, text) in texts.enumerate() {
        if at == 0 {
            found.outcome = match text {
                _ if text.starts_with("Async agent launched") => Outcome::Launched,
                _ if text.starts_with("Workflow launched in background") => Outcome::Launched,
                _ if text.starts_with("Fork started") => Outcome::ForkStarted,
                _ if text.starts_with("The user doesn't want to proceed") || is_interrupt(text) => Outcome::Interrupted,
                _ => Outcome::Returned,
            };
        }
        // The report comes before the harness's own lines; so its last line counts, but where it only launched, its first.
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("agentId: "));
        let launched = found.outcome == Outcome::Launched;
        let named = if launched { lines.next() } else { lines.next_back() };
        let task = text.split_once("Task ID: ").filter(|_| at == 0 && launched).map(|(_, rest)| rest);
        found.agent = named.or(task).map(identifier).filter(|id| !id.is_empty()).or(found.agent);
        if let Some((_, usage)) =
            text.rsplit_once("<usage>").filter(|(_, usage)| usage.trim_end().ends_with("</usage>"))
        {
            found.total_tokens = number_after(usage, "subagent_tokens: ").or(number_after(usage, "total_tokens: "));
            found.tool_calls = number_after(usage, "tool_uses: ");
        }
    }
    found
}

/// Reads the notifications of a user text: it must begin with one, or be the harness's own reminder that holds one.
pub(super) fn notifications(text: &str) -> Vec<Notification<'_>> {
    const OPEN: &str = "<task-notification>";
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    if rest.starts_with("<system-reminder>\n[SYSTEM NOTIFICATION") {
        rest = rest.find(OPEN).and_then(|at| rest.get(at..)).unwrap_or_default();
    }
    while let Some(body) = rest.strip_prefix(OPEN) {
        let (head, report) = body.split_once("<result>").unwrap_or((body, ""));
        let head = head.split_once("</task-notification>").map_or(head, |(head, _)| head);
        let tail = report.rsplit_once("</result>").map_or(report, |(_, tail)| tail);
        let Some(task) = element(head, "task-id") else { break };
        found.push(Notification {
            task,
            call: element(head, "tool-use-id"),
            failed: matches!(element(head, "status"), Some("failed" | "killed" | "error")),
            total_tokens: element(tail, "subagent_tokens")
                .or(element(tail, "total_tokens"))
                .and_then(|text| text.parse().ok()),
            tool_calls: element(tail, "tool_uses").and_then(|text| text.parse().ok()),
        });
        rest = body.split_once("</task-notification>").map_or("", |(_, rest)| rest).trim_start();
    }
    found
}

/// Whether a user text is the harness's own and not a person's.
pub(super) fn is_reminder(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("<system-reminder>") || text.starts_with("<task-notification>") || text.starts_with("Tool loaded.")
}

/// Whether a user text says that the user stopped the assistant.
pub(super) fn is_interrupt(text: &str) -> bool {
    text.starts_with("[Request interrupted by user")
}

/// Whether a last user text asks for a summary that replaces the thread.
pub(super) fn is_compaction(text: &str) -> bool {
    ["CRITICAL: Respond with TEXT ONLY", "Your task is to create a detailed summary of"]
        .iter()
        .any(|mark| text.starts_with(mark))
}

/// Whether a system text is that of a summarizing side request (1.0.x).
pub(super) fn is_summarizer(text: &str) -> bool {
    text.starts_with("You are a helpful AI assistant tasked with summarizing conversations")
}

/// Whether a system text is that of a workflow's agent. Its task may stand in a wrapping of its own ([`workflow_directive`]) or not.
pub(super) fn is_workflow_agent(text: &str) -> bool {
    text.starts_with("You are a subagent spawned by a workflow orchestration script")
}

/// Whether a last user text asks for a recap that leaves the thread as it is.
pub(super) fn is_recap(text: &str) -> bool {
    text.starts_with("The user stepped away")
}

/// Whether a first user text is the summary that a thread goes on from.
pub(super) fn is_continuation(text: &str) -> bool {
    text.starts_with("This session is being continued from a previous conversation")
}

/// The task of a fork, in the text that starts it.
pub(super) fn fork_directive(text: &str) -> Option<&str> {
    text.strip_prefix("<fork-boilerplate>")?
        .split_once("</fork-boilerplate>")?
        .1
        .trim_start()
        .strip_prefix("Your directive: ")
}

/// The task of a workflow agent, in its first text: each line is indented by two spaces.
pub(super) fn workflow_directive(text: &str) -> Option<String> {
    let (_, task) = text.strip_prefix("[Workflow harness")?.split_once("task text follows:\n")?;
    let lines: Vec<&str> = task.trim_end().lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    Some(lines.join("\n"))
}

/// The plain texts that a workflow script quotes.
pub(super) fn quoted(script: &str) -> impl Iterator<Item = &str> {
    let mut rest = script;
    std::iter::from_fn(move || {
        let open = rest.find(['\'', '"', '`'])?;
        let quote = rest.get(open..)?.chars().next()?;
        let (text, after) = rest.get(open + 1..)?.split_once(quote)?;
        rest = after;
        Some(text)
    })
    .filter(|text| !text.is_empty())
}

/// Headers that name a session, and the session that started it: Dynamo's, those of OpenCode and others, Codex's.
pub(super) const SESSION_HEADERS: [(&str, &str); 4] = [
    ("x-dynamo-session-id", "x-dynamo-parent-session-id"),
    ("x-session-id", "x-parent-session-id"),
    ("session-id", "x-codex-parent-thread-id"),
    ("session_id", "x-codex-parent-thread-id"),
];

/// The class of a tool, by its name. MCP tools are told by their prefix.
pub(super) fn tool_class(name: &str) -> ToolClass {
    match name {
        "Read" | "NotebookRead" | "LS" | "ListMcpResources" | "ReadMcpResource" | "read_file" | "view" | "read" => {
            ToolClass::Read
        }
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "apply_patch" | "write_file" | "str_replace_editor"
        | "edit" | "write" => ToolClass::Edit,
        "Bash" | "BashOutput" | "KillShell" | "KillBash" | "PowerShell" | "shell" | "exec_command" | "local_shell"
        | "bash" => ToolClass::Shell,
        "Grep" | "Glob" | "ToolSearch" | "LSP" | "grep" | "glob" => ToolClass::Search,
        "WebFetch" | "WebSearch" | "web_search" | "web_fetch" | "webfetch" => ToolClass::Web,
        "Agent" | "Task" | "Workflow" | "SendMessage" | "TaskOutput" | "AgentOutput" | "TaskStop" | "ListAgents"
        | "task" | "spawn_agent" => ToolClass::Agent,
        _ if name.starts_with("mcp__") => ToolClass::Mcp,
        _ => ToolClass::Other,
    }
}

/// The built-in agent type with this name, else custom.
pub(super) fn agent_type(name: &str) -> AgentType {
    AgentType::parse(name).filter(|kind| *kind != AgentType::Main).unwrap_or(AgentType::Custom)
}

/// The session in a `metadata.user_id`: a member of a JSON string or, before that, what follows `_session_`.
pub(super) fn session_of_user_id(user_id: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct UserId {
        session_id: String,
    }
    match serde_json::from_str::<UserId>(user_id) {
        Ok(user) => Some(user.session_id),
        Err(_) => user_id.rsplit_once("_session_").map(|(_, session)| session.to_owned()),
    }
    .filter(|session| !session.is_empty())
}

/// The letters, digits, `@`, `_` and `-` at the start.
fn identifier(text: &str) -> &str {
    let end =
        text.find(|letter: char| !(letter.is_ascii_alphanumeric() || "@_-".contains(letter))).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = text.find(&format!("<{name}>"))? + name.len() + 2;
    text.get(start..)?.split_once("</").map(|(value, _)| value.trim())
}

fn number_after(text: &str, label: &str) -> Option<u32> {
    let rest = text.split_once(label)?.1;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_of_a_result_is_read_from_the_harness_lines_not_from_the_report() {
        let report = "[hand-back] report:\n  agentId: aQUOTED\nagentId: aMIDDLE said the helper\nagentId: a0123 (use it)\n<usage>subagent_tokens: 90\ntool_uses: 2\nduration_ms: 5</usage>";
        let found = agent_result([report].into_iter());
        assert_eq!(
            found,
            AgentResult { agent: Some("a0123"), total_tokens: Some(90), tool_calls: Some(2), ..AgentResult::default() }
        );
        let found =
            agent_result(["Async agent launched successfully.\nagentId: a77 (internal)\nagentId: aOTHER"].into_iter());
        assert_eq!((found.agent, found.outcome), (Some("a77"), Outcome::Launched));
        assert_eq!(agent_result(["Workflow launched in background. Task ID: w12\nx"].into_iter()).agent, Some("w12"));
        assert_eq!(agent_result(["plain output"].into_iter()), AgentResult::default());
    }

    #[test]
    fn a_notification_counts_only_where_the_harness_puts_it() {
        let notice = "<task-notification>\n<task-id>a1</task-id>\n<tool-use-id>toolu_9</tool-use-id>\n<status>completed</status>\n<result>x <task-notification><task-id>aQUOTED</task-id></result>\n<usage><subagent_tokens>7</subagent_tokens><tool_uses>3</tool_uses></usage>\n</task-notification>";
        let read = notifications(notice);
        assert_eq!(
            read,
            [Notification {
                task: "a1",
                call: Some("toolu_9"),
                failed: false,
                total_tokens: Some(7),
                tool_calls: Some(3)
            }]
        );
        let wrapped = format!("<system-reminder>\n[SYSTEM NOTIFICATION - x]\n\n{notice}\n</system-reminder>");
        assert_eq!(notifications(&wrapped).len(), 1);
        assert!(notifications(&format!("look at this: {notice}")).is_empty());
    }

    #[test]
    fn sessions_are_found_in_both_forms_of_user_id() {
        assert_eq!(session_of_user_id(r#"{"device_id":"d","session_id":"s-1"}"#).as_deref(), Some("s-1"));
        assert_eq!(session_of_user_id("user_00_account__session_s-2").as_deref(), Some("s-2"));
        assert_eq!(session_of_user_id("nobody"), None);
    }

    #[test]
    fn directives_are_unwrapped() {
        assert_eq!(
            fork_directive("<fork-boilerplate>\nx\n</fork-boilerplate>\n\nYour directive: Do it.\nNow."),
            Some("Do it.\nNow.")
        );
        assert_eq!(
            workflow_directive("[Workflow harness — task] x. The computed task text follows:\n  a\n    b\n").as_deref(),
            Some("a\n  b")
        );
        assert_eq!(fork_directive("Your directive: x"), None);
    }
}
