//! Programs under valgrind: it has no restartable sequences and no vDSO, and all else works.

use crate::command::skipped;
use crate::command::*;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn rings_are_made_written_and_read_under_valgrind() {
    let place = Place::new();
    let ring = place.path("ring").to_str().unwrap().to_owned();
    let under = |args: &[&str]| {
        let mut command = Command::new("valgrind");
        command.args(["-q", "--tool=none", env!("CARGO_BIN_EXE_perfring")]).args(args);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        // Those that read no stdin have closed it.
        let _ = child.stdin.take().unwrap().write_all(b"a line\n");
        Done(child.wait_with_output().unwrap())
    };
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        return skipped(&format!("there is no valgrind: {error}"));
    }
    for (args, says) in [
        (&["create", &ring, "--time"][..], ""),
        (&["publish", &ring], ""),
        (&["dump", &ring], "a line"),
        (&["stat", &ring], "written"),
    ] {
        let done = under(args);
        assert_eq!(done.code(), 0, "{args:?}: {}", done.err());
        assert!(done.out().contains(says), "{args:?}: {}", done.out());
    }
}
