//! Rings that are damaged or truncated before they are attached to are counted, and each once.

use perfring_abi::FIELDS;
use perfring_producer::{Options, Producer};
use perfring_sidecar::{Config, End, Sidecar, Signals};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Creates a ring with a record, and damages its header or length.
fn ring(path: &Path, spoil: impl FnOnce(&File)) {
    let options = Options { time: true, ..Options::default() };
    let mut producer = Producer::create(path, &options).unwrap();
    producer.publish(b"1").unwrap();
    drop(producer);
    spoil(&File::options().write(true).open(path).unwrap());
}

fn set(name: &str, value: &[u8]) -> impl FnOnce(&File) {
    let at = FIELDS.iter().find(|field| field.name == name).expect("a field of that name").offset;
    move |file| file.write_all_at(value, at as u64).unwrap()
}

fn truncated(file: &File) {
    file.set_len(file.metadata().unwrap().len() - 4096).unwrap();
}

#[test]
fn rings_that_are_damaged_before_they_are_attached_to_count_once_each() {
    let dir = tempfile::tempdir().unwrap();
    let rings = dir.path().join("rings");
    std::fs::create_dir(&rings).unwrap();
    ring(&rings.join("good"), |_| {});
    // A file that is unusable, but not a damaged ring.
    std::fs::write(rings.join("readme"), "not a ring".repeat(1000)).unwrap();
    ring(&rings.join("newer"), set("abi_compat", &99u32.to_ne_bytes()));
    ring(&rings.join("cut"), truncated);
    ring(&rings.join("header"), set("policy", &9u32.to_ne_bytes()));
    ring(&rings.join("positions"), set("data_head", &12u64.to_ne_bytes()));
    ring(&dir.path().join("single"), truncated);
    ring(&dir.path().join("second"), set("data_head", &12u64.to_ne_bytes()));
    let toml = format!(
        "[[input]]\ndir = {rings:?}\n[[input]]\nring = {:?}\n[[input]]\nring = {:?}\n\
         [[input]]\nring = {:?}\n[[output]]\ntype = \"null\"\n",
        dir.path().join("single"),
        dir.path().join("second"),
        rings.join("cut"), // a second time
    );
    let mut sidecar = Sidecar::start(Config::parse(&toml, "test").unwrap()).unwrap().once();
    let mut said = Vec::new();
    let ended = sidecar.run(&Signals::default(), &mut || Ok(Config::default()), &mut |message| {
        said.push(message.to_string());
    });
    // Not the file that is no ring.
    assert!(matches!(ended, End::Incomplete(6)), "{ended:?}: {said:#?}");
    assert_eq!(sidecar.engine().damaged(), 5, "{said:#?}");
}
