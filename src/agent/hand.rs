//! A person's request that another node carries out: handed over, followed to its end, and answered here.

use std::time::Duration;

use crate::model::{NodeName, OperatorRequest, RequestState, RequestView};
use crate::ports::PortError;

use super::Agent;

/// Between two looks at what came of it.
const LOOK: Duration = Duration::from_millis(500);
/// So many looks in a row without an answer: that node is gone, or cut off.
const SILENT: u32 = 60;
/// A request that has not ended by then hangs.
const LONGEST: Duration = Duration::from_hours(24);

/// Hands a request over, beside the loop. It stays pending here, and is not decided on again.
pub(super) fn over(agent: &Agent, request: &OperatorRequest, to: &NodeName) {
    let Some(id) = agent.shared.hand_over(request) else {
        return;
    };
    let (agent, request, to) = (agent.clone(), request.clone(), to.clone());
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = tokio::time::timeout(LONGEST, followed(&agent, id, &request, &to)) => ended,
            () = agent.shared.stopped.cancelled() => return,
        };
        let (state, message) = ended.unwrap_or_else(|_| {
            let hours = LONGEST.as_secs() / 3600;
            (RequestState::Failed, format!("not done by {to} within {hours} h"))
        });
        agent.shared.handed(id, state, &format!("{to}: {message}"));
    });
}

/// What came of it there.
async fn followed(
    agent: &Agent,
    id: u64,
    request: &OperatorRequest,
    to: &NodeName,
) -> (RequestState, String) {
    let peers = &agent.ports.peers;
    let mut view = match peers.submit(to, request).await {
        Ok(view) => view,
        Err(error) => return (RequestState::Failed, format!("it could not be asked: {error}")),
    };
    let mut silent = 0;
    loop {
        if view.state != RequestState::Pending {
            return (view.state, view.message);
        }
        agent
            .shared
            .handed(id, RequestState::Pending, &format!("{to}: {}", view.message));
        tokio::time::sleep(LOOK).await;
        match peers.request(to, view.id).await {
            Ok(new) => {
                silent = 0;
                view = same(new, request).unwrap_or_else(|| RequestView {
                    state: RequestState::Failed,
                    message: "its agent was restarted meanwhile and has forgotten the request".to_owned(),
                    ..view
                });
            }
            Err(PortError::Permanent(error)) => {
                let text = format!("what came of it is not known: {error}");
                return (RequestState::Failed, text);
            }
            Err(error) => {
                silent += 1;
                if silent >= SILENT {
                    return (
                        RequestState::Failed,
                        format!("what came of it is not known: {error}"),
                    );
                }
            }
        }
    }
}

/// An agent that was restarted counts from one again: another request may have this number by now.
fn same(view: RequestView, request: &OperatorRequest) -> Option<RequestView> {
    (std::mem::discriminant(&view.request) == std::mem::discriminant(request)).then_some(view)
}
