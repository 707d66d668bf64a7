//! Rings inside larger files.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use crate::file::appear::when_there;
use crate::file::create::{RingOptions, create};
use crate::file::error::AttachError;
use crate::file::location::Location;
use crate::file::open::{FileAccess, RingFile};
use crate::file::open_or_create::create_if_missing;
use crate::file::remove::{Removal, remove};
use crate::file::trust::{Promise, Trust};
use crate::map::observer_mapping::ObserverMapping;
use crate::map::write_window::WriteWindow;
use crate::sys::ofd_lock::{ByteLock, LockFile};
use perfring_abi::{BadRing, DATA_SIZE_MAX, FIELDS, Layout, MAGIC, RecordType};
use perfring_ring::{End, Next, ReadError, Wake};
use rustix::process::geteuid;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const RECORDS: [&[u8]; 2] = [b"first of these", b"second of these"];

/// Returns the bytes of a ring with these records.
fn ring(dir: &Path) -> Vec<u8> {
    let path = dir.join("ring");
    create(&path, &RingOptions { size: 4096, ..RingOptions::default() }).unwrap();
    let mut writer = WriteWindow::attach(&path, Trust::Auto).unwrap();
    for record in RECORDS {
        writer.put(RecordType::BYTES, record, End::Publish(Wake::Auto), |_| 0).unwrap();
    }
    drop(writer);
    fs::read(path).unwrap()
}

/// Writes an image with a ring at an offset, and returns the ring's place in it.
fn image(dir: &Path, ring: &[u8], offset: usize) -> PathBuf {
    fs::write(dir.join("image"), [&vec![0; offset], ring, &[7; 100]].concat()).unwrap();
    dir.join(format!("image@{offset:#x}"))
}

fn set_len(image: &Path, len: u64) {
    File::options().write(true).open(image).unwrap().set_len(len).unwrap();
}

/// Returns the payloads that a snapshot has.
fn records(observer: &ObserverMapping) -> Vec<Vec<u8>> {
    let (snapshot, mut all) = (observer.snapshot().unwrap(), Vec::new());
    let mut cursor = snapshot.start();
    while let Some((next, after)) = snapshot.step(cursor).unwrap() {
        let Next::Record((_, words)) = next else { panic!("lost") };
        all.push(words.iter().flat_map(|word| word.to_ne_bytes()).collect());
        cursor = after;
    }
    all
}

/// The mapped offsets, and those at which a ring is copied.
const OFFSETS: [usize; 5] = [0, 4096, 12_288, 4096 + 8, 4096 + 1];

#[test]
fn a_ring_is_read_at_any_offset_and_neither_written_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = ring(dir.path());
    let uuid = RingFile::inspect(dir.path().join("ring")).unwrap().layout().uuid;
    for offset in OFFSETS {
        let place = image(dir.path(), &bytes, offset);
        let mapped = ObserverMapping::open(&place).unwrap();
        assert_eq!(mapped.file().layout().uuid, uuid);
        assert!(!mapped.check_removed());
        let found = records(&mapped);
        for (found, record) in found.iter().zip(RECORDS) {
            assert!(found.starts_with(record), "{offset:#x}: {found:?}");
        }
        assert_eq!((found.len(), mapped.head()), (2, mapped.totals().unwrap().head));
        let only_read = |error: AttachError| {
            assert!(error.to_string().contains("only be read"), "{offset:#x}: {error}");
        };
        only_read(RingFile::open(place.clone().into(), FileAccess::Write).unwrap_err());
        only_read(remove(&place, Removal::IfFree).unwrap_err());
        only_read(remove(&place, Removal::Always).unwrap_err());
        // One byte short.
        set_len(&dir.path().join("image"), (offset + bytes.len() - 1) as u64);
        let error = RingFile::inspect(&place).unwrap_err();
        assert!(matches!(error, AttachError::Bad { source: BadRing::Truncated { .. }, .. }));
    }
}

#[test]
fn who_owns_a_ring_and_which_file_has_it_is_said_of_the_larger_file() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = ring(dir.path());
    for offset in OFFSETS {
        let place = image(dir.path(), &bytes, offset);
        let image = dir.path().join("image");
        fs::set_permissions(&image, Permissions::from_mode(0o600)).unwrap();
        let mapped = ObserverMapping::open(&place).unwrap();
        let (meta, identity) = (image.metadata().unwrap(), mapped.file().identity().unwrap());
        assert_eq!((identity.dev, identity.ino), (meta.dev(), meta.ino()), "{offset:#x}");
        assert_eq!(mapped.file().owner().unwrap(), (geteuid().as_raw(), 0o600), "{offset:#x}");
        assert!(
            !Trust::Auto.guards(mapped.file()).unwrap(),
            "{offset:#x}: no other user writes it"
        );
        assert_eq!(Location::from(&place).holder(), image);
    }
}

#[test]
fn locks_on_the_larger_file_say_nothing_of_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = ring(dir.path());
    for offset in OFFSETS {
        let place = image(dir.path(), &bytes, offset);
        let mapped = ObserverMapping::open(&place).unwrap();
        let image = File::options().read(true).write(true).open(dir.path().join("image")).unwrap();
        let _all = ByteLock::take_all(&Arc::new(LockFile::new(image))).unwrap().unwrap();
        assert!(!mapped.file().is_in_use().unwrap(), "{offset:#x}");
    }
}

#[test]
fn a_larger_file_that_is_cut_off_is_an_error_and_a_copy_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = ring(dir.path());
    for offset in OFFSETS {
        let place = image(dir.path(), &bytes, offset);
        let mapped = ObserverMapping::open_with(&place, Trust::Nobody).unwrap();
        set_len(&dir.path().join("image"), (offset + bytes.len() - 1) as u64);
        mapped.check_removed();
        match offset % 4096 {
            0 => assert_eq!(mapped.snapshot().err(), Some(ReadError::Truncated), "{offset:#x}"),
            _ => assert_eq!(records(&mapped).len(), 2, "{offset:#x}"),
        }
    }
}

#[test]
fn a_header_in_a_sparse_file_costs_no_memory_and_a_huge_ring_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    create(&path, &RingOptions { size: 4096, ..RingOptions::default() }).unwrap();
    let small = RingFile::inspect(&path).unwrap();
    let layout = Layout { data_size: DATA_SIZE_MAX, ..*small.layout() };
    let mut header = layout.to_page().as_bytes().to_vec();
    let magic = FIELDS.iter().find(|field| field.name == "magic").unwrap().offset;
    header[magic..magic + 8].copy_from_slice(&MAGIC.to_ne_bytes());
    let place = image(dir.path(), &header, 8);
    set_len(&dir.path().join("image"), 8 + layout.file_size());
    let found = RingFile::inspect(&place).unwrap();
    assert_eq!(found.layout().data_size, DATA_SIZE_MAX, "it is not mapped, and so not copied");
    // SAFETY: no record is read.
    let peers = Trust::Peers(unsafe { Promise::all_writers_keep_to_the_protocol() });
    for trust in [Trust::Auto, Trust::Nobody, peers] {
        let error = ObserverMapping::open_with(&place, trust).unwrap_err().to_string();
        assert!(error.contains("copy the ring to another file (`tail -c +9 FILE"), "{error}");
    }
}

/// The first page of a process's memory is there for nobody.
#[test]
fn a_larger_file_that_cannot_be_read_is_the_error_and_nothing_is_created() {
    let place = Path::new("/proc/self/mem@0x0");
    let reads = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        assert!(error.contains("/proc/self/mem: reading it: Input/output error"), "{error}");
    };
    for access in [FileAccess::Read, FileAccess::Write] {
        reads(&RingFile::open(place.into(), access).unwrap_err());
    }
    let options = RingOptions { size: 4096, ..RingOptions::default() };
    reads(&create_if_missing(place, &options).unwrap_err());
}

#[test]
fn a_name_without_a_ring_behind_it_is_free_and_a_name_that_is_taken_is_no_offset() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = ring(dir.path());
    let at = |name: &str| dir.path().join(name);
    image(dir.path(), &bytes, 4096);
    fs::write(at("empty"), "").unwrap();
    fs::create_dir(at("dir")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let free =
        ["image@0x10", "image@0x7fffff0000000000", "other@0x0", "empty@0x0", "dir@0x0", "fifo@0x0"];
    let options = RingOptions { size: 4096, ..RingOptions::default() };
    for name in free {
        for access in [FileAccess::Read, FileAccess::Write] {
            let error = RingFile::open(at(name).into(), access).unwrap_err();
            let (file, _) = name.split_once('@').unwrap();
            let is_file = fs::metadata(at(file)).is_ok_and(|meta| meta.is_file());
            let said = match is_file {
                true => format!(": no ring begins at that offset of {}", at(file).display()),
                false => String::new(),
            };
            assert!(matches!(error, AttachError::NotFound { .. }), "{name}: {error}");
            assert!(
                error.to_string().ends_with(&format!("{name} does not exist{said}")),
                "{error}"
            );
        }
        create_if_missing(at(name), &options).unwrap();
        // The observer that waits for it is not told of the other file.
        fs::remove_file(at(name)).unwrap();
        let mut tries = 0;
        let waited = when_there(at(name), Duration::MAX, |location| {
            tries += 1;
            if tries == 2 {
                create(location, &options).unwrap();
            }
            RingFile::inspect(location)
        });
        assert_eq!((waited.unwrap().offset(), tries), (0, 2), "{name}");
        assert_eq!(Location::from(at(name)).holder(), at(name));
    }
    // A name that is there, and cannot be opened, is not one of a place in another file.
    let place = at("image@0x1000");
    assert_eq!(RingFile::inspect(&place).unwrap().offset(), 4096);
    symlink(at("ring"), &place).unwrap();
    let not_followed = RingFile::inspect(&place).unwrap_err();
    assert!(not_followed.to_string().contains("is not followed here"), "{not_followed}");
    fs::remove_file(&place).unwrap();
    symlink(at("nothing"), &place).unwrap();
    let missing = RingFile::open(place.clone().into(), FileAccess::Read).unwrap_err();
    assert!(matches!(missing, AttachError::NotFound { leads_to: Some(_), .. }), "{missing}");
    assert_eq!(Location::from(&place).holder(), place);
    // A link to the larger file is followed where a link to a ring is.
    symlink(at("image"), at("link")).unwrap();
    assert_eq!(RingFile::open(at("link@0x1000").into(), FileAccess::Read).unwrap().offset(), 4096);
    let not_followed = RingFile::inspect(at("link@0x1000")).unwrap_err();
    assert!(not_followed.to_string().contains("is not followed here"), "{not_followed}");
}
