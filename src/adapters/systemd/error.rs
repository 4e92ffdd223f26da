//! Maps D-Bus errors to port errors: one line that says what was tried and what the operator can do.

use zbus::fdo;

use crate::ports::PortError;

/// The kind of a request to systemd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// A request that changes nothing.
    Read,
    /// A request that systemd may have carried out even if no answer comes.
    Change,
}

/// Maps an error of a call. `what` reads like `start etcd.service`.
pub(super) fn port_error(what: &str, ask: Ask, error: &zbus::Error) -> PortError {
    let (name, text) = match error {
        zbus::Error::MethodError(name, text, _) => (name.to_string(), text.clone().unwrap_or_default()),
        zbus::Error::FDO(inner) => match &**inner {
            fdo::Error::AccessDenied(text)
            | fdo::Error::InteractiveAuthorizationRequired(text)
            | fdo::Error::AuthFailed(text) => (ACCESS_DENIED.to_owned(), text.clone()),
            fdo::Error::NoReply(text)
            | fdo::Error::Timeout(text)
            | fdo::Error::TimedOut(text)
            | fdo::Error::Disconnected(text) => return lost(what, ask, text),
            other => (String::new(), other.to_string()),
        },
        other => return lost(what, ask, &other.to_string()),
    };
    let text = text.replace('\n', " ");
    match name.as_str() {
        ACCESS_DENIED
        | "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
        | "org.freedesktop.PolicyKit1.Error.NotAuthorized" => PortError::Permanent(format!(
            "systemd refused to {what} ({text}): install polkit (Debian: polkitd, Fedora, EL and SUSE: polkit), which \
             reads the agent's rule /usr/share/polkit-1/rules.d/50-etcd-agent.rules, or run the agent as root \
             (User=root in a drop-in of etcd-agent.service)"
        )),
        "org.freedesktop.systemd1.UnitMasked" => PortError::Permanent(format!(
            "systemd refused to {what}: the unit is masked; systemctl unmask it to continue"
        )),
        "org.freedesktop.systemd1.NoSuchUnit" => PortError::Permanent(format!(
            "systemd refused to {what}: there is no such unit; is its package installed?"
        )),
        _ => PortError::Retryable(format!("systemd could not {what}: {text} ({name})")),
    }
}

const ACCESS_DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";

/// The error for a request without an answer.
pub(super) fn lost(what: &str, ask: Ask, why: &str) -> PortError {
    let line = format!("no answer from systemd when asked to {what}: {why}");
    match ask {
        Ask::Read => PortError::Retryable(line),
        Ask::Change => PortError::OutcomeUnknown(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_means() {
        let fdo = |error: fdo::Error| zbus::Error::FDO(Box::new(error));
        let table = [
            (
                "denied",
                fdo(fdo::Error::AccessDenied("Permission denied".into())),
                "permanent",
            ),
            (
                "nobody to ask",
                fdo(fdo::Error::InteractiveAuthorizationRequired("x".into())),
                "permanent",
            ),
            ("no reply", fdo(fdo::Error::NoReply("x".into())), "unknown"),
            ("connection lost", zbus::Error::InvalidReply, "unknown"),
            ("other", fdo(fdo::Error::Failed("x".into())), "retryable"),
        ];
        for (name, error, expected) in table {
            let found = port_error("start etcd.service", Ask::Change, &error);
            let kind = match &found {
                PortError::Permanent(_) => "permanent",
                PortError::Retryable(_) => "retryable",
                PortError::OutcomeUnknown(_) => "unknown",
            };
            assert_eq!(kind, expected, "{name}: {found}");
            assert_eq!(found.to_string().lines().count(), 1, "{name}");
        }
        assert!(matches!(
            port_error("read", Ask::Read, &zbus::Error::InvalidReply),
            PortError::Retryable(_)
        ));
    }
}
