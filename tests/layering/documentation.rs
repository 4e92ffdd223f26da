//! Names in the documentation exist, and each reason code is explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use etcd_agent::model::ReasonCode;

use crate::sources::{files, walk};

#[test]
fn every_reason_code_is_explained() {
    let page: BTreeSet<String> = reasons().into_iter().collect();
    let codes: BTreeSet<String> = ReasonCode::ALL.iter().map(ToString::to_string).collect();
    let missing: Vec<&String> = codes.symmetric_difference(&page).collect();
    assert!(
        missing.is_empty(),
        "docs/reasons.md or ReasonCode lacks {missing:?}"
    );
    let plan: String = files()
        .into_iter()
        .filter(|file| file.path.starts_with("plan/"))
        .map(|file| file.code)
        .collect();
    for code in ReasonCode::ALL {
        let given = format!("ReasonCode::{code:?}");
        assert!(plan.contains(&given), "no reason is given as {given}");
    }
}

/// Paths in backticks must exist. Words with an underscore must be functions or tests. If the page says that
/// a function is in a file, it must be in that file.
#[test]
fn the_safety_page_names_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/safety.md")).unwrap();
    let mut sources = Vec::new();
    walk(&root.join("src"), &mut sources);
    walk(&root.join("tests"), &mut sources);
    let code: String = sources
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut missing = BTreeSet::new();
    let mut names = 0;
    for word in page.split('`').skip(1).step_by(2) {
        let is_name = word.contains('_')
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let is_path = word.starts_with("src/") || word.starts_with("tests/");
        names += usize::from(is_name);
        let there = (!is_name
            || ["(", "<"]
                .iter()
                .any(|end| code.contains(&format!("fn {word}{end}"))))
            && (!is_path || root.join(word).exists());
        if !there {
            missing.insert(word);
        }
    }
    assert!(missing.is_empty(), "docs/safety.md names {missing:?}");
    assert!(names > 60, "only {names} names were found");
    for (at, _) in page.match_indices("` in `src/") {
        let name = page[..at].rsplit('`').next().unwrap();
        let file = page[at + "` in `".len()..].split('`').next().unwrap();
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert!(
            text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<")),
            "{file} has no function {name}"
        );
    }
}

/// The reason codes of the page. Each has a table row.
fn reasons() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reasons.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned())
        .collect()
}

#[test]
fn h04_the_manual_page_of_reasons_has_them_all() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = std::process::Command::new(root.join("packaging/reasons.sh"))
        .arg(root.join("docs/reasons.md"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let page = String::from_utf8(made.stdout).unwrap().replace("\\-", "-");
    let codes = reasons();
    assert!(codes.len() > 100, "only {} reasons were found", codes.len());
    for code in &codes {
        assert!(page.contains(&format!("\n.TP\n.BR {code} \" (")), "{code}");
    }
    assert_eq!(page.matches("\n.TP\n").count(), codes.len());
    assert!(!page.contains('`') && !page.contains("](") && !page.contains("**"));
    // roff would take a line that begins with an apostrophe for a request.
    assert!(page.lines().all(|line| !line.starts_with('\'')));
}

/// `make TARGET` in backticks, and at the start of a line of a code block.
fn make_commands(page: &str) -> BTreeSet<&str> {
    let mut code = Vec::new();
    for (index, part) in page.split("```").enumerate() {
        if index % 2 == 1 {
            code.extend(part.lines());
        } else {
            code.extend(part.split('`').skip(1).step_by(2));
        }
    }
    let given = code
        .into_iter()
        .filter_map(|line| line.trim().strip_prefix("make "));
    let words = given.flat_map(|given| given.split_whitespace().take_while(|word| *word != "#"));
    words.filter(|word| !word.contains('=')).collect()
}

/// The lab runs the commands of the README that hosts understand. These are for the machine that has the sources.
#[test]
fn each_target_of_make_in_the_documentation_is_in_the_makefile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    let phony = makefile.replace("\\\n", " ");
    let phony = phony
        .lines()
        .find_map(|line| line.strip_prefix(".PHONY:"))
        .unwrap();
    assert_eq!(
        phony.split_whitespace().collect::<BTreeSet<_>>(),
        targets,
        ".PHONY"
    );
    for (page, least) in [
        ("README.md", 5),
        ("CONTRIBUTING.md", 5),
        ("docs/packages.md", 5),
        ("tests/lab/README.md", 2),
    ] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let named = make_commands(&text);
        assert!(named.len() >= least, "{page}: only {named:?} were found");
        let missing: Vec<_> = named.difference(&targets).collect();
        assert!(
            missing.is_empty(),
            "{page} names {missing:?}, which the Makefile has not"
        );
    }
}

/// The longest line of prose.
const WIDTH: usize = 120;

/// Tables and code may be wider. `docs/versions.md` is written by a test.
#[test]
fn prose_in_the_documentation_is_wrapped() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages: Vec<_> = ["", "docs", "docs/adr", "tests", "tests/lab", "tests/sim"]
        .into_iter()
        .flat_map(|dir| fs::read_dir(root.join(dir)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "md") && !path.ends_with("docs/versions.md"))
        .collect();
    pages.sort();
    assert!(pages.len() > 40, "only {} pages were found", pages.len());
    for page in pages {
        let mut in_code = false;
        for (number, line) in (1..).zip(fs::read_to_string(&page).unwrap().lines()) {
            let line = line.trim_start();
            in_code ^= line.starts_with("```");
            let is_wide = line.chars().count() > WIDTH;
            assert!(
                in_code || line.starts_with('|') || !is_wide,
                "{}:{number} has more than {WIDTH} columns: {line}",
                page.display()
            );
        }
    }
}
