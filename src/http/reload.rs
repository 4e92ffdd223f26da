//! Reloads of the configuration that were requested on the admin socket, and their results.

use tokio::sync::watch;

use crate::model::ReloadView;

/// The requested reloads. This object outlives the servers, which a reload replaces.
#[derive(Debug)]
pub struct Reloads(watch::Sender<ReloadView>);

impl Default for Reloads {
    fn default() -> Self {
        Self(watch::Sender::new(ReloadView::default()))
    }
}

impl Reloads {
    /// Requests one more reload. Its number is `asked` in the answer.
    pub(super) fn ask(&self) -> ReloadView {
        self.0.send_modify(|view| view.asked += 1);
        self.view()
    }

    /// The current state.
    pub(super) fn view(&self) -> ReloadView {
        self.0.borrow().clone()
    }

    /// Waits until more than `begun` reloads were requested. Returns the number of requested reloads.
    pub async fn asked(&self, begun: u64) -> u64 {
        let mut changes = self.0.subscribe();
        // This object is the sender, so the channel stays open during the wait.
        let _ = changes.wait_for(|view| view.asked > begun).await;
        self.0.borrow().asked
    }

    /// The number of the newest requested reload.
    pub fn newest(&self) -> u64 {
        self.0.borrow().asked
    }

    /// Records the digest of the configuration that the agent works with from now on.
    pub fn works_with(&self, digest: String) {
        self.0.send_modify(|view| view.in_force = Some(digest));
    }

    /// Records that all reloads up to this number have ended. The configuration is in force, or `refused`
    /// says why not.
    pub fn done(&self, number: u64, refused: Option<String>) {
        self.0.send_modify(|view| {
            if number >= view.done {
                view.done = number;
                view.refused = refused;
            }
        });
    }
}
