//! Checks the end of a snapshot stream: etcd appends the SHA-256 of the bbolt file to it.
//!
//! Source: `snapshot` in etcd's `server/etcdserver/api/v3rpc/maintenance.go`; `etcdutl snapshot status`
//! detects a trailer by a size that is 32 above a multiple of 512.

use sha2::{Digest, Sha256};

use crate::model::hex;

const TRAILER: usize = 32;

/// Hashes a stream except its last 32 bytes, however it is cut into chunks.
#[derive(Debug, Clone, Default)]
pub(super) struct TrailerCheck {
    hash: Sha256,
    tail: Vec<u8>,
    total: u64,
}

/// Why a stream is not a whole snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TrailerError {
    /// Cut off, or without a hash.
    #[error(
        "it is cut off, or has no hash at its end: {0} bytes are not a whole bbolt file and 32 bytes of SHA-256"
    )]
    Size(u64),
    /// Damaged.
    #[error("its hash does not match: the hash at its end is {said}, its content has {found}")]
    Hash {
        /// The trailer.
        said: String,
        /// What was computed.
        found: String,
    },
}

impl TrailerCheck {
    /// Takes the next bytes.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        if chunk.len() >= TRAILER {
            let (body, tail) = chunk.split_at(chunk.len() - TRAILER);
            self.hash.update(&self.tail);
            self.hash.update(body);
            self.tail.clear();
            self.tail.extend_from_slice(tail);
            return;
        }
        self.tail.extend_from_slice(chunk);
        if let Some(over) = self.tail.len().checked_sub(TRAILER) {
            self.hash.update(&self.tail[..over]);
            self.tail.drain(..over);
        }
    }

    /// Bytes taken so far, the trailer included.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Ends the stream; returns the hash in hexadecimal if it matches the trailer.
    pub(super) fn finish(self) -> Result<String, TrailerError> {
        if self.total <= TRAILER as u64 || self.total % 512 != TRAILER as u64 {
            return Err(TrailerError::Size(self.total));
        }
        let (said, found) = (hex(&self.tail), hex(&self.hash.finalize()));
        if said != found {
            return Err(TrailerError::Hash { said, found });
        }
        Ok(found)
    }
}

/// A snapshot as etcd streams it: `pages` of 512 bytes and the hash.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn snapshot(pages: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut body: Vec<u8> = (0..pages * 512)
        .map(|at| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Half of it compresses.
            if at % 1024 < 512 {
                state.to_le_bytes()[0]
            } else {
                7
            }
        })
        .collect();
    let hash = Sha256::digest(&body);
    body.extend_from_slice(&hash);
    body
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(bytes: &[u8]) -> Result<String, TrailerError> {
        let mut check = TrailerCheck::default();
        check.push(bytes);
        check.finish()
    }

    #[test]
    fn only_a_whole_snapshot_passes() {
        let good = snapshot(4);
        assert!(check(&good).is_ok());
        assert_eq!(
            check(&good[..good.len() - 32]),
            Err(TrailerError::Size(2048)),
            "no hash"
        );
        assert_eq!(check(&good[..good.len() - 1]), Err(TrailerError::Size(2079)));
        assert_eq!(check(&[]), Err(TrailerError::Size(0)));
        assert_eq!(check(&good[2048..]), Err(TrailerError::Size(32)), "only a hash");
        // Cut off at a page, so that the size looks right.
        assert!(matches!(
            check(&good[..512 * 3 + 32]),
            Err(TrailerError::Hash { .. })
        ));
        for at in [0, 700, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(matches!(check(&bad), Err(TrailerError::Hash { .. })), "{at}");
        }
    }

    proptest! {
        #[test]
        fn it_is_all_one_how_the_stream_is_cut(pages in 1_usize..6, cuts in proptest::collection::vec(0_usize..80, 0..200)) {
            let good = snapshot(pages);
            let (mut check, mut rest) = (TrailerCheck::default(), good.as_slice());
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                check.push(head);
                rest = tail;
            }
            check.push(rest);
            prop_assert_eq!(check.total(), good.len() as u64);
            prop_assert!(check.finish().is_ok());
        }
    }
}
