//! Compression of what is written to files.

use super::output::OutputError;
use serde::Deserialize;
use std::io;

/// How files are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// With zstd, in builds with the feature of that name.
    Zstd,
}

/// Compresses one file: what was flushed can be decompressed, wherever the file ends after it.
pub struct Packer {
    #[cfg(feature = "zstd")]
    encoder: zstd::stream::write::Encoder<'static, Vec<u8>>,
    #[cfg(not(feature = "zstd"))]
    never: std::convert::Infallible,
}

/// Compresses blocks that can each be decompressed alone.
pub struct BlockPacker {
    #[cfg(feature = "zstd")]
    compressor: zstd::bulk::Compressor<'static>,
    #[cfg(not(feature = "zstd"))]
    never: std::convert::Infallible,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

#[cfg(feature = "zstd")]
fn failed(output: &str, error: &io::Error) -> OutputError {
    OutputError::new(output, format!("cannot compress: {error}"))
}

#[cfg(not(feature = "zstd"))]
fn missing(output: &str) -> OutputError {
    OutputError::new(output, "this build has no zstd: `cargo install perfring-cli --features full`")
}

#[cfg(feature = "zstd")]
impl Packer {
    /// Begins a file; `None` if it is not compressed.
    pub fn new(output: &str, how: Compression) -> Result<Option<Self>, OutputError> {
        if how == Compression::None {
            return Ok(None);
        }
        let encoder = zstd::stream::write::Encoder::new(Vec::new(), 0);
        let encoder = encoder.map_err(|error| failed(output, &error))?;
        Ok(Some(Packer { encoder }))
    }

    /// Takes bytes, and appends what is compressed of them so far.
    pub fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        io::Write::write_all(&mut self.encoder, bytes)?;
        out.append(self.encoder.get_mut());
        Ok(())
    }

    /// Appends all that it took and did not append yet.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        io::Write::flush(&mut self.encoder)?;
        out.append(self.encoder.get_mut());
        Ok(())
    }

    /// Appends the end of the file.
    pub fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut self.encoder.finish()?);
        Ok(())
    }
}

#[cfg(not(feature = "zstd"))]
impl Packer {
    pub fn new(output: &str, how: Compression) -> Result<Option<Self>, OutputError> {
        if how == Compression::None { Ok(None) } else { Err(missing(output)) }
    }

    pub fn put(&mut self, _: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
        match self.never {}
    }

    pub fn flush(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        match self.never {}
    }

    pub fn finish(self, _: &mut Vec<u8>) -> io::Result<()> {
        match self.never {}
    }
}

#[cfg(feature = "zstd")]
impl BlockPacker {
    /// Returns one; `None` if blocks are not compressed.
    pub fn new(output: &str, how: Compression) -> Result<Option<Self>, OutputError> {
        if how == Compression::None {
            return Ok(None);
        }
        let compressor = zstd::bulk::Compressor::new(0).map_err(|error| failed(output, &error))?;
        Ok(Some(BlockPacker { compressor }))
    }

    /// Replaces `out` by the compressed block.
    pub fn pack(&mut self, block: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        out.reserve(zstd::zstd_safe::compress_bound(block.len()));
        self.compressor.compress_to_buffer(block, out).map(|_| ())
    }
}

#[cfg(not(feature = "zstd"))]
impl BlockPacker {
    pub fn new(output: &str, how: Compression) -> Result<Option<Self>, OutputError> {
        if how == Compression::None { Ok(None) } else { Err(missing(output)) }
    }

    pub fn pack(&mut self, _: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
        match self.never {}
    }
}

/// Decompresses blocks.
#[derive(Default)]
pub struct Unpacker {
    #[cfg(feature = "zstd")]
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

impl Unpacker {
    /// Replaces `out` by the decompressed block, which has this many bytes: whatever it claims to be,
    /// it gets no more memory. Returns whether it is such a block; `None` if this build cannot say.
    #[cfg(feature = "zstd")]
    pub fn unpack(&mut self, packed: &[u8], len: usize, out: &mut Vec<u8>) -> Option<bool> {
        if self.decompressor.is_none() {
            self.decompressor = zstd::bulk::Decompressor::new().ok();
        }
        let decompressor = self.decompressor.as_mut()?;
        out.clear();
        out.reserve_exact(len);
        // It writes no more than there is room for.
        let found = decompressor.decompress_to_buffer(packed, out);
        Some(found.is_ok_and(|found| found == len))
    }

    #[cfg(not(feature = "zstd"))]
    pub fn unpack(&mut self, _: &[u8], _: usize, _: &mut Vec<u8>) -> Option<bool> {
        None
    }
}
