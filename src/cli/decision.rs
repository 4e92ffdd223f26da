//! A decision as text for people.

use std::fmt::Write;

use crate::model::{Action, Decision};

/// The next action, and why.
pub(super) fn decided(decision: &Decision) -> String {
    let mut text = String::new();
    match &decision.action {
        None => text.push_str("Nothing to do now.\n"),
        Some(action) => {
            let _ = writeln!(text, "Next: {}", describe(action));
        }
    }
    text.push_str(&why(decision));
    text
}

/// The reasons.
pub(super) fn why(decision: &Decision) -> String {
    let mut text = String::new();
    if !decision.reasons.is_empty() {
        text.push_str("\nWhy:\n");
    }
    for reason in &decision.reasons {
        let mark = if reason.halt { " (until a person acts)" } else { "" };
        let _ = writeln!(text, "  {reason}{mark}");
    }
    text
}

/// An action's name and its plain fields.
fn describe(action: &Action) -> String {
    let mut text = action.name().to_owned();
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(action) {
        for (key, value) in fields {
            match value {
                serde_json::Value::String(value) if key != "action" => {
                    let _ = write!(text, " {key}={value}");
                }
                value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => {
                    let _ = write!(text, " {key}={value}");
                }
                _ => {}
            }
        }
    }
    text
}
