//! Finds circles in the imports between the files of a crate.
//!
//! A file uses the file that defines an item, not the `mod.rs` that re-exports it. A re-export does not count
//! as a use.

use std::collections::{BTreeMap, BTreeSet};

/// Source files of a crate without comments and tests, by path below `src/`.
pub(crate) type Sources<'a> = BTreeMap<&'a str, &'a str>;

/// A name that a file imports.
struct Import {
    path: Vec<String>,
    /// Its name in this file; `*` for a glob.
    name: String,
    /// True for `pub use`: other files import the name from here, but this file does not use it.
    reexport: bool,
}

/// A module: its file, its imports, and the rest of its code.
struct Module<'a> {
    file: &'a str,
    imports: Vec<Import>,
    code: String,
}

/// The modules of the crate by path, e.g. `plan::context`; the path of `lib.rs` is empty.
struct Crate<'a>(BTreeMap<Vec<String>, Module<'a>>);

/// The files that each file uses.
pub(crate) type Edges<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Every circle of imports, as the edges between its files. Each file of a circle uses each other file of it, directly or indirectly.
pub(crate) fn circles<'a>(sources: &Sources<'a>) -> Vec<Edges<'a>> {
    let edges = Crate::new(sources).edges();
    let reached: Edges<'a> = edges
        .keys()
        .map(|file| (*file, reachable(&edges, file)))
        .collect();
    let mut found = BTreeSet::new();
    for (file, others) in &reached {
        let back = |other: &&str| reached[other].contains(file);
        let files: BTreeSet<&str> = others.iter().copied().filter(back).collect();
        let within = |file: &&'a str| (*file, edges[file].intersection(&files).copied().collect());
        found.insert(files.iter().map(within).collect());
    }
    found
        .into_iter()
        .filter(|circle: &Edges<'a>| !circle.is_empty())
        .collect()
}

/// Every file that `from` uses, directly or indirectly.
fn reachable<'a>(edges: &Edges<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&str> = edges[from].iter().copied().collect();
    while let Some(file) = next.pop() {
        if seen.insert(file) {
            next.extend(&edges[file]);
        }
    }
    seen
}

impl<'a> Crate<'a> {
    fn new(sources: &Sources<'a>) -> Self {
        let module = |(file, code): (&&'a str, &&str)| {
            let (imports, code) = take_imports(code);
            let path = file.strip_suffix(".rs").unwrap();
            let path = path.strip_suffix("/mod").unwrap_or(path);
            let path = path.split('/').filter(|part| *part != "lib");
            let path = path.map(str::to_owned).collect();
            let module = Module { file, imports, code };
            (path, module)
        };
        Self(sources.iter().map(module).collect())
    }

    /// The other files that each file uses.
    fn edges(&self) -> Edges<'a> {
        self.0
            .iter()
            .map(|(path, module)| {
                let uses = module.imports.iter().filter(|import| !import.reexport);
                let paths = uses.map(|import| import.path.clone());
                let used = paths.chain(inline_paths(&module.code));
                let files = used.filter_map(|used| self.resolve(path, &used, 0));
                let files = files.filter(|file| *file != module.file);
                (module.file, files.collect())
            })
            .collect()
    }

    /// The file that defines the item of a path, seen from the module `at`. If a module only imports the
    /// name, the search continues at its origin. `None` if the path does not lead to a module of this crate.
    fn resolve(&self, at: &[String], path: &[String], depth: usize) -> Option<&'a str> {
        let mut module = at.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => module.clear(),
            "super" | "self" => {}
            child if self.0.contains_key(&[at, &[child.to_owned()]].concat()) => {}
            _ => return None,
        }
        while let Some(part) = rest.first() {
            match part.as_str() {
                "crate" | "self" => {}
                "super" => {
                    module.pop();
                }
                _ => {
                    module.push(part.clone());
                    if !self.0.contains_key(&module) {
                        module.pop();
                        break;
                    }
                }
            }
            rest = &rest[1..];
        }
        let found = self.0.get(&module)?;
        let (Some(name), true) = (rest.first(), depth < 8) else {
            return Some(found.file);
        };
        let named = found.imports.iter().find(|import| import.name == *name);
        let globs = || found.imports.iter().filter(|import| import.name == "*");
        let source = named.or_else(|| globs().find(|glob| self.defines(&module, &glob.path, name)));
        source
            .and_then(|import| self.resolve(&module, &import.path, depth + 1))
            .or(Some(found.file))
    }

    /// True if the module of a glob defines an item with this name.
    fn defines(&self, at: &[String], glob: &[String], name: &str) -> bool {
        let Some(file) = self.resolve(at, glob, 8) else {
            return false;
        };
        let module = self.0.values().find(|module| module.file == file).unwrap();
        ["fn", "struct", "enum", "trait", "const", "static", "type"]
            .iter()
            .any(|kind| {
                let item = format!("{kind} {name}");
                let mut found = module.code.match_indices(&item);
                found.any(|(at, _)| !module.code[at + item.len()..].starts_with(is_word))
            })
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits code into its imports and the rest.
fn take_imports(code: &str) -> (Vec<Import>, String) {
    let mut imports = Vec::new();
    let mut rest = String::new();
    let mut statement = String::new();
    let mut reexport = false;
    for line in code.lines() {
        let text = line.trim_start();
        let begin = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
            .iter()
            .find_map(|word| text.strip_prefix(word));
        match begin {
            Some(tree) if statement.is_empty() => {
                reexport = !text.starts_with("use");
                statement.push_str(tree);
            }
            _ if !statement.is_empty() => statement.push_str(text),
            _ => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
        if let Some(tree) = statement.split_once(';').map(|(tree, _)| tree.to_owned()) {
            expand(&[], &tree, reexport, &mut imports);
            statement.clear();
        }
    }
    (imports, rest)
}

/// Expands the tree of a `use`.
fn expand(prefix: &[String], tree: &str, reexport: bool, imports: &mut Vec<Import>) {
    let (path, group) = tree.split_once('{').map_or((tree, None), |(path, group)| {
        (
            path,
            Some(group.rsplit_once('}').map_or(group, |(group, _)| group)),
        )
    });
    let (path, alias) = path.split_once(" as ").unwrap_or((path, ""));
    let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty());
    let mut full = prefix.to_vec();
    full.extend(parts.map(str::to_owned));
    let Some(group) = group else {
        if full.last().is_some_and(|part| part == "self") {
            full.pop();
        }
        let Some(last) = full.last().cloned() else { return };
        if last == "*" {
            full.pop();
        }
        let name = if alias.is_empty() {
            last
        } else {
            alias.trim().to_owned()
        };
        imports.push(Import {
            path: full,
            name,
            reexport,
        });
        return;
    };
    let mut depth = 0;
    let parts = group.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        expand(&full, part, reexport, imports);
    }
}

/// Every path (names joined by `::`) in a piece of code.
fn inline_paths(code: &str) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut rest = code;
    while let Some(at) = rest.find(is_word) {
        let glued = rest[..at].ends_with(['.', ':', '\'']);
        let end = |text: &str| text.find(|c| !is_word(c)).unwrap_or(text.len());
        let mut path = Vec::new();
        rest = &rest[at..];
        loop {
            let (word, after) = rest.split_at(end(rest));
            path.push(word.to_owned());
            rest = after;
            match rest.strip_prefix("::") {
                Some(next) if next.starts_with(is_word) => rest = next,
                _ => break,
            }
        }
        if path.len() > 1 && !glued {
            found.insert(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of each circle.
    fn found(sources: &[(&'static str, &'static str)]) -> Vec<Vec<&'static str>> {
        let found = circles(&sources.iter().copied().collect());
        found
            .iter()
            .map(|circle| circle.keys().copied().collect())
            .collect()
    }

    #[test]
    fn a_circle_through_imports_paths_and_reexports_is_found() {
        let circle = [
            (
                "a/mod.rs",
                "mod one;\nmod two;\nmod three;\npub use one::{One, other as Other};",
            ),
            ("a/one.rs", "use super::two::{self, Two};"),
            ("a/two.rs", "fn two() { super::three::three() }"),
            ("a/three.rs", "use crate::{\n    b::B,\n    a::Other,\n};"),
            ("a/four.rs", "use super::{one, two};"),
        ];
        assert_eq!(found(&circle), [["a/one.rs", "a/three.rs", "a/two.rs"]]);
    }

    #[test]
    fn a_circle_through_a_mod_rs_that_defines_something_is_found() {
        let circle = [
            ("a/mod.rs", "mod one;\npub fn all() { one::one() }"),
            ("a/one.rs", "pub fn one() { super::all() }"),
        ];
        assert_eq!(found(&circle), [["a/mod.rs", "a/one.rs"]]);
        let globs = [
            ("a/mod.rs", "mod one;\nmod two;\npub use one::*;\npub use two::*;"),
            ("a/one.rs", "use super::Two;\npub struct One;"),
            ("a/two.rs", "use super::One;\npub struct Two;"),
        ];
        assert_eq!(found(&globs), [["a/one.rs", "a/two.rs"]]);
    }

    #[test]
    fn what_goes_one_way_is_no_circle() {
        let none = [
            (
                "a/mod.rs",
                "mod one;\nmod two;\npub use one::One;\nfn run() { two::two() }",
            ),
            ("a/one.rs", "use crate::b::B;"),
            ("a/two.rs", "use super::One;"),
            ("b.rs", "pub struct B;"),
        ];
        assert!(found(&none).is_empty());
    }
}
