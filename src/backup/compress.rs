//! Compresses a stream into one zstd frame, in pieces of the store's part size.

use std::io;

use bytes::Bytes;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, get_error_name};

use super::part_buffer::PartBuffer;

/// Fast enough that etcd and the network are the bottleneck. Values that compress at all also compress at
/// this level.
const LEVEL: i32 = 1;

/// Compresses, and hands out pieces once they are full.
pub(super) struct Compressor {
    context: CCtx<'static>,
    buffer: PartBuffer,
}

impl Compressor {
    /// A new frame, with a checksum for `zstd --test`.
    pub(super) fn new() -> io::Result<Self> {
        let mut context = CCtx::try_create().ok_or_else(|| io::Error::other("no memory for zstd"))?;
        for parameter in [
            CParameter::CompressionLevel(LEVEL),
            CParameter::ChecksumFlag(true),
        ] {
            context.set_parameter(parameter).map_err(failed)?;
        }
        Ok(Self {
            context,
            buffer: PartBuffer::default(),
        })
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        let mut input = InBuffer::around(chunk);
        while input.pos() < chunk.len() {
            self.step(&mut input, ZSTD_EndDirective::ZSTD_e_continue)?;
        }
        Ok(())
    }

    /// Ends the frame; [`Self::take_full`] then returns the rest.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let mut nothing = InBuffer::around(&[]);
        while self.step(&mut nothing, ZSTD_EndDirective::ZSTD_e_end)? > 0 {}
        self.buffer.cut();
        Ok(())
    }

    /// The pieces that are complete.
    pub(super) fn take_full(&mut self) -> Vec<Bytes> {
        self.buffer.take_full()
    }

    /// Compressed bytes so far, in pieces that are complete.
    pub(super) fn total(&self) -> u64 {
        self.buffer.total()
    }

    fn step(&mut self, input: &mut InBuffer<'_>, end: ZSTD_EndDirective) -> io::Result<usize> {
        let context = &mut self.context;
        self.buffer.fill(|piece, filled| {
            let mut output = OutBuffer::around_pos(piece, filled);
            let left = context
                .compress_stream2(&mut output, input, end)
                .map_err(failed)?;
            Ok((output.pos(), left))
        })
    }
}

fn failed(code: usize) -> io::Error {
    io::Error::other(get_error_name(code))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::noise;
    use super::*;
    use crate::ports::PART_BYTES;

    fn squeeze(input: &[u8], cut: usize) -> Vec<Bytes> {
        let mut compressor = Compressor::new().unwrap();
        for chunk in input.chunks(cut) {
            compressor.push(chunk).unwrap();
        }
        compressor.finish().unwrap();
        let pieces = compressor.take_full();
        assert_eq!(
            compressor.total(),
            pieces.iter().map(|p| p.len() as u64).sum::<u64>()
        );
        pieces
    }

    #[test]
    fn all_of_it_comes_back() {
        for (size, cut) in [
            (0, 1),
            (1, 1),
            (100_000, 777),
            (9 << 20, 1 << 20),
            (17 << 20, 32 << 10),
        ] {
            let input = noise(size);
            let pieces = squeeze(&input, cut);
            for piece in pieces.iter().rev().skip(1) {
                assert_eq!(piece.len(), PART_BYTES);
            }
            let whole: Vec<u8> = pieces.concat();
            assert_eq!(
                zstd::stream::decode_all(whole.as_slice()).unwrap(),
                input,
                "{size}"
            );
        }
    }
}
