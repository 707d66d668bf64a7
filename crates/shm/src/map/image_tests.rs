//! Rings inside larger files.

use crate::file::create::{RingOptions, create};
use crate::file::error::AttachError;
use crate::file::open::{FileAccess, RingFile};
use crate::file::remove::{Removal, remove};
use crate::map::observer_mapping::ObserverMapping;
use perfring_abi::BadRing;
use std::fs;

#[test]
fn a_ring_is_read_at_any_offset_and_neither_written_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (ring, image) = (dir.path().join("ring"), dir.path().join("image"));
    create(&ring, &RingOptions { size: 4096, ..RingOptions::default() }).unwrap();
    let bytes = fs::read(&ring).unwrap();
    let uuid = RingFile::inspect(&ring).unwrap().layout().uuid;
    for offset in [0, 4096, 12_288, 4096 + 8, 4096 + 1] {
        let image_bytes = [vec![0; offset], bytes.clone(), vec![7; 100]].concat();
        fs::write(&image, image_bytes).unwrap();
        let place = dir.path().join(format!("image@{offset:#x}"));
        let mapped = ObserverMapping::open(&place).unwrap();
        assert_eq!(mapped.file().layout().uuid, uuid);
        assert_eq!((mapped.head(), mapped.check_removed()), (0, false));
        assert!(!mapped.file().is_in_use().unwrap());
        assert!(mapped.snapshot().is_ok());
        let error = RingFile::open(place.clone().into(), FileAccess::Write).unwrap_err();
        assert!(error.to_string().contains("only be read"), "{error}");
        let error = remove(&place, Removal::IfFree).unwrap_err();
        assert!(error.to_string().contains("only be read"), "{error}");
        assert!(image.exists());
        // One byte short.
        let len = offset + bytes.len() - 1;
        fs::File::options().write(true).open(&image).unwrap().set_len(len as u64).unwrap();
        let error = RingFile::inspect(&place).unwrap_err();
        assert!(matches!(error, AttachError::Bad { source: BadRing::Truncated { .. }, .. }));
    }
    let inspect = |place: &str| RingFile::inspect(dir.path().join(place)).unwrap_err();
    let foreign = inspect("image@0x10");
    assert!(
        matches!(foreign, AttachError::Bad { source: BadRing::Foreign { .. }, .. }),
        "{foreign}"
    );
    let beyond = inspect("image@0x7fffff0000000000");
    assert!(matches!(beyond, AttachError::Bad { source: BadRing::Short { .. }, .. }), "{beyond}");
    let missing = inspect("other@0x0");
    assert!(matches!(missing, AttachError::NotFound { .. }), "{missing}");
    let no_file = inspect(".@0x0");
    assert!(matches!(no_file, AttachError::Io { .. }), "{no_file}");
}
