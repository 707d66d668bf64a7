//! `perfring top` on a terminal, which `script` from util-linux provides.
#![cfg(feature = "top")]

use crate::endings::End;
use perfring_producer::{Options, Producer};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A terminal of 80 columns with `perfring top` in it.
fn on_a_terminal(dir: &Path) -> Child {
    let command = format!(
        "stty cols 80 rows 24; exec {} top {}",
        env!("CARGO_BIN_EXE_perfring"),
        dir.display()
    );
    // Missing output fails the test, and does not block it.
    Command::new("timeout")
        .args(["300", "script", "-qefc", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script, of util-linux, which is part of every Debian")
}

/// Reads until the terminal has shown the text.
fn until(child: &mut Child, seen: &mut Vec<u8>, text: &str) {
    let out = child.stdout.as_mut().expect("its stdout");
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(seen).contains(text) {
        let len = out.read(&mut piece).expect("a terminal");
        assert_ne!(len, 0, "no {text:?} in {}", String::from_utf8_lossy(seen));
        seen.extend(&piece[..len]);
    }
}

/// Returns what was shown, without spaces, some of which are moves of the cursor.
fn letters(seen: &[u8]) -> String {
    let mut shown = String::new();
    let mut parts = String::from_utf8_lossy(seen).into_owned();
    parts.retain(|c| c != ' ');
    for part in parts.split("\u{1b}[") {
        // A sequence ends with its first letter.
        shown += part.split_once(|c: char| c.is_ascii_alphabetic()).map_or(part, |(_, text)| text);
    }
    shown
}

fn press(child: &mut Child, keys: &[u8]) {
    let stdin = child.stdin.as_mut().expect("its stdin");
    stdin.write_all(keys).and_then(|()| stdin.flush()).expect("a terminal");
}

#[test]
fn it_shows_rings_takes_keys_and_restores_the_terminal() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut producer =
        Producer::create(dir.path().join("orders"), &Options::default()).expect("a ring");
    producer.publish(b"x").expect("room");
    let mut child = on_a_terminal(dir.path());
    let mut seen = Vec::new();
    until(&mut child, &mut seen, "\u{1b}[?1049h"); // another screen
    until(&mut child, &mut seen, "orders");
    press(&mut child, b"?");
    until(&mut child, &mut seen, "keys");
    press(&mut child, b"?\r");
    until(&mut child, &mut seen, "uuid");
    // A new ring is shown without a key, on an empty row: only changes are drawn.
    let _later = Producer::create(dir.path().join("zz-new"), &Options::default()).expect("a ring");
    until(&mut child, &mut seen, "zz-new");
    press(&mut child, b"q");
    until(&mut child, &mut seen, "\u{1b}[?1049l"); // the previous screen
    assert!(child.wait().expect("its end").success());
}

#[test]
fn without_a_terminal_or_a_directory_it_gives_advice() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |place: &Path| {
        let out = Command::new(env!("CARGO_BIN_EXE_perfring")).arg("top").arg(place).output();
        let out = out.expect("the command");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, said) = run(dir.path());
    assert_eq!(code, Some(2));
    assert!(said.contains("perfring ls"), "{said}");
    let (code, said) = run(&dir.path().join("none"));
    assert_eq!(code, Some(3), "{said}");
}

#[test]
fn its_details_say_who_detached_and_who_was_killed() {
    let place = crate::command::Place::new();
    for (word, end) in [("detached", End::Exit), ("dead", End::Killed)] {
        let set = place.path(word);
        let named = set.to_str().expect("a name");
        let made = crate::command::run(&["create", named, "--producers", "cpu"], b"");
        assert_eq!(made.code(), 0, "{}", made.err());
        let pid = crate::endings::ended("cpu", named, end);
        let mut child = on_a_terminal(&set);
        let mut seen = Vec::new();
        until(&mut child, &mut seen, "cpu");
        press(&mut child, b"\r");
        until(&mut child, &mut seen, "uuid"); // below the producers
        let shown = letters(&seen);
        assert!(shown.contains(&format!("{word}:who,pid{pid}")), "{word} {pid}: {shown}");
        press(&mut child, b"q");
        until(&mut child, &mut seen, "\u{1b}[?1049l");
        assert!(child.wait().expect("its end").success());
    }
}
