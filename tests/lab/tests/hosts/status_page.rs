//! The status page in a real browser: what a reader sees on a desk, on a phone and in the dark, and what a
//! screen reader gets. The tests of restores open it in each state.

use std::path::PathBuf;

use anyhow::ensure;
use etcd_agent_lab::{Browser, Host, Lab, wait_until};

use crate::common::SOON;

const URL: &str = "http://127.0.0.1:2381/";
const LOOK: &str = include_str!("status_page.js");
/// The narrowest and the widest window.
const PHONE: (u32, u32) = (360, 740);
const DESK: (u32, u32) = (1120, 720);
/// The pictures in the documentation.
const PICTURES: [&str; 4] = [
    "healthy-desk",
    "degraded-phone-dark",
    "halted-phone-dark",
    "restoring-phone-dark",
];

/// The page of one host.
pub(crate) struct StatusPage(Browser);

impl StatusPage {
    /// Lets the agent of this host serve the page, and starts a browser there.
    pub(crate) fn of(lab: &Lab, host: &Host) -> Self {
        let listen = "[metrics]\nlisten = \"127.0.0.1:2381\"\n";
        host.write_file(
            "/etc/etcd-agent/config.d/50-metrics.toml",
            listen,
            "0644",
            "root:root",
        )
        .unwrap();
        host.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
        Self(Browser::start(lab, host).unwrap())
    }

    /// Waits until the page has a title that begins with `begins` and contains `has`.
    pub(crate) fn wait(&mut self, begins: &str, has: &str) {
        let what = format!("the title of the page to be {begins} {has}");
        wait_until(&what, SOON, || {
            self.0.open(URL)?;
            let title = self.0.value("document.title")?;
            let title = title.as_str().unwrap_or_default().to_owned();
            ensure!(title.starts_with(begins) && title.contains(has), "{title}");
            Ok(true)
        })
        .unwrap();
    }

    /// Fails if one of these texts is not on the page.
    pub(crate) fn shows(&mut self, texts: &[&str]) {
        let shown = self.0.value("document.body.textContent").unwrap();
        for text in texts {
            assert!(shown.as_str().unwrap().contains(text), "{text} in {shown}");
        }
    }

    /// Looks at the page in each kind of window. With `UPDATE_SCREENSHOTS` in the environment it also keeps
    /// pictures for the documentation.
    pub(crate) fn is_readable(&mut self, name: &str) {
        let mut backgrounds = Vec::new();
        for (kind, (width, height), is_dark) in [
            ("desk", DESK, false),
            ("desk-dark", DESK, true),
            ("phone", PHONE, false),
            ("phone-dark", PHONE, true),
        ] {
            self.0.shape(width, height, is_dark).unwrap();
            self.0.open(URL).unwrap();
            let what = format!("{name}, {kind}");
            let wrong = self.0.value(LOOK).unwrap();
            assert_eq!(wrong, serde_json::json!([]), "{what}");
            let background = "getComputedStyle(document.body).backgroundColor";
            backgrounds.push(self.0.value(background).unwrap());
            self.is_accessible(&what);
            let picture = format!("{name}-{kind}");
            if std::env::var_os("UPDATE_SCREENSHOTS").is_some() && PICTURES.contains(&picture.as_str()) {
                let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images");
                let path = PathBuf::from(images).join(format!("status-{picture}.png"));
                self.0.screenshot(&path).unwrap();
            }
        }
        assert_eq!(backgrounds[0], backgrounds[2], "{name}");
        assert_eq!(backgrounds[1], backgrounds[3], "{name}");
        assert_ne!(
            backgrounds[0], backgrounds[1],
            "{name}: dark mode changes nothing"
        );
    }

    /// What a screen reader gets, in this window.
    fn is_accessible(&mut self, what: &str) {
        let nodes = self.0.accessible().unwrap();
        let count = |role: &str| nodes.iter().filter(|(found, _)| found == role).count();
        for role in ["banner", "navigation", "main", "contentinfo"] {
            assert_eq!(count(role), 1, "{what}: {role} in {nodes:?}");
        }
        let title = self.0.value("document.title").unwrap();
        let verdict = title.as_str().unwrap().split(':').next().unwrap().to_owned();
        let heading = nodes.iter().find(|(role, _)| role == "heading");
        let (_, heading) = heading.expect("a heading");
        assert!(heading.starts_with(&verdict), "{what}: {heading}");
        let tables: Vec<&str> = nodes
            .iter()
            .filter(|(role, _)| role == "table")
            .map(|(_, name)| name.as_str())
            .collect();
        for table in [
            "Each node by its own last report",
            "The newest backups in the store",
            "The last decisions of this node's agent, the newest first",
        ] {
            assert!(tables.contains(&table), "{what}: {tables:?}");
        }
        assert!(count("columnheader") >= 19, "{what}: {nodes:?}");
        assert!(
            nodes.contains(&("rowheader".to_owned(), "n1 (here)".to_owned())),
            "{what}: {nodes:?}"
        );
        let picture = nodes.iter().find(|(role, _)| role == "image" || role == "img");
        let (_, picture) = picture.expect("the timeline");
        assert!(picture.contains(" backups, the oldest "), "{what}: {picture}");

        assert_eq!(self.0.complaints(), Vec::<String>::new(), "{what}");
        let requested = self.0.requested();
        assert!(
            requested.iter().all(|url| url.starts_with(URL)),
            "{what}: {requested:?}"
        );
        let style = requested.iter().any(|url| url.ends_with("/status.css"));
        assert!(style, "{what}: {requested:?}");
    }
}
