//! Whether etcd's database is damaged: a check in addition to etcd's last log lines.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use super::tool::{self, Programs};
use crate::bolt::meta::Meta;

/// Where the second meta page may begin: the size of a page.
const PAGE_SIZES: [usize; 5] = [4096, 8192, 16384, 32768, 65536];
/// etcd's tool reads all of it.
const WITHIN: Duration = Duration::from_mins(2);
const MOST_BYTES: usize = 64 << 10;

/// Messages of etcd's tool about a damaged database. A fault (`SIGBUS`) is not one of them: an unreadable
/// disk causes one too.
const DAMAGED: &[&str] = &[
    "invalid database",
    "panic: assertion failed: Page expected to be",
    "snapshot file integrity check failed",
];

/// What is damaged in the database, one line; `None` if nothing is found.
///
/// # Errors
/// It could not be read, or etcd's tool ended without a clear result: nothing is known.
pub(super) fn damage(path: &Path, programs: &Programs) -> Result<Option<String>, String> {
    if let Some(why) = cut_off(path).map_err(|error| format!("reading {}: {error}", path.display()))? {
        return Ok(Some(why));
    }
    let tool = programs.restore_tool()?;
    let args = [
        "snapshot".to_owned(),
        "status".to_owned(),
        path.display().to_string(),
    ];
    let said = tool::output(&tool, &args, WITHIN, MOST_BYTES)?;
    if said.status.success() {
        return Ok(None);
    }
    let line = said
        .text
        .lines()
        .find(|line| DAMAGED.iter().any(|words| line.contains(words)));
    match line {
        Some(line) => Ok(Some(format!(
            "{} snapshot status: {}",
            tool.display(),
            line.chars().take(200).collect::<String>()
        ))),
        None => Err(format!(
            "{} snapshot status ended with {}",
            tool.display(),
            said.status
        )),
    }
}

/// The file is shorter than its newest meta page says that it is.
fn cut_off(path: &Path) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut head = Vec::new();
    file.take(2 * 65536).read_to_end(&mut head)?;
    let metas = [0].into_iter().chain(PAGE_SIZES);
    let newest = metas
        .filter_map(|at| Meta::read(head.get(at..)?))
        .max_by_key(|meta| meta.txid);
    Ok(newest
        .map(|meta| meta.file_bytes())
        .filter(|bytes| *bytes > length)
        .map(|bytes| format!("the database has {length} of its {bytes} bytes")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::bolt::meta::{HEAD, VERSION};

    fn meta(txid: u64, high: u64) -> Vec<u8> {
        let meta = Meta {
            version: VERSION,
            page_size: 4096,
            root: 3,
            sequence: 0,
            high,
            txid,
        };
        let mut page = vec![0; HEAD];
        page.extend(meta.to_bytes());
        page.resize(4096, 0);
        page
    }

    /// A tool that prints this, and ends with this code.
    fn tool(dir: &Path, says: &str, code: u8) -> Programs {
        let path = dir.join("etcdutl");
        fs::write(&path, format!("#!/bin/sh\necho '{says}' >&2\nexit {code}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Programs::anywhere(vec![dir.to_owned()])
    }

    #[test]
    fn c11_a_database_that_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let write = |first: Vec<u8>, second: Vec<u8>, length: usize| {
            let mut body = [first, second].concat();
            body.resize(length, 0);
            fs::write(&path, body).unwrap();
            cut_off(&path).unwrap()
        };
        assert_eq!(write(meta(4, 10), meta(5, 12), 12 * 4096), None, "whole");
        let why = write(meta(4, 10), meta(5, 12), 11 * 4096).unwrap();
        assert!(why.contains("45056 of its 49152 bytes"), "{why}");
        assert_eq!(
            write(meta(6, 10), meta(5, 12), 11 * 4096),
            None,
            "the newer counts"
        );
        assert_eq!(
            write(vec![1; 4096], vec![2; 4096], 8192),
            None,
            "no valid meta page"
        );
        fs::remove_file(&path).unwrap();
        assert!(cut_off(&path).is_err());
    }

    #[test]
    fn c11_what_etcds_tool_says_of_a_database() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        fs::write(&path, [meta(4, 2), meta(5, 2)].concat()).unwrap();
        let says = |text: &str, code| damage(&path, &tool(dir.path(), text, code));
        assert_eq!(says("10eeec77, 1781, 1788, 152 MB", 0), Ok(None));
        for words in [
            "Error: invalid database",
            "panic: assertion failed: Page expected to be: 101, but self identifies as 0",
            "Error: snapshot file integrity check failed. 1 errors found.",
        ] {
            assert!(says(words, 2).unwrap().unwrap().contains(words), "{words}");
        }
        for words in [
            "fatal error: fault",
            "Error: open db: permission denied",
            "Killed",
        ] {
            assert!(says(words, 2).is_err(), "{words}: nothing is known");
        }
        fs::remove_file(dir.path().join("etcdutl")).unwrap();
        assert!(damage(&path, &Programs::anywhere(Vec::new())).is_err(), "no tool");
    }
}
