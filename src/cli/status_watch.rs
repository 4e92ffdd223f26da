//! `etcd-agent status --watch`: the status again and again, until it is interrupted or nobody reads it.

use std::io::IsTerminal;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::health;
use super::out;
use super::plain;
use super::status_view::{Form, json_line, shown};
use super::wait;
use crate::model::{AdminStatus, wording};

/// How long one look may take.
const LOOK: Duration = Duration::from_secs(5);
/// How often it is checked whether somebody still reads.
const READ: Duration = Duration::from_millis(500);

pub(super) async fn run(client: &Client, every: Duration, form: Form) -> Outcome {
    let stop = wait::interrupted()?;
    let for_people = matches!(form, Form::Table | Form::Wide);
    let redraw = for_people && std::io::stdout().is_terminal();
    let watch = Watch { every, form, redraw };
    watch
        .until(&client.within(LOOK), stop, out::print_clean, out::unread)
        .await
}

/// What is looked at, and how it is shown.
pub(super) struct Watch {
    pub(super) every: Duration,
    pub(super) form: Form,
    /// True on a terminal: each look takes the place of the one before.
    pub(super) redraw: bool,
}

impl Watch {
    /// Looks and shows until `stop`, or until `print` or `unread` says that nobody reads.
    pub(super) async fn until(
        &self,
        client: &Client,
        stop: impl Future<Output = ()>,
        mut print: impl FnMut(&str) -> Result<bool, Failure>,
        unread: impl Fn() -> bool,
    ) -> Outcome {
        let mut stop = std::pin::pin!(stop);
        if self.redraw {
            print("\u{1b}[2J\u{1b}[H")?;
        }
        loop {
            let next = Instant::now() + self.every;
            let look = tokio::select! {
                look = wait::status(client) => look?,
                () = &mut stop => return Ok(Exit::Ok),
            };
            if !print(&self.text(look)?)? {
                return Ok(Exit::Ok);
            }
            while Instant::now() < next {
                let pause = READ.min(next.saturating_duration_since(Instant::now()));
                tokio::select! {
                    () = sleep(pause) => {}
                    () = &mut stop => return Ok(Exit::Ok),
                }
                if unread() {
                    return Ok(Exit::Ok);
                }
            }
        }
    }

    /// One look: a screen, a line for people, a line of JSON, or a YAML document.
    fn text(&self, look: Result<AdminStatus, String>) -> Result<String, Failure> {
        let time = out::time(out::now());
        let status = match (look, self.form) {
            (Ok(status), Form::Json) => return json_line(&status),
            (Ok(status), Form::Yaml) => return Ok(format!("---\n{}", shown(&status, self.form)?)),
            (Ok(status), _) if !self.redraw => {
                let health = health::judge(&status).word();
                let line = format!("{time}  {health}  {}", wording::headline(&status));
                return Ok(plain::line(&line).into_owned());
            }
            (Ok(status), _) => shown(&status, self.form)?,
            (Err(text), Form::Json) => return out::json_line(&serde_json::json!({"error": text})),
            (Err(text), Form::Yaml) => {
                return Ok(format!(
                    "---\n{}",
                    out::yaml(&serde_json::json!({"error": text}))?
                ));
            }
            (Err(text), _) if !self.redraw => return Ok(plain::line(&format!("{time}  {text}")).into_owned()),
            (Err(text), _) => format!("{}\n", plain::line(&text)),
        };
        let every = self.every.as_secs();
        Ok(screen(&format!(
            "{time}, every {every}s; Ctrl-C ends it\n\n{status}"
        )))
    }
}

/// Draws over the last screen: the rest of each line, and what is below, is erased.
fn screen(text: &str) -> String {
    let mut drawn = "\u{1b}[H".to_owned();
    for line in text.lines() {
        drawn.push_str(line);
        drawn.push_str("\u{1b}[K\n");
    }
    drawn + "\u{1b}[J"
}
