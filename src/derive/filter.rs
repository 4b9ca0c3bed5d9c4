//! `--filter EXPR`: which sessions stay.
//!
//! Invariant: an expression is a list of conditions that must all hold; it looks at one session at a time and at nothing else.

use std::str::FromStr;

use crate::trace::{Model, Session};

/// Conditions on a session, such as `requests>=20,agents<=10,model=claude-opus-4-5,subagents`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<Condition>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    AtLeast(Count, u64),
    AtMost(Count, u64),
    Model(Model, bool),
    Subagents(bool),
}

/// What of a session is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Requests,
    Agents,
    /// Tokens of all prompts.
    Tokens,
    /// Tokens of the longest prompt.
    Longest,
}

const RULE: &str = "conditions separated by commas: requests, agents, tokens or longest with >=, <= or = and a number; \
                    model=NAME; model!=NAME; subagents; !subagents";

impl Filter {
    /// Whether every condition holds.
    pub fn keeps(&self, session: &Session) -> bool {
        self.0.iter().all(|condition| condition.holds(session))
    }
}

impl Condition {
    fn holds(self, session: &Session) -> bool {
        match self {
            Self::AtLeast(count, bound) => count.of(session) >= bound,
            Self::AtMost(count, bound) => count.of(session) <= bound,
            Self::Model(model, wanted) => session.requests.iter().any(|request| request.model == model) == wanted,
            Self::Subagents(wanted) => (session.agents.len() > 1) == wanted,
        }
    }
}

impl Count {
    fn of(self, session: &Session) -> u64 {
        let length = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let mut inputs = session.requests.iter().map(|request| u64::from(request.input_tokens));
        match self {
            Self::Requests => length(session.requests.len()),
            Self::Agents => length(session.agents.len()),
            Self::Tokens => inputs.sum(),
            Self::Longest => inputs.by_ref().max().unwrap_or(0),
        }
    }
}

impl FromStr for Filter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut conditions = Vec::new();
        for term in text.split(',').map(str::trim) {
            match term {
                "subagents" => conditions.push(Condition::Subagents(true)),
                "!subagents" => conditions.push(Condition::Subagents(false)),
                _ => compare(term, &mut conditions).ok_or(RULE)?,
            }
        }
        Ok(Self(conditions))
    }
}

/// `name op value`; "=" is both bounds.
fn compare(term: &str, conditions: &mut Vec<Condition>) -> Option<()> {
    let split = term.find(['<', '>', '=', '!'])?;
    let (name, rest) = term.split_at_checked(split)?;
    let value = rest.trim_start_matches(['<', '>', '=', '!']);
    let operator = rest.strip_suffix(value)?;
    let (name, value) = (name.trim(), value.trim());
    if name == "model" {
        let model = Model::parse(value)?;
        conditions.push(Condition::Model(
            model,
            match operator {
                "=" => true,
                "!=" => false,
                _ => return None,
            },
        ));
        return Some(());
    }
    let count = match name {
        "requests" => Count::Requests,
        "agents" => Count::Agents,
        "tokens" => Count::Tokens,
        "longest" => Count::Longest,
        _ => return None,
    };
    let bound = value.parse().ok()?;
    match operator {
        ">=" => conditions.push(Condition::AtLeast(count, bound)),
        "<=" => conditions.push(Condition::AtMost(count, bound)),
        "=" => conditions.extend([Condition::AtLeast(count, bound), Condition::AtMost(count, bound)]),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::four_turns;
    use super::*;

    #[test]
    fn every_condition_has_to_hold() {
        let session = four_turns();
        for (text, kept) in [
            ("requests>=4", true),
            ("requests>=5", false),
            ("requests=4, agents<=1", true),
            ("tokens<=36799", false),
            ("tokens=36800,longest=10400", true),
            ("subagents", false),
            ("!subagents,model=other-1", true),
            ("model!=other-1", false),
        ] {
            assert_eq!(text.parse::<Filter>().unwrap().keeps(&session), kept, "{text}");
        }
    }

    #[test]
    fn an_expression_that_says_nothing_is_refused() {
        for text in
            ["", "requests", "requests>3", "requests>=x", "turns>=3", "model>=a", "model=nobodys-model", "a=1", ">=3"]
        {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        }
    }
}
