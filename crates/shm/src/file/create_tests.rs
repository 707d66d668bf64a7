//! Making a ring where the system does not go along.

use super::{CreateError, Draft, Location, RingOptions, draw_id, name_anew, rename_to_free_name};
use crate::file::draft_name::dead_drafts;
use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io};

fn unsupported(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[test]
fn a_name_is_never_taken_from_another_file_where_there_are_no_hard_links() {
    let dir = tempfile::tempdir().unwrap();
    let (draft, path) = (dir.path().join("draft"), dir.path().join("ring"));
    fs::write(&draft, "mine").unwrap();
    fs::write(&path, "another's").unwrap();
    let refused = name_anew(&draft, &path, unsupported, rename_to_free_name).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "another's");

    fs::remove_file(&path).unwrap();
    name_anew(&draft, &path, unsupported, rename_to_free_name).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert!(!draft.exists());
}

#[test]
fn a_file_system_with_neither_method_is_an_error_with_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let (draft, path) = (dir.path().join("draft"), dir.path().join("ring"));
    fs::write(&draft, "mine").unwrap();
    let invalid = |_: &Path, _: &Path| Err(io::Error::from_raw_os_error(22));
    for refused in [
        name_anew(&draft, &path, unsupported, unsupported).unwrap_err(),
        name_anew(&draft, &path, unsupported, invalid).unwrap_err(),
    ] {
        assert!(refused.to_string().starts_with("this file system has neither"), "{refused}");
    }
    assert!(!path.exists(), "nothing was made");
}

#[test]
fn no_random_bytes_are_an_error_with_a_message() {
    let refused = draw_id(|_| Err(getrandom::Error::UNEXPECTED)).unwrap_err().to_string();
    assert!(refused.contains("allow getrandom(2), or have a /dev/urandom ("), "{refused}");
    let ids: [_; 2] = std::array::from_fn(|_| draw_id(getrandom::fill).unwrap());
    assert_ne!(ids[0], ids[1]);
    // Version 4, of random bytes.
    assert_eq!((ids[0][6] >> 4, ids[0][8] >> 6), (4, 2));
}

#[test]
fn a_ring_in_the_making_has_no_name_and_a_death_leaves_nothing() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("ring");
    let location = Location::from(&path);
    let options = RingOptions { mode: 0o640, ..RingOptions::default() };
    let layout = options.layout().unwrap();
    let draft = Draft::unnamed(&location, &path).unwrap();
    draft.allocate(layout.file_size()).unwrap();
    draft.write(&layout, None).unwrap();
    let names = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(names().count(), 0, "and it ends with its last descriptor");
    draft.name(&path, options.mode).unwrap();
    assert!(names().eq([path.clone()]));
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o640);
    // Another one does not replace it.
    let draft = Draft::unnamed(&location, &path).unwrap();
    assert!(matches!(draft.name(&path, 0o600), Err(CreateError::Exists { .. })));
    // A draft with a name, for file systems without nameless files, does not either; and it leaves nothing.
    let draft = Draft::new(&location, &path, &layout).unwrap();
    assert_eq!(names().count(), 2);
    assert!(matches!(draft.name(&path, 0o600), Err(CreateError::Exists { .. })));
    assert_eq!(names().count(), 1);
}

#[test]
fn a_creation_with_a_temporary_name_removes_the_drafts_of_dead_processes() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("ring");
    let location = Location::from(&path);
    let layout = || RingOptions::default().layout().unwrap();
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let age = |draft: &Draft<'_>| draft.file.set_modified(hour_ago).unwrap();
    // Of a process that was killed: no lock, and its name.
    let killed = Draft::new(&location, &path, &layout()).unwrap();
    age(&killed);
    let killed = std::mem::ManuallyDrop::new(killed);
    killed.file.unlock().unwrap();
    // In the making, by a clock that was set since then; just made, and not yet locked; another program's.
    let slow = Draft::new(&location, &path, &layout()).unwrap();
    assert!(!killed.path.exists());
    age(&slow);
    let young = Draft::new(&location, &path, &layout()).unwrap();
    young.file.unlock().unwrap();
    let foreign = dir.path().join(".perfringed.tmp");
    fs::File::create(&foreign).unwrap().set_modified(hour_ago).unwrap();
    assert_eq!(dead_drafts(dir.path()).unwrap(), [] as [&Path; 0]);
    drop(Draft::new(&location, &path, &layout()).unwrap());
    assert!(slow.path.exists() && young.path.exists() && foreign.exists());
    // It can still become a ring.
    slow.allocate(layout().file_size()).unwrap();
    slow.name(&path, 0o600).unwrap();
    assert!(path.exists());
}
