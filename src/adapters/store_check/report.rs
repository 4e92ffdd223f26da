//! The rights that the agent needs in its store, and what was found of each.

use serde::Serialize;

/// One operation that the agent needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// List the objects below the prefix.
    List,
    /// Write a small object.
    Write,
    /// Read an object.
    Read,
    /// Read an object from the middle on, as the agent does after a connection broke.
    ReadRange,
    /// Write an object only if there is none; needed if the store arbitrates an epoch.
    Create,
    /// Begin an upload in parts, send one, complete it.
    Upload,
    /// Abort an upload in parts.
    Abort,
    /// Delete an object.
    Delete,
}

impl Right {
    /// All rights, in the order in which they are tried.
    pub const ALL: [Self; 8] = [
        Self::List,
        Self::Write,
        Self::Read,
        Self::ReadRange,
        Self::Create,
        Self::Upload,
        Self::Abort,
        Self::Delete,
    ];

    /// The operation in words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::List => "list objects",
            Self::Write => "write an object",
            Self::Create => "write an object only if there is none",
            Self::Read => "read an object",
            Self::ReadRange => "read a part of an object",
            Self::Upload => "upload in parts",
            Self::Abort => "abort an upload in parts",
            Self::Delete => "delete an object",
        }
    }

    /// The action that an S3 policy has to allow.
    pub(super) const fn action(self) -> &'static str {
        match self {
            Self::List => "s3:ListBucket",
            Self::Write | Self::Create | Self::Upload => "s3:PutObject",
            Self::Read | Self::ReadRange => "s3:GetObject",
            Self::Abort => "s3:AbortMultipartUpload",
            Self::Delete => "s3:DeleteObject",
        }
    }
}

/// The result of trying one right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Found {
    /// It works.
    Ok,
    /// It does not work; one line each for why and for what to do.
    Failed {
        /// What the store answered.
        error: String,
        /// What to do, if the answer does not say it.
        advice: Option<String>,
    },
    /// It was not tried.
    Skipped {
        /// The reason.
        why: String,
    },
}

/// One right and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// The right.
    pub right: Right,
    /// Its result.
    #[serde(flatten)]
    pub found: Found,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreReport {
    /// The store, as shown to people.
    pub store: String,
    /// True if nothing that is needed failed.
    pub ok: bool,
    /// Every right, in the order in which they were tried.
    pub rights: Vec<Tried>,
    /// Objects that could not be removed again.
    pub left_behind: Vec<String>,
}
