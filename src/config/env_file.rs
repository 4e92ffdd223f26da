//! Reading an `EnvironmentFile=` as systemd does, with the line of each assignment: the states and their
//! transitions are those of `parse_env_file_internal` in systemd's `src/basic/env-file.c`.

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The name of the variable.
    pub key: String,
    /// Its value, without quotes.
    pub value: String,
    /// Counted from 1.
    pub line: usize,
}

/// From this version on a backslash at the end of a comment does not make the next line a comment too.
const COMMENTS_END_AT_THE_LINE: u32 = 254;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    PreKey,
    Key,
    PreValue,
    Value,
    ValueEscape,
    SingleQuote,
    DoubleQuote,
    DoubleQuoteEscape,
    Comment,
    CommentEscape,
}

/// All assignments in order, as this version of systemd reads them. Those that it ignores are left out.
pub fn parse(text: &str, systemd: u32) -> Vec<Assignment> {
    let mut out = Vec::new();
    let mut state = State::PreKey;
    let mut current = Current::default();
    let mut line = 1;
    for c in text.chars() {
        let newline = matches!(c, '\n' | '\r');
        let blank = matches!(c, ' ' | '\t' | '\n' | '\r');
        state = match state {
            State::PreKey if matches!(c, '#' | ';') => State::Comment,
            State::PreKey if blank => State::PreKey,
            State::PreKey => {
                current = Current {
                    line,
                    ..Current::default()
                };
                current.key.push(c);
                State::Key
            }
            State::Key if newline => State::PreKey,
            State::Key if c == '=' => State::PreValue,
            State::Key => {
                current.key.push(c);
                State::Key
            }
            State::PreValue | State::Value if newline => {
                out.extend(current.end(state));
                State::PreKey
            }
            // A quote counts at the beginning of a value, and after another quote.
            State::PreValue if c == '\'' => State::SingleQuote,
            State::PreValue if c == '"' => State::DoubleQuote,
            State::PreValue | State::Value if c == '\\' => State::ValueEscape,
            State::PreValue if blank => State::PreValue,
            State::PreValue | State::Value => {
                current.push(c, !blank);
                State::Value
            }
            State::ValueEscape => {
                // The text before an escape is kept, blanks too.
                current.kept = current.value.len();
                if !newline {
                    current.push(c, true);
                }
                State::Value
            }
            State::SingleQuote if c == '\'' => State::PreValue,
            State::DoubleQuote if c == '"' => State::PreValue,
            State::DoubleQuote if c == '\\' => State::DoubleQuoteEscape,
            State::SingleQuote | State::DoubleQuote => {
                current.push(c, true);
                state
            }
            State::DoubleQuoteEscape => {
                if matches!(c, '"' | '\\' | '`' | '$') {
                    current.push(c, true);
                } else if c != '\n' {
                    current.push('\\', true);
                    current.push(c, true);
                }
                State::DoubleQuote
            }
            State::Comment if c == '\\' => State::CommentEscape,
            State::Comment if newline => State::PreKey,
            State::CommentEscape if newline && systemd >= COMMENTS_END_AT_THE_LINE => State::PreKey,
            State::Comment | State::CommentEscape => State::Comment,
        };
        line += usize::from(c == '\n');
    }
    if !matches!(
        state,
        State::PreKey | State::Key | State::Comment | State::CommentEscape
    ) {
        out.extend(current.end(state));
    }
    out
}

/// The assignment that is being read.
#[derive(Default)]
struct Current {
    key: String,
    value: String,
    /// Up to here the value keeps its blanks, if it ends in state [`State::Value`].
    kept: usize,
    line: usize,
}

impl Current {
    fn push(&mut self, c: char, keep: bool) {
        self.value.push(c);
        if keep {
            self.kept = self.value.len();
        }
    }

    /// The assignment; `None` for one that systemd ignores (`env_name_is_valid`).
    fn end(&mut self, state: State) -> Option<Assignment> {
        let mut value = std::mem::take(&mut self.value);
        if state == State::Value {
            value.truncate(self.kept);
        }
        let key = self.key.trim_end_matches([' ', '\t', '\n', '\r']).to_owned();
        let name = !key.starts_with(|c: char| c.is_ascii_digit())
            && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        name.then_some(Assignment {
            key,
            value,
            line: self.line,
        })
    }
}

#[cfg(test)]
mod tests;
