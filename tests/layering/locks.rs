//! The lock files of the workspaces.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The fuzz targets are a workspace of their own, which no other test compiles.
#[test]
fn the_lock_of_the_fuzz_targets_has_each_crate_of_the_agent() {
    let manifest = read("Cargo.toml");
    let lock = read("tests/fuzz/Cargo.lock");
    let agent = lock
        .split("[[package]]\n")
        .find(|text| text.starts_with("name = \"etcd-agent\"\n"));
    let agent = agent.expect("the agent is a dependency of the fuzz targets");
    let table = manifest.split("\n[dependencies]\n").nth(1).unwrap();
    let crates = table.lines().take_while(|line| !line.starts_with('['));
    let missing: Vec<&str> = crates
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .filter(|name| {
            let (one, of_several) = (format!(" \"{name}\","), format!(" \"{name} "));
            !agent.contains(&one) && !agent.contains(&of_several)
        })
        .collect();
    assert!(
        missing.is_empty(),
        "tests/fuzz/Cargo.lock lacks {missing:?}: run `cargo metadata --manifest-path tests/fuzz/Cargo.toml`, and commit it"
    );
}
