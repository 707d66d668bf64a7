//! A malicious process with write access to a ring's file: it rewrites positions, lengths,
//! payloads, sequence latches, locks, slots and the type table, truncates the file and extends it,
//! at full speed. Its actions follow from a seed.

use crate::choices::Choices;
use crate::image::{at, word};
use crate::rng::Rng;
use perfring_abi::RecordWord;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Number of changes before the ring is replaced by a valid one.
const STEPS: u64 = 60;

/// The malicious process for one ring's name.
#[derive(Debug)]
pub struct Spoiler {
    path: PathBuf,
    /// The bytes of a valid ring.
    image: Vec<u8>,
    file: File,
    data_offset: u64,
    data_size: u64,
    rng: Rng,
    /// Whether it leaves the file's length and identity alone.
    keeps_length: bool,
    left: u64,
    /// Steps done so far.
    pub steps: u64,
    /// Truncations among them.
    pub cuts: u64,
    /// Rings that took the name.
    pub rings: u64,
}

impl Spoiler {
    /// Makes a spoiler of the ring at `path`, which is valid.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(path: &Path, seed: u64) -> io::Result<Self> {
        let image = std::fs::read(path)?;
        let (data_offset, data_size) = (word(&image, "data_offset"), word(&image, "data_size"));
        let file = File::options().write(true).open(path)?;
        let (path, rng) = (path.to_owned(), Rng::new(seed));
        let (left, steps, cuts, rings) = (STEPS, 0, 0, 0);
        Ok(Spoiler {
            path,
            image,
            file,
            data_offset,
            data_size,
            rng,
            keeps_length: false,
            left,
            steps,
            cuts,
            rings,
        })
    }

    /// For readers without a SIGBUS handler: the file's length stays, and the ring is restored now
    /// and then instead of replaced.
    #[must_use]
    pub fn keeping_length(self) -> Self {
        Spoiler { keeps_length: true, ..self }
    }

    /// Makes one change.
    ///
    /// # Errors
    /// The system's error.
    pub fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        if self.left == 0 {
            return self.renew();
        }
        self.left -= 1;
        match self.rng.below(64) {
            0 | 1 if self.keeps_length => self.back(),
            0 => self.cut(),
            1 => self.grow(),
            2..=21 => self.position(),
            22..=25 => self.field(),
            26..=31 => self.behind(),
            32..=47 => self.header(),
            48..=55 => self.payload(),
            _ => self.back(),
        }
    }

    /// Replaces the ring by another ring with its own id. Processes with the old ring see it
    /// truncated.
    fn renew(&mut self) -> io::Result<()> {
        if self.keeps_length {
            (self.left, self.rings) = (self.rng.below(2 * STEPS), self.rings + 1);
            return self.file.write_all_at(&self.image, 0);
        }
        let mut image = self.image.clone();
        image[at("uuid")].copy_from_slice(&self.rng.bytes(16));
        let draft = self.path.with_extension("draft");
        std::fs::write(&draft, &image)?;
        std::fs::rename(&draft, &self.path)?;
        let old = std::mem::replace(&mut self.file, File::options().write(true).open(&self.path)?);
        old.set_len(self.rng.below(self.len()))?;
        // Some stay valid for longer, so that processes attach to them.
        (self.left, self.rings) = (self.rng.below(2 * STEPS), self.rings + 1);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.image.len() as u64
    }

    fn cut(&mut self) -> io::Result<()> {
        self.cuts += 1;
        let to = match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(self.len() / 4096) * 4096,
            _ => self.rng.below(self.len()),
        };
        self.file.set_len(to)?;
        // Extended again, with zeros. Most rings that are being read end this way when another
        // takes their name.
        self.file.set_len(self.len())?;
        // Except for the header: a process that attaches now must see more than that.
        let header = self.image[..4096].to_vec();
        self.put(0, &header)
    }

    fn grow(&mut self) -> io::Result<()> {
        let more = self.rng.below(1 << 20);
        self.file.set_len(self.len() + more)
    }

    fn number(&mut self) -> u64 {
        match self.rng.below(4) {
            0 | 1 => self.rng.number(0, self.data_size),
            2 => self.rng.below(4 * self.data_size),
            _ => self.rng.below(self.data_size / 8) * 8,
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    /// Changes a position, which readers poll all the time.
    fn position(&mut self) -> io::Result<()> {
        const WORDS: [&str; 9] = [
            "data_head",
            "data_tail",
            "producer_pos",
            "shared_lock",
            "wait_armed",
            "space_armed",
            "anchors_written",
            "aux_head",
            "aux_tail",
        ];
        let name = WORDS[self.rng.index(WORDS.len())];
        let (at, was) = (at(name).start, word(&self.image, name));
        // Mostly near to its old value, which passes the checks.
        let number = match self.rng.below(8) {
            0 => self.number(),
            1..=3 => was.wrapping_sub(8 * self.rng.below(32)),
            _ => was.wrapping_add(8 * self.rng.below(32)),
        };
        self.put(at as u64, &number.to_le_bytes())
    }

    /// Changes any word of the header page, sequence latches and the ring's shape among them.
    fn field(&mut self) -> io::Result<()> {
        // Seldom the identity and the sizes: a process that attaches then is refused, and tries
        // nothing else.
        let from = if self.rng.below(16) == 0 { 1024 } else { 1408 };
        let at = from + self.rng.below((4096 - from) / 8) * 8;
        let number = self.number();
        self.put(at, &number.to_le_bytes())
    }

    /// Changes slots, and the type table.
    fn behind(&mut self) -> io::Result<()> {
        let start = self.data_offset + self.data_size;
        let at = start + self.rng.below(self.len().saturating_sub(start) / 8) * 8;
        let number = self.number();
        self.put(at, &number.to_le_bytes())
    }

    /// Writes a record's header, valid or not.
    fn header(&mut self) -> io::Result<()> {
        let at = self.data_offset + self.rng.below(self.data_size / 8) * 8;
        let kinds = [2, 9, 4096, 7001, 0x5046_0001, 0x5046_0002];
        let kind = match self.rng.below(8) {
            0 => self.rng.any() as u32,
            n => kinds[n as usize % kinds.len()],
        };
        let size = match self.rng.below(4) {
            0 => self.rng.any() as u16,
            1 => 65_528,
            _ => (self.rng.below(64) * 8) as u16,
        };
        let misc = self.rng.any() as u16;
        self.put(at, &RecordWord::pack(kind, misc, size).raw().to_le_bytes())
    }

    fn payload(&mut self) -> io::Result<()> {
        let len = self.rng.below(4096);
        let at = self.data_offset + self.rng.below(self.data_size.saturating_sub(len));
        let byte = self.rng.any() as u8;
        self.put(at, &vec![byte; len as usize])
    }

    /// Restores a piece, so that readers get further before the next change.
    fn back(&mut self) -> io::Result<()> {
        let at = match self.rng.below(2) {
            0 => 0,
            _ => self.rng.below(self.len() / 4096) * 4096,
        };
        let to = (at + 4096).min(self.len());
        let bytes = self.image[at as usize..to as usize].to_vec();
        self.put(at, &bytes)
    }
}
