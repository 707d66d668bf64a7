//! Ring files: one of the golden files, changed by the input, on a file system in memory.

use perfring_abi::{DATA_SIZE_MAX, FIELDS, HeaderPage, Layout, MAGIC, PageField};
use perfring_testkit::choices::{Choices, Input};
use perfring_testkit::image::word;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

macro_rules! golden {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../proto/golden/",
                $name,
                ".perfring"
            )) as &[u8],
        )
    };
}
/// The golden files. Inputs contain indices of this list: append only.
pub(crate) const GOLDEN: &[(&str, &[u8])] = &[
    golden!("drop_counters_only"),
    golden!("drop_few"),
    golden!("drop_foreign_reader"),
    golden!("drop_wrapped_with_losses"),
    golden!("empty"),
    golden!("killed_before_head"),
    golden!("killed_between_consumer_book_and_tail"),
    golden!("killed_between_mark_and_tail"),
    golden!("killed_in_book"),
    golden!("killed_in_payload"),
    golden!("killed_in_register"),
    golden!("killed_long_after_book"),
    golden!("overwrite_half"),
    golden!("overwrite_lapped_consumer"),
    golden!("overwrite_wrapped"),
    golden!("shared_drop"),
    golden!("shared_killed_before_head"),
    golden!("shared_killed_in_commit"),
    golden!("shared_killed_under_lock"),
    golden!("shared_killed_with_open"),
    golden!("shared_overwrite_lapped"),
    golden!("timed_drop"),
    golden!("timed_shared"),
    golden!("typed"),
    golden!("drop_max_record"),
    golden!("aux_drop"),
    golden!("aux_overwrite"),
    golden!("aux_shared"),
    golden!("named_drop"),
];

/// A file that is reused for each input.
pub(crate) struct RingFile {
    path: PathBuf,
    file: File,
    /// Bytes with content, and the file's length.
    filled: usize,
    len: u64,
    _dir: tempfile::TempDir,
}

thread_local! {
    static FILE: RefCell<RingFile> = RefCell::new(RingFile::new());
}

/// Lends the file, with these bytes and then holes up to `len`.
pub(crate) fn with(bytes: &[u8], len: u64, then: impl FnOnce(&RingFile)) {
    FILE.with_borrow_mut(|file| {
        file.fill(bytes, len);
        then(file);
    });
}

impl RingFile {
    fn new() -> Self {
        let shm = Path::new("/dev/shm");
        let dir = match std::env::var_os("TMPDIR") {
            None if shm.is_dir() => tempfile::tempdir_in(shm),
            _ => tempfile::tempdir(),
        };
        let dir = dir.expect("a directory");
        let path = dir.path().join("ring");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).expect("a file");
        RingFile { path, file, filled: 0, len: 0, _dir: dir }
    }

    fn fill(&mut self, bytes: &[u8], len: u64) {
        let len = len.max(bytes.len() as u64);
        // Holes must be holes again.
        if self.len != len || self.filled > bytes.len() || len > bytes.len() as u64 {
            self.file.set_len(0).expect("a shorter file");
            self.file.set_len(len).expect("a longer file");
        }
        self.file.write_all_at(bytes, 0).expect("room for a ring");
        (self.filled, self.len) = (bytes.len(), len);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.filled as u64
    }

    pub(crate) fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        let _ = self.file.read_at(&mut word, at);
        u64::from_le_bytes(word)
    }

    pub(crate) fn store(&self, at: u64, word: u64) {
        // Never beyond the end, nor in a hole far out.
        if at + 8 <= self.bytes() {
            self.file.write_all_at(&word.to_le_bytes(), at).expect("room for a word");
        }
    }
}

/// Returns an offset in a ring file that is worth changing: mostly live fields, less often the
/// zeros between.
pub(crate) fn place(input: &mut Input<'_>, bytes: &[u8]) -> u64 {
    let how = input.u8();
    let number = |name: &str| if bytes.len() < 4096 { 0 } else { word(bytes, name) };
    let (size, control) = (number("data_size"), number("control_offset"));
    match how % 5 {
        0 | 1 => {
            let PageField { offset, size, .. } = FIELDS[input.of(FIELDS.len())];
            let words = size.div_ceil(8).max(1);
            (offset & !7) as u64 + 8 * (usize::from(how / 5) % words) as u64
        }
        2 => {
            number("data_offset") + (number("data_tail") + 8 * u64::from(input.u8())) % size.max(1)
        }
        3 => number("data_offset") + 8 * u64::from(input.u16()) % size.max(1),
        _ => control.wrapping_add(8 * u64::from(input.u16() % 4096)) & !7,
    }
}

/// Returns the file for this input: a golden one, perhaps stretched, with words changed; or the
/// input's bytes. The second value is its length.
pub(crate) fn image(input: &mut Input<'_>) -> (Vec<u8>, u64) {
    let how = input.u8();
    if how == b'p' {
        let mut bytes = b"p".to_vec();
        bytes.extend_from_slice(input.rest());
        let len = bytes.len() as u64;
        return (bytes, len);
    }
    let mut bytes = GOLDEN[input.of(GOLDEN.len())].1.to_vec();
    let mut len = bytes.len() as u64;
    if how & 1 == 1 {
        len = stretch(&mut bytes, input);
    }
    for _ in 0..how >> 2 & 15 {
        let at = place(input, &bytes) as usize;
        if let Some(word) = bytes.get_mut(at..at + 8) {
            let old = u64::from_le_bytes((&*word).try_into().expect("8 bytes"));
            word.copy_from_slice(&input.number(old, 4096).to_le_bytes());
        }
    }
    if how & 2 == 2 {
        // Shorter or longer than its header says.
        len = input.number(len, 4096).min(1 << 41);
        bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    }
    (bytes, len)
}

/// Gives a file another consistent shape: other sizes and slots, with the data at the same position
/// and holes for new parts.
fn stretch(bytes: &mut Vec<u8>, input: &mut Input<'_>) -> u64 {
    let Ok(page) = HeaderPage::from_bytes(bytes) else { return bytes.len() as u64 };
    let Ok(mut layout) = Layout::check(&page, bytes.len() as u64) else {
        return bytes.len() as u64;
    };
    let old = layout;
    // Mostly sizes that can be filled.
    let shift = if input.u8().is_multiple_of(8) { input.u8() % 41 } else { 12 + input.u8() % 6 };
    layout.data_size = (1_u64 << shift).clamp(4096, DATA_SIZE_MAX);
    layout.page_size = input.one(&[4096, 4096, 4096, 16_384]);
    layout.data_size = layout.data_size.max(layout.page_size.into());
    if layout.producers == perfring_abi::Producers::Many {
        layout.slots = 1 + u32::from(input.u16() % 4096);
    }
    layout.types_size = u64::from(layout.page_size) * u64::from(input.u8() % 5);
    let mut fresh = layout.to_page();
    fresh.set_magic(MAGIC);
    let mut made = fresh.as_bytes().to_vec();
    // The live fields of the header stay, except for the identity.
    made[1408..].copy_from_slice(&bytes[1408..4096]);
    made[1024..1040].copy_from_slice(&bytes[1024..1040]);
    // Only the beginning has bytes; the rest is holes.
    const MOST: u64 = 1 << 20;
    let control = old.areas().control;
    let parts = [
        (old.areas().data.start, layout.areas().data.start, old.data_size),
        (control.start, layout.areas().control.start, control.end - control.start),
        (
            old.areas().types.start,
            layout.areas().types.start,
            old.types_size.min(layout.types_size),
        ),
    ];
    for (from, to, len) in parts {
        let (from, to, len) = (from as usize, to as usize, len as usize);
        if (to + len) as u64 <= MOST && len > 0 {
            made.resize(made.len().max(to + len), 0);
            made[to..to + len].copy_from_slice(&bytes[from..from + len]);
        }
    }
    *bytes = made;
    layout.file_size()
}
