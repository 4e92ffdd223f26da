//! Reloads of the configuration that were asked for on the admin socket, and what came of them.

use tokio::sync::watch;

use crate::model::ReloadView;

/// Outlives the servers, which a reload exchanges.
#[derive(Debug)]
pub struct Reloads(watch::Sender<ReloadView>);

impl Default for Reloads {
    fn default() -> Self {
        Self(watch::Sender::new(ReloadView::default()))
    }
}

impl Reloads {
    /// Asks for one more; its number is the answer's `asked`.
    pub(super) fn ask(&self) -> ReloadView {
        self.0.send_modify(|view| view.asked += 1);
        self.view()
    }

    /// How it stands.
    pub(super) fn view(&self) -> ReloadView {
        self.0.borrow().clone()
    }

    /// Returns when more than `begun` were asked for; answers how many.
    pub async fn asked(&self, begun: u64) -> u64 {
        let mut changes = self.0.subscribe();
        // The sender is this very object: it is not gone while this waits.
        let _ = changes.wait_for(|view| view.asked > begun).await;
        self.0.borrow().asked
    }

    /// The number of the newest.
    pub fn newest(&self) -> u64 {
        self.0.borrow().asked
    }

    /// Says that all up to this number are over: in force, or refused for this reason.
    pub fn done(&self, number: u64, refused: Option<String>) {
        self.0.send_modify(|view| {
            if number >= view.done {
                view.done = number;
                view.refused = refused;
            }
        });
    }
}
