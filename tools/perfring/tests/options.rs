//! Options that mean the same for every command: lengths of time, `--json`, `-n`, `-q`, `-v`, `--color`; and
//! directories where a ring is expected.

use crate::command::{Place, json_lines, publish, run, subcommands};

impl Place {
    /// A directory with two rings of two lines each, published in turns.
    fn two(&self) -> String {
        for name in ["a", "b"] {
            let ring = self.path(name).to_str().unwrap().to_owned();
            assert_eq!(run(&["create", &ring, "--time"], b"").code(), 0);
        }
        for line in ["1\n", "2\n"] {
            for name in ["a", "b"] {
                publish(self.path(name).to_str().unwrap(), line.as_bytes());
            }
        }
        self.0.path().to_str().unwrap().to_owned()
    }
}

#[test]
fn a_length_of_time_needs_its_unit_everywhere() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let dir = place.0.path().to_str().unwrap();
    let bare: [&[&str]; 9] = [
        &["tail", &ring, "--timeout", "5"],
        &["consume", &ring, "--timeout", "0.5"],
        &["publish", &ring, "--wait", "5"],
        &["stat", &ring, "--interval", "1"],
        &["record", &ring, "-o", "-", "--for", "5"],
        &["record", &ring, "-o", "-", "--delay", "100"],
        &["export", &ring, "--to", "json", "--patience", "30"],
        &["prune", dir, "--dead-for", "60"],
        &["demo", "--for", "8"],
    ];
    for args in bare {
        run(args, b"").refuses(2, "is no time: write it with its unit, like 250ms, 10s");
    }
    for args in bare {
        let (_, args) = args.split_last().unwrap();
        run(&[args, &["-1s"]].concat(), b"")
            .refuses(2, "\"-1s\" is no time: write it with its unit");
    }
    for time in ["101 years", "584554049253years", "99999999999999999999s"] {
        let args = ["export", &ring, "--to", "json", "--patience", time];
        run(&args, b"").refuses(2, "is too long: the longest is 36500 days");
    }
    run(&["stat", &ring, "-i", "0s"], b"").refuses(2, "longer than 0s");
    run(&["record", &ring, "-o", "-", "--delay", "61s"], b"").refuses(2, "at most 60s");
    run(&["demo", "--for", "1s"], b"").refuses(2, "2s to 1h");
}

#[test]
fn a_negative_size_is_refused_as_a_size() {
    let place = Place::new();
    let (ring, new) = (place.ring(&[]), place.path("new"));
    let (dir, new) = (place.0.path().to_str().unwrap(), new.to_str().unwrap());
    let commands: [&[&str]; 5] = [
        &["create", new, "--size"],
        &["create", new, "--aux-size"],
        &["prune", dir, "--max-bytes"],
        &["record", &ring, "-o", "-", "--max-bytes"],
        &["replay", new, new, "--size"],
    ];
    for args in commands {
        run(&[args, &["-1M"]].concat(), b"").refuses(2, "\"-1M\" is no size: write bytes as 65536");
    }
    run(&["replay", new, new, "--rate", "-1"], b"").refuses(2, "write how many times as fast");
}

#[test]
fn json_is_one_option_and_a_short_form_of_it() {
    let place = Place::new();
    let dir = place.two();
    let ring = place.path("a").to_str().unwrap().to_owned();
    let machine = ["newest_ns", "newest_wall_ns"];
    let commands: [&[&str]; 8] = [
        &["tail", &ring],
        &["dump", &ring],
        &["types", &ring],
        &["stat", &ring],
        &["ls", &dir],
        &["prune", "--dry-run", &dir],
        &["doctor", &ring],
        &["tail", &dir],
    ];
    for args in commands {
        let out = |more: &[&str]| json_lines(&run(&[args, more].concat(), b"").out());
        let (long, short) = (out(&["--format", "json"]), out(&["--json"]));
        assert_eq!(long.len(), short.len(), "{args:?}");
        for (long, short) in long.iter().zip(&short) {
            for (name, value) in long.as_object().unwrap() {
                assert!(machine.contains(&&**name) || !short[name].is_null() || value.is_null());
            }
        }
        let both = run(&[args, &["--json", "--format", "text"]].concat(), b"");
        both.refuses(2, "cannot be used with");
    }
}

#[test]
fn n_is_a_number_of_records() {
    for command in subcommands() {
        let help = run(&[&command, "--help"], b"").out();
        for line in help.lines().filter(|line| line.trim_start().starts_with("-n")) {
            assert!(line.contains("-n, --records <N>"), "{command}: {line}");
        }
    }
    run(&["prune", "-n"], b"").refuses(2, "'-n'");
}

#[test]
fn a_directory_is_dumped_in_the_order_of_time_and_its_rings_are_counted_together() {
    let place = Place::new();
    let dir = place.two();
    let done = run(&["dump", &dir], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let lines: Vec<(String, String)> = done
        .out()
        .lines()
        .map(|line| {
            let (ring, rest) = line.split_once(": ").unwrap();
            (ring.to_owned(), rest.rsplit(' ').next().unwrap().to_owned())
        })
        .collect();
    let expected = [("a", "1"), ("b", "1"), ("a", "2"), ("b", "2")];
    assert_eq!(lines, expected.map(|(ring, line)| (ring.to_owned(), line.to_owned())));
    let said = "4 records shown; since the rings were created: written 4, read 0, nothing lost";
    assert!(done.err().contains(said), "{}", done.err());
    let rows = json_lines(&run(&["dump", "--json", "--where", "x=1", &dir], b"").out());
    assert!(rows.is_empty(), "{rows:?}");
    let rows = json_lines(&run(&["dump", "--json", "--since", "1h", &dir], b"").out());
    assert_eq!(rows.iter().filter(|row| row["ring"] == "b").count(), 2, "{rows:?}");
    // What was lost is in the sum, by its cause.
    let full = place.path("c").to_str().unwrap().to_owned();
    assert_eq!(run(&["create", &full, "--size", "4K", "--time"], b"").code(), 0);
    let line = [&[b'x'; 999][..], b"\n"].concat();
    let _ = run(&["publish", &full], &line.repeat(5));
    let done = run(&["dump", &dir], b"");
    assert!(done.err().contains("written 8, read 0, full 1"), "{}", done.err());
    let empty = tempfile::tempdir().unwrap();
    run(&["dump", empty.path().to_str().unwrap()], b"").refuses(3, "there is no ring in");
}

#[test]
fn a_directory_shows_each_type_once_with_the_rings_that_have_it() {
    let place = Place::new();
    let dir = place.two();
    let register = |name: &str, kind: &'static str, id| {
        let mut producer = perfring_producer::Producer::attach(place.path(name)).unwrap();
        let id = perfring_producer::RecordType::new(id).unwrap();
        let schema = perfring_types::Schema::new(kind, perfring_types::Encoding::Utf8);
        producer.register(&perfring_types::Schema { id, ..schema }).unwrap();
    };
    register("a", "of.both", 5000);
    register("b", "of.both", 5000);
    register("b", "of.one", 5001);
    let done = run(&["types", &dir], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let out = done.out();
    assert_eq!(out.matches("of.both").count(), 1, "{out}");
    assert_eq!(out.matches("rings ").count(), 1, "{out}");
    let (_, one) = out.split_once("of.one").unwrap();
    assert_eq!(one.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(), ["rings", "b"]);
    let rows = json_lines(&run(&["types", "--json", &dir], b"").out());
    let rows: Vec<_> = rows.iter().map(|row| (&row["ring"], &row["name"])).collect();
    assert_eq!(
        rows,
        [
            (&"a".into(), &"of.both".into()),
            (&"b".into(), &"of.both".into()),
            (&"b".into(), &"of.one".into())
        ]
    );
}

#[test]
fn quiet_leaves_out_summaries_and_never_losses_and_verbose_adds_the_rings() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    let line = [&[b'x'; 999][..], b"\n"].concat();
    let done = run(&["publish", "-q", &ring], &line.repeat(4));
    assert_eq!((done.code(), done.err().as_str()), (0, ""));
    let lost = run(&["publish", "-q", &ring], &line);
    assert!(lost.err().contains("published 0 records, lost 1"), "{}", lost.err());
    assert!(run(&["dump", &ring], b"").err().contains("4 records shown"));
    let dumped = run(&["dump", "--quiet", &ring], b"").err();
    assert!(!dumped.contains("records shown"), "{dumped}");
    let lost = run(&["consume", "-q", &ring], b"");
    assert_eq!(lost.out().lines().count(), 4);
    assert!(lost.err().contains("LOST 1 record "), "{}", lost.err());
    run(&["tail", "-q", "/nowhere/ring"], b"").refuses(3, "/nowhere/ring");
    let verbose = run(&["tail", "-v", &ring], b"").err();
    assert!(verbose.contains("ring is opened: 4 KiB, drop, producers one"), "{verbose}");
    assert!(!run(&["tail", &ring], b"").err().contains("is opened"));
    run(&["tail", "-q", "-v", &ring], b"").refuses(2, "cannot be used with");
}

#[test]
fn colors_are_chosen_and_a_pipe_has_none() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    publish(&ring, b"x\n");
    let escapes = |args: &[&str]| run(args, b"").out().contains('\x1b');
    assert!(!escapes(&["tail", &ring]) && !escapes(&["tail", "--color", "auto", &ring]));
    assert!(escapes(&["tail", "--color", "always", &ring]));
    assert!(escapes(&["--color=always", "doctor", &ring]));
    assert!(!escapes(&["doctor", "--color", "never", &ring]));
    // Data is never painted.
    assert!(!escapes(&["tail", "--color", "always", "--json", &ring]));
    assert!(!escapes(&["tail", "--color", "always", "--format", "raw", &ring]));
    run(&["tail", "--color", "blue", &ring], b"").refuses(2, "auto, always, never");
}
