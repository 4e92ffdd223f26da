//! Reading an `EnvironmentFile=` as systemd does, with the line of each assignment (`src/basic/env-file.c`).

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) key: String,
    pub(super) value: String,
    /// Counted from 1.
    pub(super) line: usize,
}

/// All assignments in order. Comments begin with `#` or `;`; a backslash continues a line.
pub(super) fn parse(text: &str) -> Vec<Assignment> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    loop {
        while let Some(c) = chars.next_if(|c| c.is_whitespace()) {
            line += usize::from(c == '\n');
        }
        let Some(first) = chars.peek() else { return out };
        let at = line;
        if matches!(first, '#' | ';') {
            while chars.next_if(|c| *c != '\n').is_some() {}
            continue;
        }
        let mut key = String::new();
        while let Some(c) = chars.next_if(|c| !matches!(c, '=' | '\n')) {
            key.push(c);
        }
        if chars.next_if_eq(&'=').is_none() {
            continue;
        }
        let value = value(&mut chars, &mut line);
        out.push(Assignment {
            key: key.trim().to_owned(),
            value,
            line: at,
        });
    }
}

fn value(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, line: &mut usize) -> String {
    let mut out = String::new();
    // Up to here the value keeps its white space.
    let mut kept = 0;
    while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\'' | '"' => {
                while let Some(inner) = chars.next() {
                    *line += usize::from(inner == '\n');
                    if inner == c {
                        break;
                    }
                    match (inner, c) {
                        ('\\', '"') => match chars.next() {
                            Some('\n') => *line += 1,
                            Some(escaped @ ('"' | '\\' | '`' | '$')) => out.push(escaped),
                            Some(other) => out.extend(['\\', other]),
                            None => {}
                        },
                        _ => out.push(inner),
                    }
                }
                kept = out.len();
            }
            '\\' => {
                match chars.next() {
                    Some('\n') => *line += 1,
                    Some(escaped) => out.push(escaped),
                    None => {}
                }
                kept = out.len();
            }
            other => {
                out.push(other);
                if !other.is_whitespace() {
                    kept = out.len();
                }
            }
        }
    }
    out.truncate(kept);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_systemd_reads_it() {
        let text = "# comment\nA=1\n\n; too\n B = two words  \nC=\"x \\\"y\\\" $z \" # kept\nD='a\\b'\nE=a\\\n b\nF=\nnonsense\nG=\"1\n2\"\nH=--x=\"y z\"\n";
        let found: Vec<(String, String, usize)> = parse(text)
            .into_iter()
            .map(|a| (a.key, a.value, a.line))
            .collect();
        let expected = [
            ("A", "1", 2),
            ("B", "two words", 5),
            ("C", "x \"y\" $z  # kept", 6),
            ("D", "a\\b", 7),
            ("E", "a b", 8),
            ("F", "", 10),
            ("G", "1\n2", 12),
            ("H", "--x=y z", 14),
        ];
        let expected: Vec<(String, String, usize)> = expected
            .into_iter()
            .map(|(k, v, l)| (k.to_owned(), v.to_owned(), l))
            .collect();
        assert_eq!(found, expected);
    }
}
