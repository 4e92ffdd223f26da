//! How a restore is staged by the tool.

use super::*;

fn stage_request(file: &str) -> DataRequest {
    DataRequest::Stage {
        epoch: Epoch(2),
        backup: backup(),
        snapshot_file: file.to_owned(),
        name: crate::model::NodeName::new("n1").unwrap(),
        initial_cluster: [(
            crate::model::NodeName::new("n1").unwrap(),
            vec!["http://n1:2380".to_owned()],
        )]
        .into(),
        token: "prod-2-abc".to_owned(),
        cluster_id: NEW.0,
        member_id: NEW.1,
        continues: false,
    }
}

/// A tool that copies a prepared directory to the path in `--data-dir` and records its arguments.
fn tool(world: &World, help: &str, ids: (ClusterId, MemberId)) {
    let root = world.owner.dirs.data().parent().unwrap();
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&world.owner.restore).unwrap();
    fs::write(world.owner.restore.join("s.db"), "snapshot").unwrap();
    fill(&root.join("result"), ids);
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--help*) echo '{help}'; exit;; esac\necho \"$@\" > {root}/args\n\
        /bin/cp -r {root}/result \"${{4#--data-dir=}}\"\n",
        root = root.display()
    );
    let path = bin.join("etcdutl");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn staged_by_the_tool() {
    let world = World::with_data(OLD);
    tool(&world, "--bump-revision --mark-compacted", NEW);
    // An incomplete restore that a crash left is removed first.
    fs::create_dir_all(stage::dirs(&world.owner, Epoch(2)).data().join("member")).unwrap();
    let report = world.ask(stage_request("s.db"));
    assert_eq!(report.error, None);
    assert_eq!(report.staged, Some((Epoch(2), backup())));
    assert_eq!(report.data, present(OLD), "nothing is replaced");
    let args = world.owner.dirs.data().with_file_name("args");
    let passed = fs::read_to_string(&args).unwrap();
    for part in [
        "--initial-cluster=n1=http://n1:2380 ",
        "--bump-revision=1000000000 --mark-compacted",
    ] {
        assert!(passed.contains(part), "{passed}");
    }
    fs::remove_file(&args).unwrap();
    assert_eq!(world.ask(stage_request("s.db")).error, None);
    assert!(!args.exists(), "staged already: the tool is not run again");
}

#[test]
fn not_staged() {
    let world = World::with_data(OLD);
    assert!(
        world
            .ask(stage_request("s.db"))
            .error
            .unwrap()
            .contains("is not there")
    );
    tool(&world, "no such flag", OLD);
    let report = world.ask(stage_request("s.db"));
    assert!(report.error.unwrap().contains("expected member 4"));
    assert_eq!(report.staged, None, "without a marker it does not count");
    for name in ["../s.db", "", ".s", "/etc/passwd"] {
        let error = world.ask(stage_request(name)).error.unwrap();
        assert!(error.contains("plain file name"), "{name}: {error}");
    }
    fs::write(
        world.owner.dirs.data().with_file_name("bin").join("etcdutl"),
        "#!/bin/sh\necho boom >&2; exit 3\n",
    )
    .unwrap();
    assert!(world.ask(stage_request("s.db")).error.unwrap().contains("boom"));
}
