//! Cuts what a compressor puts out into pieces of the store's part size.

use std::io;

use bytes::Bytes;
use memmap2::MmapMut;

use super::pieces::Pieces;

/// As large as a part of an upload, so that a full piece goes out without a copy. Four of them are in memory: one is
/// filled, one waits, two are on their way.
pub(super) const PIECE_BYTES: usize = 5 * 1024 * 1024;

/// Fills one piece after the other.
pub(super) struct Cutter {
    pieces: Pieces,
    piece: Option<MmapMut>,
    filled: usize,
    full: Vec<Bytes>,
    total: u64,
}

impl Cutter {
    pub(super) fn new() -> Self {
        Self {
            pieces: Pieces::new(PIECE_BYTES),
            piece: None,
            filled: 0,
            full: Vec::new(),
            total: 0,
        }
    }

    /// Hands out the piece that is being filled, and up to where it is; `work` answers up to where it is then, and what it
    /// has to say.
    pub(super) fn fill<T>(
        &mut self,
        work: impl FnOnce(&mut [u8], usize) -> io::Result<(usize, T)>,
    ) -> io::Result<T> {
        let piece = match &mut self.piece {
            Some(piece) => piece,
            none => none.insert(self.pieces.take()?),
        };
        let (filled, said) = work(&mut piece[..], self.filled)?;
        self.filled = filled;
        if self.filled == PIECE_BYTES {
            self.cut();
        }
        Ok(said)
    }

    /// Ends the piece that is being filled, however little is in it.
    pub(super) fn cut(&mut self) {
        let filled = std::mem::take(&mut self.filled);
        let Some(piece) = self.piece.take().filter(|_| filled > 0) else {
            return;
        };
        self.total += filled as u64;
        self.full.push(self.pieces.lend(piece, filled));
    }

    /// The pieces that are complete.
    pub(super) fn take_full(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.full)
    }

    /// Bytes in pieces that are complete.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}
