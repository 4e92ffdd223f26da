//! Hands an operator's request over to another node, follows it to its end, and answers it here.

use std::time::Duration;

use crate::model::{NodeName, OperatorRequest, RequestState, RequestView};
use crate::ports::PortError;

use crate::agent::Agent;

/// How often the other node is asked for the state of the request.
const LOOK: Duration = Duration::from_millis(500);
/// After so many questions without an answer the node counts as gone or cut off.
const SILENT: u32 = 60;
/// An answer that comes after a longer silence may be that old.
const OLD: Duration = Duration::from_secs(5);
/// Timeout of a request.
const LONGEST: Duration = Duration::from_hours(24);

/// Hands a request over in the background. It stays pending here, and is not decided on again.
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
    let clock = &agent.ports.clock;
    let (mut silent, mut heard) = (0, clock.steady());
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
                let now = clock.steady();
                let silence = now.since(heard);
                (silent, heard) = (0, now);
                view = same(dated(new, silence), request).unwrap_or_else(|| RequestView {
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

/// The answer, with what may be its age: it was given at any time since that node answered before, and things may have changed.
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

/// An agent that was restarted counts from one again: another request may have this number by now.
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
            };
            let told = dated(view, Duration::from_secs(seconds));
            assert_eq!((told.state, told.message.as_str()), (state, expected));
        }
    }
}
