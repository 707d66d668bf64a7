//! A producer in C.

#[path = "../../examples/from_c.rs"]
mod example;

use std::path::Path;
use std::process::Command;

#[test]
fn records_of_a_c_program_are_read_by_the_names_of_their_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (program, ring) = (dir.path().join("typed_producer"), dir.path().join("orders"));
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-I"]).arg(&proto);
    cc.arg(proto.join("examples/typed_producer.c")).arg("-o").arg(&program);
    assert!(cc.status().unwrap().success());
    example::create(&ring).unwrap();
    assert!(Command::new(&program).arg(&ring).status().unwrap().success());
    let mut out = Vec::new();
    example::read(&ring, &mut out).unwrap();
    let expected = "demo.Order id=1 age=0.5 s side=buy venue=XETRA prices=[12.5 12.25]\n\
                    demo.Order id=2 age=0.25 s side=sell venue=Bourse prices=[99.0 98.5]\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
