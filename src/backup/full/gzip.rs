//! Compresses a stream with gzip, in pieces of the store's part size: etcd-manager's form of a snapshot.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::backup::part_buffer::PartBuffer;

/// Compresses, and hands out pieces once they are full.
pub(super) struct GzipCompressor {
    encoder: GzEncoder<PartBuffer>,
}

impl GzipCompressor {
    pub(in crate::backup) fn new() -> Self {
        Self {
            encoder: GzEncoder::new(PartBuffer::default(), Compression::fast()),
        }
    }

    /// Takes the next bytes.
    pub(in crate::backup) fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.encoder.write_all(chunk)
    }

    /// Ends the stream; [`Self::take_full`] then returns the rest.
    pub(in crate::backup) fn finish(&mut self) -> io::Result<()> {
        self.encoder.try_finish()?;
        self.encoder.get_mut().cut();
        Ok(())
    }

    /// The pieces that are complete.
    pub(in crate::backup) fn take_full(&mut self) -> Vec<Bytes> {
        self.encoder.get_mut().take_full()
    }

    /// Compressed bytes so far, in pieces that are complete.
    pub(in crate::backup) fn total(&self) -> u64 {
        self.encoder.get_ref().total()
    }
}

impl Write for PartBuffer {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        self.fill(|piece, filled| {
            let room = &mut piece[filled..];
            let taken = chunk.len().min(room.len());
            room[..taken].copy_from_slice(&chunk[..taken]);
            Ok((filled + taken, taken))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::backup::testing::noise;
    use crate::ports::PART_BYTES;

    #[test]
    fn all_of_it_comes_back() {
        for size in [0_usize, 1, 100_000, 9 << 20] {
            let input = noise(size);
            let mut compressor = GzipCompressor::new();
            for chunk in input.chunks(40_000) {
                compressor.push(chunk).unwrap();
            }
            compressor.finish().unwrap();
            let pieces = compressor.take_full();
            for piece in pieces.iter().rev().skip(1) {
                assert_eq!(piece.len(), PART_BYTES);
            }
            let whole = pieces.concat();
            assert_eq!(compressor.total(), whole.len() as u64);
            let mut back = Vec::new();
            flate2::read::GzDecoder::new(whole.as_slice())
                .read_to_end(&mut back)
                .unwrap();
            assert!(back == input, "{size}");
        }
    }
}
