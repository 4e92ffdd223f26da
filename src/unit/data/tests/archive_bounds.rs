//! How many replaced directories the archive keeps.

use super::*;

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<_> = world
        .archived()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_archive_is_bounded() {
    let world = World::new();
    let archive = archive::dir(&world.owner).unwrap();
    for day in 1..=9 {
        fill(&archive.join(format!("2026010{day}T000000Z-restore-1-2")), OLD);
    }
    fill(&archive.join("20260101T000000Z-restore-3-4"), NEW);
    fs::create_dir(archive.join("by-hand")).unwrap();
    fill(world.owner.dirs.data(), OLD);
    assert_eq!(world.replace(false).error, None);
    // All others are older than thirty days; one is the newest of its cluster.
    let left = names(&world);
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!(left[0], "20260101T000000Z-restore-3-4");
    assert_eq!(left[2], "by-hand");
}

#[test]
fn f06_five_replacements_in_a_minute_keep_all() {
    let mut world = World::new();
    for _ in 0..5 {
        fill(world.owner.dirs.data(), OLD);
        assert_eq!(world.replace(false).error, None);
    }
    assert_eq!(world.archived().len(), 5);
    // Thirty days later by the clock, in the same hour.
    world.owner.now = || ages::Moment {
        wall: noon() + jiff::SignedDuration::from_hours(31 * 24),
        boot: "this".to_owned(),
        uptime: Duration::from_hours(10 * 24 + 1),
    };
    fill(world.owner.dirs.data(), OLD);
    assert_eq!(world.replace(false).error, None);
    assert_eq!(world.archived().len(), 6);
    // If space is short, only the count matters.
    world.owner.short_of_space = |_| true;
    fill(world.owner.dirs.data(), OLD);
    assert_eq!(world.replace(false).error, None);
    assert_eq!(world.archived().len(), 3);
}
