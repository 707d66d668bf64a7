//! `perfring ls` and `perfring prune`: the rings of a directory.

use crate::command::{Live, Place, json_lines, perfring, publish, run};
use nix::sys::signal::Signal;
use perfring_consumer::{Consumer, stat::Stat};
use perfring_testkit::wait::until;
use std::fs;

impl Place {
    fn dir(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// A ring of this name, of 4 KiB.
    fn add(&self, name: &str, options: &[&str]) -> String {
        let path = self.path(name).to_str().unwrap().to_owned();
        let mut args = vec!["create", &path, "--size", "4K", "--types-size", "0"];
        args.extend(options);
        assert_eq!(run(&args, b"").code(), 0);
        path
    }
}

#[test]
fn ls_lists_rings_and_reports_other_files() {
    let place = Place::new();
    let quiet = place.add("quiet", &[]);
    publish(&quiet, b"x\ny\n");
    place.add("recorder", &["--policy", "overwrite", "--time"]);
    publish(&place.path("recorder").display().to_string(), b"x\n");
    place.add("shared", &["--producers", "many"]);
    fs::write(place.path("read\x1bme"), "rings").unwrap();
    fs::write(place.path(".saved"), "hidden").unwrap();
    std::os::unix::fs::symlink(&quiet, place.path("link")).unwrap();
    // A live ring with losses.
    let full = place.add("shop.4711.1.0123456789ab", &[]);
    let mut live = Live::of({
        let mut command = perfring(&["publish", &full, "--type", "5000"]);
        command.stdin(std::process::Stdio::piped());
        command
    });
    let mut stdin = live.child.stdin.take().unwrap();
    let line = [b'x'; 999].as_slice();
    for _ in 0..5 {
        std::io::Write::write_all(&mut stdin, &[line, b"\n"].concat()).unwrap();
    }
    let row = |done: &crate::command::Done, name: &str| {
        let rows = json_lines(&done.out());
        rows.into_iter().find(|row| row["name"] == name).unwrap()
    };
    until("five records were tried", || {
        let row =
            row(&run(&["ls", place.dir(), "--format", "json"], b""), "shop.4711.1.0123456789ab");
        row["written_records"].as_u64().unwrap() + row["full_records"].as_u64().unwrap() == 5
    });

    let done = run(&["ls", place.dir()], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let out = done.out();
    let lines: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        lines[0],
        ["NAME", "PRODUCER", "CONSUMER", "POLICY", "SIZE", "FULL", "LOST", "LAST"]
    );
    assert_eq!(lines[1], ["quiet", "detached", "none yet", "drop", "4 KiB", "0%", "0", "-"]);
    assert_eq!(lines[2][..4], ["recorder", "detached", "none yet", "overwrite"]);
    assert!(lines[2][7].ends_with('s'), "{out}");
    assert_eq!(lines[3][..3], ["shared", "none yet", "none yet"]);
    let pid = format!("pid {}", live.child.id());
    assert_eq!(lines[4][..2], ["shop.4711.1.0123456789ab", &pid]);
    assert_eq!(lines[4][5..], ["98%", "1", "-"]);
    assert_eq!(lines.len(), 5);
    let err = done.err();
    assert!(err.contains("read?me is left out: ") && err.contains("link is left out: a symbolic"));
    assert_eq!(err.lines().count(), 2, "{err}");

    // In a narrow terminal, names are truncated in the middle.
    let narrow = perfring(&["ls", place.dir()]).env("COLUMNS", "80").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains('…') && narrow.contains("789ab"), "{narrow}");

    let done = run(&["ls", place.dir(), "--format", "json"], b"");
    let shop = row(&done, "shop.4711.1.0123456789ab");
    assert_eq!(shop["producer"]["alive"], true);
    assert_eq!(shop["full_records"], 1);
    assert!(shop["newest_ns"].is_null() && row(&done, "recorder")["newest_ns"].is_u64());
    assert_eq!(shop["ring"], full);
}

#[test]
fn ls_reports_what_is_wrong_with_a_directory() {
    let place = Place::new();
    let missing = place.path("no").to_str().unwrap().to_owned();
    run(&["ls", &missing], b"").refuses(3, "does not exist, so there are no rings");
    run(&["prune", &missing], b"").refuses(3, "does not exist, so there are no rings");
    let ring = place.ring(&[]);
    run(&["ls", &ring], b"")
        .refuses(1, &format!("{ring} is no directory: `perfring stat {ring}` shows a ring"));
    // The default is the user's directory of rings.
    let location = tempfile::tempdir().unwrap();
    let listed = |args: &[&str]| {
        let mut command = perfring(args);
        crate::command::Done(command.env("XDG_RUNTIME_DIR", location.path()).output().unwrap())
    };
    let dir = location.path().join("perfring");
    listed(&["ls"]).refuses(3, dir.to_str().unwrap());
    fs::create_dir(&dir).unwrap();
    listed(&["ls"]).refuses(0, "has no rings");
    fs::rename(&ring, dir.join("mine")).unwrap();
    assert!(listed(&["ls"]).out().contains("mine"));
    assert!(listed(&["prune", "--dead-for", "0s"]).out().starts_with("removed mine: "));
}

#[test]
fn a_ring_with_damaged_totals_is_listed_and_reported() {
    let place = Place::new();
    place.add("fine", &[]);
    let bad = place.add("bad", &[]);
    let file = fs::OpenOptions::new().write(true).open(&bad).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 8], 1024).unwrap();
    let done = run(&["ls", place.dir()], b"");
    assert_eq!(done.code(), 4);
    assert!(done.out().contains("damaged") && done.out().contains("fine"), "{}", done.out());
    assert!(done.err().contains("1 ring with damaged totals"), "{}", done.err());
}

#[test]
fn prune_removes_what_it_may_and_reports_why_the_rest_stays() {
    let place = Place::new();
    place.add("empty", &[]);
    publish(&place.add("unread", &[]), b"x\ny\n");
    publish(&place.add("words", &["--policy", "overwrite"]), b"x\n");
    fs::write(place.path("text"), "mine").unwrap();
    let young = run(&["prune", place.dir()], b"");
    assert_eq!(young.code(), 0);
    assert!(young.out().starts_with("kept empty: alive "), "{}", young.out());
    assert!(
        young.out().contains(" s ago; --dead-for says how long is enough\n"),
        "{}",
        young.out()
    );
    let args = ["prune", place.dir(), "--dead-for", "0s", "--dry-run"];
    let done = run(&args, b"");
    let out = done.out();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("would remove empty: ") && lines.len() == 3, "{out}");
    assert_eq!(
        lines[1],
        "kept unread: 2 records are not read; `perfring rm` removes it nevertheless"
    );
    assert_eq!(
        lines[2],
        "kept words: flight recorder with 1 record; --flight-recorders removes it nevertheless"
    );
    assert!(place.path("empty").exists());
    let json = json_lines(&run(&[&args[..], &["--format", "json"]].concat(), b"").out());
    assert_eq!(
        (&json[0]["outcome"], &json[1]["outcome"]),
        (&"would_remove".into(), &"kept".into())
    );
    let reason = "2 records are not read; `perfring rm` removes it nevertheless";
    assert_eq!(json[1]["reason"], reason);

    let done = run(&["prune", place.dir(), "--dead-for", "0s", "--keep", "1"], b"");
    assert!(
        done.out().starts_with("kept empty: one of the newest; --keep says how many are kept"),
        "{}",
        done.out()
    );
    let done = run(&["prune", place.dir(), "--dead-for", "0s", "--flight-recorders"], b"");
    assert!(done.out().starts_with("removed empty: "), "{}", done.out());
    assert!(done.out().contains("removed words: ") && done.out().contains("with 1 record\n"));
    assert!(place.path("unread").exists() && place.path("text").exists());
    assert!(!place.path("words").exists());
    run(&["prune", place.dir(), "--dead-for", "soon"], b"").refuses(2, "write it with its unit");
}

#[test]
fn a_ring_that_is_renamed_goes_by_its_new_name_and_comes_once() {
    let place = Place::new();
    let ring = place.add("before", &[]);
    publish(&ring, b"one\n");
    let mut live = Live::start(&["tail", "-f", place.dir()]);
    assert_eq!(live.line(), "before: one");
    let after = place.path("after").to_str().unwrap().to_owned();
    fs::rename(&ring, &after).unwrap();
    // Once this one is read, the other's new name is known.
    publish(&place.add("later", &[]), b"two\n");
    assert_eq!(live.line(), "later: two");
    publish(&after, b"three\n");
    assert_eq!(live.line(), "after: three");
    live.signal(Signal::SIGINT);
    assert_eq!(live.end().0, "");
}

#[test]
fn a_ring_that_moves_is_read_once_and_one_that_comes_begins_at_its_oldest_record() {
    let [here, there, outside] = [Place::new(), Place::new(), Place::new()];
    let ring = here.add("early", &[]);
    publish(&ring, b"before\n");
    let file = outside.path("run.perfrec").to_str().unwrap().to_owned();
    // The directory that the ring moves to is asked first: the ring is there before it is gone here.
    let args = ["record", "--from", "latest", "-o", &file, there.dir(), here.dir()];
    let live = Live::start(&args);
    let recorded =
        |text: &str| run(&["export", "--to", "json", &file], b"").out().matches(text).count();
    until("it records", || {
        publish(&ring, b"tick\n");
        fs::exists(&file).unwrap() && recorded("tick") > 0
    });
    let later = outside.add("later", &[]);
    publish(&later, b"since it was made\n");
    fs::rename(&later, there.path("later")).unwrap();
    until("it comes", || recorded("since it was made") > 0);
    let moved = there.path("early").to_str().unwrap().to_owned();
    fs::rename(&ring, &moved).unwrap();
    publish(&moved, b"moved\n");
    until("it comes", || recorded("moved") > 0);
    live.signal(Signal::SIGINT);
    live.end();
    assert_eq!((recorded("before"), recorded("moved"), recorded("since it was made")), (0, 1, 1));
    assert_eq!(recorded("/early"), 0, "no other ring has its name");
}

#[test]
fn a_ring_that_another_consumer_reads_is_read_once_that_one_is_gone() {
    let place = Place::new();
    let [busy, free] = ["busy", "free"].map(|name| {
        let ring = place.add(name, &[]);
        publish(&ring, b"one\n");
        ring
    });
    let other = Consumer::attach(&busy).unwrap();
    let file = place.path("run.perfrec");
    let args = ["record", "--consume", "-n", "2", "-o", file.to_str().unwrap(), place.dir()];
    let mut live = Live::start(&args);
    // The older file is tried first.
    until("it reads the other ring", || Stat::read(&*free).unwrap().consumer.is_alive());
    drop(other);
    until("it has both records", || live.child.try_wait().unwrap().is_some());
    assert_eq!(live.child.wait().unwrap().code(), Some(0));
}
