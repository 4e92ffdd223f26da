//! Reads the source files of the tree.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) struct File {
    /// The path below the directory of sources.
    pub(crate) path: String,
    /// The code without comments and without the tests at the end of the file.
    pub(crate) code: String,
    pub(crate) lines: usize,
}

impl File {
    pub(crate) fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }
}

pub(crate) fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// Every source file of the agent except files of tests.
pub(crate) fn files() -> Vec<File> {
    let files = files_in("src");
    assert!(files.len() > 100, "the sources were not found");
    files
}

/// Every source file in a directory of the tree except files of tests.
pub(crate) fn files_in(dir: &str) -> Vec<File> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let mut paths = Vec::new();
    walk(&src, &mut paths);
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
        let is_test = name.split('/').any(|part| part == "tests")
            || name.ends_with("tests.rs")
            || name.ends_with("testing.rs");
        if is_test {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.find("\nmod tests {").map_or(text.as_str(), |at| &text[..at]);
        let code: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        files.push(File {
            path: name,
            lines: text.lines().count(),
            code: code.join("\n"),
        });
    }
    assert!(!files.is_empty(), "no sources in {}", src.display());
    files
}
