//! Compressed lines on their way to a file.

use perfring_events::{Compression, OutputError, delivery::compress::Packer};
use std::fs::File;
use std::io::{self, ErrorKind, Write};

/// Compresses lines, and holds what is not in the file yet.
#[derive(Debug)]
pub(super) struct Packed {
    /// `None` once the file is ended.
    packer: Option<Packer>,
    /// Bytes for the file, of which the first `done` are in it.
    held: Vec<u8>,
    done: usize,
    /// Bytes of lines that these are.
    lines: usize,
}

impl Packed {
    pub(super) fn new(output: &str, how: Compression) -> Result<Option<Self>, OutputError> {
        let packer = Packer::new(output, how)?;
        Ok(packer.map(|packer| Packed {
            packer: Some(packer),
            held: Vec::new(),
            done: 0,
            lines: 0,
        }))
    }

    /// Writes what is held. Returns how many bytes of it, and whether that is all.
    pub(super) fn write(&mut self, file: &mut File) -> (u64, io::Result<()>) {
        let before = self.done;
        let written = loop {
            match self.held.get(self.done..).filter(|rest| !rest.is_empty()) {
                None => break Ok(()),
                Some(rest) => match file.write(rest) {
                    Ok(0) => break Err(ErrorKind::WriteZero.into()),
                    Ok(more) => self.done += more,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => break Err(error),
                },
            }
        };
        let bytes = (self.done - before) as u64;
        if written.is_ok() {
            self.held.clear();
            self.done = 0;
        }
        (bytes, written)
    }

    /// Returns how many bytes are held.
    pub(super) fn waiting(&self) -> u64 {
        (self.held.len() - self.done) as u64
    }

    /// Returns how many bytes of lines were put, once all that was held is written.
    pub(super) fn written(&mut self) -> usize {
        std::mem::take(&mut self.lines)
    }

    pub(super) fn put(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Some(packer) = &mut self.packer {
            packer.put(lines, &mut self.held)?;
            packer.flush(&mut self.held)?;
            self.lines += lines.len();
        }
        Ok(())
    }

    /// Ends the file.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.packer.take() {
            Some(packer) => packer.finish(&mut self.held),
            None => Ok(()),
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.packer.is_none()
    }

    /// Begins the next file.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.packer = Packer::new("", Compression::Zstd).map_err(io::Error::other)?;
        Ok(())
    }
}
