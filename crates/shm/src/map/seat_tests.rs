//! What a handle knows of the seats of its ring.

use crate::file::create::{RingOptions, create};
use crate::file::open::{RingFile, Seat};
use crate::map::consumer_mapping::{ConsumerMapping, Lines};
use crate::map::shared_window::SharedWindow;
use crate::map::write_window::WriteWindow;
use crate::{Idle, Trust};

#[test]
fn a_handle_knows_that_it_holds_its_own_seat() {
    let dir = tempfile::tempdir().unwrap();
    let [one, many] = ["one", "many"].map(|name| dir.path().join(name));
    create(&one, &RingOptions::default()).unwrap();
    create(&many, &RingOptions::many()).unwrap();
    let held = |file: &RingFile, seat| file.is_held(seat).unwrap();
    let (producer, consumer) = (Seat::Producer(0), Seat::Consumer);

    let writer = WriteWindow::attach(&one).unwrap();
    let (file, other) = (writer.file().clone(), RingFile::inspect(&one).unwrap());
    assert!(held(&file, producer) && held(&other, producer));
    assert!(!held(&file, consumer) && !held(&other, consumer));
    assert!(file.is_in_use().unwrap());
    let (reader, _) = ConsumerMapping::attach(&one, "", Lines::Leave, Trust::Auto).unwrap();
    assert!(held(reader.file(), consumer) && held(reader.file(), producer));
    drop((writer, reader));
    assert!(!held(&file, producer) && !held(&other, consumer) && !file.is_in_use().unwrap());

    let shared = [0, 1].map(|_| SharedWindow::attach(&many, "").unwrap());
    assert!((0..3).all(|slot| held(shared[0].file(), Seat::Producer(slot)) == (slot < 2)));
    drop(shared);
    let idle = Idle::hold(&many).unwrap();
    assert!(held(idle.file(), consumer) && held(idle.file(), Seat::Producer(5)));
}
