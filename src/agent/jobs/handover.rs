//! Hands an operator's request over to another node, follows it to its end, and answers it here.

use std::time::Duration;

use crate::model::{NodeName, OperatorRequest, RequestState, RequestView};
use crate::ports::PortError;

use crate::agent::Agent;

/// How often the other node is asked for the state of the request.
const LOOK: Duration = Duration::from_millis(500);
/// After this many enquiries without an answer the node counts as lost or cut off.
const SILENT: u32 = 60;
/// An answer that comes after a longer silence may be that old.
const OLD: Duration = Duration::from_secs(5);
/// Timeout of a request.
const LONGEST: Duration = Duration::from_hours(24);

/// Hands a request over in the background. The request stays pending here, and this node does not decide on
/// it again.
pub(crate) fn hand_over(agent: &Agent, request: &OperatorRequest, to: &NodeName) {
    let Some(id) = agent.shared.hand_over(request) else {
        return;
    };
    let (agent, request, to) = (agent.clone(), request.clone(), to.clone());
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = tokio::time::timeout(LONGEST, followed(&agent, id, &request, &to)) => ended,
            () = agent.shared.stopped.cancelled() => return,
        };
        let (state, message, changed) = ended.unwrap_or_else(|_| {
            let hours = LONGEST.as_secs() / 3600;
            failed(format!("not done by {to} within {hours} h"))
        });
        agent
            .shared
            .handed(id, state, &format!("{to}: {message}"), changed);
    });
}

/// The end of a request that failed, or whose outcome is unknown.
fn failed(message: String) -> (RequestState, String, bool) {
    (RequestState::Failed, message, true)
}

/// The final state of the request on the other node, its message, and whether anything was changed.
async fn followed(
    agent: &Agent,
    id: u64,
    request: &OperatorRequest,
    to: &NodeName,
) -> (RequestState, String, bool) {
    let peers = &agent.ports.peers;
    let mut view = match peers.submit(to, request).await {
        Ok(view) => view,
        Err(error) => return failed(format!("it could not be asked: {error}")),
    };
    let clock = &agent.ports.clock;
    let (mut silent, mut answered_at) = (0, clock.steady());
    loop {
        if view.state != RequestState::Pending {
            return (view.state, view.message, view.changed);
        }
        agent.shared.handed(
            id,
            RequestState::Pending,
            &format!("{to}: {}", view.message),
            view.changed,
        );
        tokio::time::sleep(LOOK).await;
        match peers.request(to, view.id).await {
            Ok(new) => {
                let now = clock.steady();
                let silence = now.since(answered_at);
                (silent, answered_at) = (0, now);
                view = same(dated(new, silence), request).unwrap_or_else(|| RequestView {
                    state: RequestState::Failed,
                    message: "its agent was restarted meanwhile and has forgotten the request".to_owned(),
                    ..view
                });
            }
            Err(PortError::Permanent(error)) => {
                return failed(format!("the outcome is not known: {error}"));
            }
            Err(error) => {
                silent += 1;
                if silent >= SILENT {
                    return failed(format!("the outcome is not known: {error}"));
                }
            }
        }
    }
}

/// The answer with its largest possible age. The request may have ended at any time since the node's last
/// answer, and the situation may have changed since.
fn dated(mut view: RequestView, silence: Duration) -> RequestView {
    if view.state != RequestState::Pending && silence >= OLD {
        let age = silence.as_secs();
        view.message = format!(
            "{} (up to {age} s ago: it did not answer meanwhile)",
            view.message
        );
    }
    view
}

/// The view, if it is of this request. A restarted agent counts from one again, so another request may have
/// this number.
fn same(view: RequestView, request: &OperatorRequest) -> Option<RequestView> {
    (std::mem::discriminant(&view.request) == std::mem::discriminant(request)).then_some(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_after_a_silence_says_so() {
        let rows = [
            (RequestState::Done, 1, "n1 leads"),
            (
                RequestState::Done,
                28,
                "n1 leads (up to 28 s ago: it did not answer meanwhile)",
            ),
            (
                RequestState::Failed,
                28,
                "n1 leads (up to 28 s ago: it did not answer meanwhile)",
            ),
            (RequestState::Pending, 28, "n1 leads"),
        ];
        for (state, seconds, expected) in rows {
            let view = RequestView {
                id: 1,
                request: OperatorRequest::Backup,
                state,
                message: "n1 leads".to_owned(),
                changed: true,
            };
            let result = dated(view, Duration::from_secs(seconds));
            assert_eq!((result.state, result.message.as_str()), (state, expected));
        }
    }
}
