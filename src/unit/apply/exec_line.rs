//! The words of an `ExecStart=` line with its variables expanded, as systemd does it, and as a shell does it
//! after that.

use std::collections::BTreeMap;

use crate::model::is_etcd_flag;

/// A variable and where it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Var {
    pub(super) value: String,
    /// `file:line`, or a description.
    pub(super) place: String,
}

pub(super) type Env = BTreeMap<String, Var>;

/// One word, and the variable that it came from, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) var: Option<String>,
}

/// A flag of etcd in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// The variable that it came from, if any.
    pub var: Option<String>,
}

/// The flags that etcd has among these words: `-name`, `--name value`, `--name=value`.
pub(super) fn flags_of(words: &[Word]) -> Vec<Flag> {
    let mut rest = words.iter().peekable();
    let mut out = Vec::new();
    while let Some(word) = rest.next() {
        let Some(text) = word
            .text
            .strip_prefix("--")
            .or_else(|| word.text.strip_prefix('-'))
        else {
            continue;
        };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        if !is_etcd_flag(name) {
            continue;
        }
        let value = value.or_else(|| {
            rest.next_if(|next| !next.text.starts_with('-'))
                .map(|next| next.text.clone())
        });
        out.push(Flag {
            name: name.to_owned(),
            value,
            var: word.var.clone(),
        });
    }
    out
}

/// The flags that etcd has among the arguments of a process.
pub fn flags_of_process(args: &[String]) -> Vec<Flag> {
    let words: Vec<Word> = args
        .iter()
        .map(|text| Word {
            text: text.clone(),
            var: None,
        })
        .collect();
    flags_of(&words)
}

/// All words of a command; for `sh -c SCRIPT`, the words of the script.
pub(super) fn words(argv: &[String], env: &Env) -> Vec<Word> {
    let mut words: Vec<Word> = argv.iter().flat_map(|arg| expand_systemd(arg, env)).collect();
    let is_shell = words.first().is_some_and(|word| {
        let name = word.text.rsplit('/').next().unwrap_or_default();
        matches!(name, "sh" | "bash" | "dash" | "ksh" | "zsh")
    });
    if is_shell
        && let Some(at) = words.iter().position(|word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.ends_with('c')
        })
        && at + 1 < words.len()
    {
        let script = words.remove(at + 1);
        return expand_shell(&script, env);
    }
    words
}

/// systemd.service(5), "Command lines": `$X` as a word of its own is split into words, `${X}` is replaced
/// within a word, `$$` is a dollar.
fn expand_systemd(arg: &str, env: &Env) -> Vec<Word> {
    if let Some(name) = arg.strip_prefix('$').filter(|name| is_name(name)) {
        let value = env.get(name).map(|var| var.value.as_str()).unwrap_or_default();
        return split(value, &Env::new(), false)
            .into_iter()
            .map(|word| Word {
                text: word.text,
                var: Some(name.to_owned()),
            })
            .collect();
    }
    let mut word = Word {
        text: String::new(),
        var: None,
    };
    let mut rest = arg;
    while let Some((before, after)) = rest.split_once('$') {
        word.text.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            word.text.push('$');
            rest = after;
        } else if let Some((name, after)) = after
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'))
            .filter(|(name, _)| is_name(name))
        {
            if let Some(var) = env.get(name) {
                word.text.push_str(&var.value);
            }
            word.var = Some(name.to_owned());
            rest = after;
        } else {
            word.text.push('$');
            rest = after;
        }
    }
    word.text.push_str(rest);
    vec![word]
}

fn expand_shell(script: &Word, env: &Env) -> Vec<Word> {
    split(&script.text, env, true)
        .into_iter()
        .map(|word| Word {
            var: word.var.or_else(|| script.var.clone()),
            text: word.text,
        })
        .collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Splits at blanks outside quotes; with `expand`, `$X` and `${X}` are resolved, except in single quotes.
/// Unknown values, such as `$(nproc)`, are left unchanged.
fn split(text: &str, env: &Env, expand: bool) -> Vec<Word> {
    let mut out = Vec::new();
    let mut current: Option<Word> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some(c);
                current.get_or_insert_with(empty);
            }
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                if let Some(next) = chars.next() {
                    current.get_or_insert_with(empty).text.push(next);
                }
            }
            (c, None) if c.is_whitespace() || (expand && matches!(c, ';' | '&' | '|')) => {
                out.extend(current.take());
            }
            ('$', None | Some('"')) if expand => {
                let mut name = String::new();
                let braced = chars.next_if_eq(&'{').is_some();
                while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                if braced {
                    // `${X:-default}` and the like: only the variable counts.
                    while chars.next_if(|c| *c != '}').is_some() {}
                    chars.next();
                }
                if !is_name(&name) {
                    current.get_or_insert_with(empty).text.push('$');
                    continue;
                }
                let value = env.get(&name).map(|var| var.value.as_str()).unwrap_or_default();
                // Outside quotes a shell splits the value again.
                let mut parts = if quote.is_none() {
                    value.split_whitespace().collect::<Vec<_>>()
                } else {
                    vec![value]
                }
                .into_iter();
                if let Some(first) = parts.next() {
                    let word = current.get_or_insert_with(empty);
                    word.text.push_str(first);
                    word.var = Some(name.clone());
                }
                for part in parts {
                    out.extend(current.take());
                    current = Some(Word {
                        text: part.to_owned(),
                        var: Some(name.clone()),
                    });
                }
            }
            (c, _) => current.get_or_insert_with(empty).text.push(c),
        }
    }
    out.extend(current);
    out
}

fn empty() -> Word {
    Word {
        text: String::new(),
        var: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(argv: &[&str], env: &[(&str, &str)]) -> Vec<String> {
        let env: Env = env
            .iter()
            .map(|(key, value)| {
                let var = Var {
                    value: (*value).to_owned(),
                    place: String::new(),
                };
                ((*key).to_owned(), var)
            })
            .collect();
        let argv: Vec<String> = argv.iter().map(|arg| (*arg).to_owned()).collect();
        words(&argv, &env).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn what_etcd_would_see() {
        let env = [("ARGS", "--a=1 --b '2 3'"), ("NAME", "n1"), ("E", "")];
        let table: Vec<(&str, Vec<&str>, Vec<&str>)> = vec![
            ("plain", vec!["/usr/bin/etcd"], vec!["/usr/bin/etcd"]),
            (
                "split by systemd",
                vec!["etcd", "$ARGS"],
                vec!["etcd", "--a=1", "--b", "2 3"],
            ),
            (
                "within a word",
                vec!["etcd", "--name=${NAME}x"],
                vec!["etcd", "--name=n1x"],
            ),
            (
                "not within a word without braces",
                vec!["etcd", "--name=$NAME"],
                vec!["etcd", "--name=$NAME"],
            ),
            ("unset", vec!["etcd", "$NONE", "${NONE}"], vec!["etcd", ""]),
            ("a dollar", vec!["etcd", "$$x"], vec!["etcd", "$x"]),
            (
                "through a shell",
                vec![
                    "/bin/bash",
                    "-c",
                    "GOMAXPROCS=$(nproc) /usr/bin/etcd --name=\"$${NAME}\" $ARGS",
                ],
                vec![
                    "GOMAXPROCS=$(nproc)",
                    "/usr/bin/etcd",
                    "--name=n1",
                    "--a=1",
                    "--b",
                    "'2",
                    "3'",
                ],
            ),
            (
                "as EL had it",
                vec![
                    "/bin/bash",
                    "-c",
                    "GOMAXPROCS=$(nproc) /usr/bin/etcd --name=\"${NAME}\"",
                ],
                vec!["GOMAXPROCS=$(nproc)", "/usr/bin/etcd", "--name=n1"],
            ),
            (
                "exec and more",
                vec!["sh", "-ec", "exec etcd --x; true"],
                vec!["exec", "etcd", "--x", "true"],
            ),
        ];
        for (name, argv, expected) in table {
            assert_eq!(texts(&argv, &env), expected, "{name}");
        }
    }
}
