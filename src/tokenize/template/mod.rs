//! [`ChatTemplate`]: lays a prompt out as a model's own chat template does.
//!
//! Invariant: the tokens are those that Hugging Face gives for the rendered text, except that literals of special tokens
//! inside content are plain text. What is between two special tokens is encoded as one string, whoever wrote it.

mod config;
mod guard;
mod history;
mod jinja;
mod messages;
mod methods;

use std::path::Path;

use minijinja::{Environment, Value, context};
use zeroize::Zeroizing;

use self::config::Config;
use self::guard::{Guard, Piece};
use self::messages::Shape;
use super::memo::Memo;
use super::{Laid, Layout, LayoutError, Prompt, Token, Tokenizer, TokenizerError};

pub use self::history::History;

/// A chat template and the tokenizer it belongs to.
pub struct ChatTemplate {
    tokenizer: Tokenizer,
    environment: Environment<'static>,
    /// `bos_token`, `eos_token` and their like.
    roles: Vec<(String, String)>,
    sha256: [u8; 32],
    shape: Shape,
    memo: Memo,
}

impl ChatTemplate {
    /// Reads the chat template of a model's folder: `chat_template.jinja`, else `chat_template.json`, else `chat_template` in
    /// `tokenizer_config.json`; a template named `tool_use` serves prompts with tools. Tokens such as `bos_token` come from
    /// `tokenizer_config.json`, else from `special_tokens_map.json`.
    ///
    /// # Errors
    /// If there is none, or a file cannot be read, or the template does not compile.
    pub fn from_dir(dir: &Path, tokenizer: Tokenizer) -> Result<Self, TokenizerError> {
        let Config { templates, roles, sha256 } = Config::read(dir)?;
        let environment = jinja::environment(templates)?;
        let shape = Shape::default();
        let mut template = Self { tokenizer, environment, roles, sha256, shape, memo: Memo::new() };
        template.shape = template.fitting_shape();
        Ok(template)
    }

    /// SHA-256 of the source of the template; of all, in order of their names, if there are several.
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// Templates disagree on how a call is passed to them. The first shape in which one shows a call and its result is right.
    fn fitting_shape(&self) -> Shape {
        let shows = |shape: &Shape| {
            let mut guard = Guard::new(self.tokenizer.specials());
            self.render(&messages::probe(), *shape, true, &mut guard).is_ok_and(|text| messages::probe_shown(&text))
        };
        Shape::ALL.into_iter().find(shows).unwrap_or_default()
    }

    /// The text of a prompt, with what is content guarded by `guard`.
    fn render(
        &self,
        prompt: &Prompt<'_>,
        shape: Shape,
        generate: bool,
        guard: &mut Guard<'_>,
    ) -> Result<Zeroizing<String>, LayoutError> {
        let tools = messages::tools(prompt, guard);
        let special = if prompt.tools.is_empty() { None } else { self.environment.get_template(jinja::TOOL_USE).ok() };
        let template = match special {
            Some(template) => template,
            None => self.environment.get_template(jinja::DEFAULT).map_err(|_| LayoutError)?,
        };
        let roles: Value = self.roles.iter().map(|(role, token)| (role.as_str(), token.as_str())).collect();
        let context = context! {
            messages => messages::messages(prompt, shape, guard),
            tools => if prompt.tools.is_empty() { Value::from(()) } else { tools },
            documents => (),
            add_generation_prompt => generate,
            ..roles,
        };
        template.render(context).map(Zeroizing::new).map_err(|_| LayoutError)
    }

    /// Tokens of what stands between special tokens.
    fn region(&mut self, text: &str, guard: &Guard<'_>, out: &mut Vec<Token>) {
        for piece in guard.pieces(text) {
            match piece {
                Piece::Media { key, tokens } => super::neutral::media(key, tokens, out),
                Piece::Text(text) if out.is_empty() => {
                    self.memo.append(0, &text, out, |out| super::Encoder::encode(&self.tokenizer, &text, out));
                }
                Piece::Text(text) => {
                    self.memo.append(1, &text, out, |out| self.tokenizer.encode_inside(&text, out));
                }
            }
        }
    }
}

impl Layout for ChatTemplate {
    fn lay(&mut self, prompt: &Prompt<'_>) -> Result<Laid, LayoutError> {
        let tokenizer = self.tokenizer.clone();
        let mut guard = Guard::new(tokenizer.specials());
        let text = self.render(prompt, self.shape, true, &mut guard)?;
        let (mut tokens, mut rest) = (Vec::new(), 0);
        while let Some((range, special)) = tokenizer.specials().find(&text, rest) {
            let before = text.get(rest..range.start).unwrap_or_default();
            self.region(if special.lstrip { before.trim_end() } else { before }, &guard, &mut tokens);
            tokens.push(special.id);
            let after = text.get(range.end..).unwrap_or_default();
            rest = text.len() - if special.rstrip { after.trim_start() } else { after }.len();
        }
        self.region(text.get(rest..).unwrap_or_default(), &guard, &mut tokens);
        Ok(Laid { tokens, tools: 0, system: 0 })
    }
}

#[cfg(test)]
mod tests;
