//! What `perfring view` says when there is no page, and what its server says: the guide's page of errors has it.

use super::Page;
use crate::command::{Done, Live, Place, run};
use nix::sys::signal::Signal;
use perfring_testkit::headings::begins;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../../crates/perfring/src/guide/errors.md");

fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What it says for these arguments, and with which code it ends.
fn says(args: &[&str]) -> (i32, String) {
    let done = run(&[&["view"], args].concat(), b"");
    assert_eq!(done.out(), "", "{args:?}");
    let said = done.err();
    // A note may come first.
    let last = said.lines().last().unwrap_or_default();
    (done.code(), last.strip_prefix("perfring: ").unwrap().to_owned())
}

/// Asks the page's server, and returns the status and the text of its answer.
fn asks(url: &str, path: &str, host: Option<&str>) -> (String, String) {
    let (address, token) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let (path, host) = (path.replace("TOKEN/", token), host.unwrap_or(address));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.trim_end().to_owned())
}

#[test]
fn what_keeps_the_page_from_being_shown_is_said_and_is_in_the_guide() {
    let place = Place::new();
    let dir = arg(place.0.path());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (text, damaged) = (place.path("notes"), place.path("damaged.perfrec"));
    fs::write(&text, "no ring").unwrap();
    let (source, good) = (place.ring(&[]), place.path("good.perfrec"));
    crate::command::publish(&source, b"one\ntwo\n");
    let recorded = run(&["record", &source, "-o", arg(&good), "-n", "2"], b"");
    assert_eq!(recorded.code(), 0, "{}", recorded.err());
    let bytes = fs::read(&good).unwrap();
    fs::write(&damaged, &bytes[..9]).unwrap();
    let mut said = Vec::new();
    for (args, code) in [
        (vec![dir, "--listen", &taken], 2),
        (vec![dir, "--listen", "192.0.2.1:0"], 2),
        (vec![dir, "--listen", "127.0.0.1"], 2),
        (vec![arg(&place.path("none"))], 3),
        (vec![arg(&text)], 4),
        (vec![arg(&damaged)], 4),
    ] {
        let (its, text) = says(&args);
        assert_eq!(its, code, "{args:?}: {text}");
        said.push(text);
    }
    said.extend(of_no_permission(place.0.path()));

    let page = Page::of(&[place.0.path()]);
    let port = page.url.split([':', '/']).nth(4).unwrap();
    for (path, host, status) in
        [("/", None, "404"), ("/TOKEN/", Some(format!("ring.example:{port}")), "403")]
    {
        let (its, text) = asks(&page.url, path, host.as_deref());
        assert_eq!(its, status, "{text}");
        said.push(text);
    }
    page.end();
    // It goes on, and says what that means.
    let mut open = Live::start(&["view", dir, "--listen", "0.0.0.0:0"]);
    assert!(open.line().starts_with("http://0.0.0.0:"));
    open.signal(Signal::SIGTERM);
    let (_, note, code) = open.end();
    assert_eq!(code, 0, "{note}");
    said.push(note.strip_prefix("perfring: ").unwrap().trim_end().to_owned());

    let all: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let (_, section) = PAGE.split_once("\n# The page of `perfring view`\n").unwrap();
    let section = section.split("\n# ").next().unwrap();
    let headings: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    for heading in &headings {
        assert!(
            said.iter().any(|text| begins(text, heading)),
            "nothing says: {heading}\n{said:#?}"
        );
    }
    for text in &said {
        assert!(all.iter().any(|heading| begins(text, heading)), "not on the page: {text}");
    }
    println!("{} headings, {} texts: {said:#?}", headings.len(), said.len());
}

/// Root may do everything, so without the capabilities that allow it.
fn unprivileged() -> Command {
    let command = env!("CARGO_BIN_EXE_perfring");
    if !nix::unistd::geteuid().is_root() {
        return Command::new(command);
    }
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--bounding-set=-dac_override,-dac_read_search,-net_bind_service", command]);
    setpriv
}

fn of_no_permission(dir: &Path) -> Vec<String> {
    let (closed, ring) = (dir.join("closed"), dir.join("ring"));
    fs::create_dir(&closed).unwrap();
    for path in [&closed, &ring] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let mut said = Vec::new();
    for (args, code) in [
        (vec![arg(&closed)], 6),
        (vec![arg(&ring)], 1),
        (vec![arg(dir), "--listen", "127.0.0.1:1"], 2),
    ] {
        let done = Done(unprivileged().arg("view").args(args).output().unwrap());
        let text = done.err();
        assert_eq!((done.code(), text.lines().count()), (code, 1), "{text}");
        said.push(text.strip_prefix("perfring: ").unwrap().trim_end().to_owned());
    }
    said
}
