//! Decompression of untrusted data, with bounded memory and bounded output.

use std::fs::File;
use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use crate::backup::store::manifest::Compression;
use crate::backup::trailer::{TrailerCheck, TrailerError};

/// The largest window that is read: 8 MiB, as `zstd -19` uses.
const WINDOW_LOG: u32 = 23;
const OUT_BYTES: usize = 256 * 1024;

/// Takes the stored bytes and writes the snapshot to a file, hashing it on the way.
pub(in crate::backup) struct Unpacker {
    sink: Packed,
}

enum Packed {
    Zstd {
        decoder: Decoder<'static>,
        out: Vec<u8>,
        frame_done: bool,
        sink: Sink,
    },
    Gzip(MultiGzDecoder<Sink>),
}

struct Sink {
    file: File,
    check: TrailerCheck,
    limit: u64,
}

impl Write for Sink {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        self.check.push(chunk);
        if self.check.total() > self.limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than {} bytes come out of it", self.limit),
            ));
        }
        self.file.write_all(chunk)?;
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Unpacker {
    /// Writes into `file`, at most `limit` bytes.
    pub(in crate::backup) fn new(compression: Compression, file: File, limit: u64) -> io::Result<Self> {
        let sink = Sink {
            file,
            check: TrailerCheck::default(),
            limit,
        };
        let sink = match compression {
            Compression::Gzip => Packed::Gzip(MultiGzDecoder::new(sink)),
            Compression::Zstd => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
                Packed::Zstd {
                    decoder,
                    out: Vec::with_capacity(OUT_BYTES),
                    frame_done: true,
                    sink,
                }
            }
        };
        Ok(Self { sink })
    }

    /// Takes the next stored bytes.
    pub(in crate::backup) fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Packed::Gzip(decoder) => decoder.write_all(chunk),
            Packed::Zstd {
                decoder,
                out,
                frame_done,
                sink,
            } => {
                let mut input = InBuffer::around(chunk);
                loop {
                    out.clear();
                    let mut output = OutBuffer::around(out);
                    *frame_done = decoder.run(&mut input, &mut output)? == 0;
                    sink.write_all(out)?;
                    // A full output may mean that the decoder holds more.
                    if input.pos() == chunk.len() && out.len() < out.capacity() {
                        return Ok(());
                    }
                    if *frame_done && input.pos() == chunk.len() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Called at the end of the stored bytes. Returns the file, its size and its hash, if the trailer
    /// matches.
    pub(in crate::backup) fn finish(self) -> io::Result<Result<(File, u64, String), TrailerError>> {
        let sink = match self.sink {
            Packed::Gzip(decoder) => decoder.finish()?,
            Packed::Zstd { frame_done, sink, .. } => {
                if !frame_done {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                sink
            }
        };
        let size = sink.check.total();
        Ok(sink.check.finish().map(|sha256| (sink.file, size, sha256)))
    }
}
