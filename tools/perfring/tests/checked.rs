//! `perfring sidecar --check` refuses what the start refuses, with the same sentence, and nothing else.

use crate::command::{Done, Place, perfring, run};
use std::fs;
use std::os::unix::fs::symlink;

/// A place for a configuration: `ROOT` in it stands for the directory.
struct Tried {
    place: Place,
    root: String,
}

impl Tried {
    fn new() -> Self {
        let place = Place::new();
        let root = place.0.path().to_str().unwrap().to_owned();
        for dir in ["rings", "out"] {
            fs::create_dir(place.path(dir)).unwrap();
        }
        for (file, text) in [("file", "x"), ("empty", ""), ("no.pem", "no certificate")] {
            fs::write(place.path(file), text).unwrap();
        }
        symlink(place.path("rings"), place.path("link")).unwrap();
        Tried { place, root }
    }

    /// Checks and starts: returns both codes and messages, without the time.
    fn both(&self, keys: &str) -> [(i32, String); 2] {
        let input =
            if keys.contains("[[input]]") { "" } else { "[[input]]\ndir = \"ROOT/rings\"\n" };
        let output = if keys.contains("[[output]]") { "" } else { "[[output]]\ntype = \"null\"\n" };
        let text = format!("{keys}\n{input}{output}").replace("ROOT", &self.root);
        let file = self.place.path("sidecar.toml");
        fs::write(&file, text).unwrap();
        ["--check", "--once"].map(|how| {
            let done = run(&["sidecar", "--config", file.to_str().unwrap(), how], b"");
            (done.code(), done.err().replace(&self.root, "ROOT"))
        })
    }
}

fn output(kind: &str, keys: &str) -> String {
    format!("[[output]]\ntype = \"{kind}\"\n{keys}")
}

#[test]
fn what_the_start_refuses_the_check_refuses_with_the_same_sentence() {
    let tried = Tried::new();
    let long = format!("/tmp/{}", "s".repeat(103));
    let twice = |kind: &str, keys: &str| format!("{}\n{}", output(kind, keys), output(kind, keys));
    let bad = [
        // Addresses.
        (
            output("prometheus", "listen = \":9464\""),
            "line 1: prometheus: cannot listen, as `listen` = \":9464\" has no host: write 127.0.0.1:9464",
        ),
        (output("prometheus", "listen = \"localhost\""), "has no port"),
        (
            output("prometheus", "listen = \"127.0.0.1:99999\""),
            "ends with a number from 0 to 65535",
        ),
        (output("prometheus", "listen = \"192.0.2.1:9464\""), "is no address of this machine"),
        (output("otlp", "endpoint = \"localhost:4318\""), "\"localhost:4318\" is not a valid"),
        (output("otlp", "endpoint = \"collector\""), "it must begin with http:// or https://"),
        (
            output("otlp", &format!("endpoint = \"unix://{long}\"")),
            "has 108 bytes, and the kernel takes 107 at most",
        ),
        (output("nats", "servers = []"), "`servers` is empty"),
        (
            output("perfetto", "path = \"ROOT/out/x\"\nmax_bytes = \"2M\"\nkeep_bytes = \"1M\""),
            "it must be at least max_bytes",
        ),
        (
            output("json", "path = \"ROOT/out/x\"\nmax_bytes = \"2M\"\nkeep_bytes = \"1M\""),
            "json: keep_bytes is the limit of all files together: it must be at least max_bytes",
        ),
        (
            output("otlp-json", "path = \"ROOT/out/x\"\nmax_bytes = \"2M\"\nkeep_bytes = \"1M\""),
            "otlp-json: keep_bytes is the limit of all files together: it must be at least max_bytes",
        ),
        (output("nats", "servers = [\"nats://a b\"]"), "is not an address"),
        (
            "[health]\nlisten = \":9090\"".to_owned(),
            "[health]: cannot listen, as listen = \":9090\" has no host",
        ),
        (format!("[health]\nlisten = \"unix:{long}\""), "has 108 bytes"),
        (
            "[health]\nlisten = \"unix:ROOT/none/s\"".to_owned(),
            "[health]: the directory ROOT/none of ROOT/none/s does not exist",
        ),
        (format!("[control]\npath = \"{long}\""), "[control]: the path of the socket"),
        // Directories.
        (
            output("json", "path = \"ROOT/none/x.jsonl\""),
            "json: the directory ROOT/none of ROOT/none/x.jsonl does not exist: create it",
        ),
        (
            output("json", "path = \"ROOT/file/x.jsonl\""),
            "ROOT/file of ROOT/file/x.jsonl is not a directory",
        ),
        (output("json", "path = \"ROOT/out\""), "ROOT/out is a directory: name a file in it"),
        (output("perfetto", "path = \"ROOT/none/x\""), "does not exist: create it"),
        (output("perf-data", "path = \"ROOT/out\""), "is a directory"),
        (output("ctf", "path = \"ROOT/none/x\""), "does not exist: create it"),
        (output("ctf", "path = \"ROOT/file\""), "ROOT/file is not a directory"),
        (output("parquet", "path = \"ROOT/file\""), "ROOT/file is not a directory"),
        (output("recording", "path = \"ROOT/none/x\""), "does not exist: create it"),
        (output("null", "buffer = { path = \"ROOT/file\" }"), "null: ROOT/file is not a directory"),
        (output("otlp", "dead_letters = \"ROOT/none/x\""), "otlp: the directory ROOT/none"),
        (output("nats", "dead_letters = \"ROOT/none/x\""), "nats: the directory ROOT/none"),
        (
            "state = \"ROOT/file/state\"".to_owned(),
            "state: ROOT/file of ROOT/file/state is not a directory",
        ),
        ("status = \"ROOT/none/status\"".to_owned(), "status: the directory ROOT/none"),
        ("status = \"ROOT/out\"".to_owned(), "status: ROOT/out is a directory"),
        ("[own]\nring = \"ROOT/none/own\"".to_owned(), "[own]: the directory ROOT/none"),
        (
            "[[snapshot]]\ndir = \"ROOT/file\"".to_owned(),
            "[[snapshot]]: ROOT/file is not a directory",
        ),
        (
            "[[input]]\ndir = \"ROOT/file\"".to_owned(),
            "ROOT/file is not a directory: for a ring write ring",
        ),
        (
            "[[input]]\nring = \"ROOT/out\"".to_owned(),
            "ROOT/out is a directory: for all rings in it write dir",
        ),
        // Duplicates.
        (
            twice("json", "path = \"ROOT/out/x\""),
            "the output \"json\" and the output \"json-2\" both write to ROOT/out/x",
        ),
        (
            twice("null", "buffer = { path = \"ROOT/out/b\" }"),
            "the buffer of the output \"null\" and the buffer of",
        ),
        (
            twice("otlp", "dead_letters = \"ROOT/out/d\""),
            "the dead letters of the output \"otlp\" and the dead letters of the output \"otlp-2\" both write to ROOT/out/d",
        ),
        (
            output("json", "path = \"ROOT/out/x\"\n")
                + &output("otlp", "dead_letters = \"ROOT/link/../out/x\""),
            "the output \"json\" and the dead letters of the output \"otlp\" both write to",
        ),
        (
            "state = \"ROOT/out/s\"\n".to_owned()
                + &output("otlp", "name = \"a/b\"\n")
                + &output("nats", "name = \"a-b\""),
            "the dead letters of the output \"a-b\" both write to ROOT/out/dead-letters-a-b.jsonl",
        ),
        (
            output("otlp", "dead_letters = \"ROOT/rings/letters\""),
            "the dead letters of the output \"otlp\" writes to ROOT/rings/letters in the directory of an input",
        ),
        (twice("prometheus", "listen = \"127.0.0.1:19464\""), "both listen on 127.0.0.1:19464"),
        (
            format!(
                "[health]\nlisten = \"0.0.0.0:19464\"\n{}",
                output("prometheus", "listen = \"127.0.0.1:19464\"")
            ),
            "and [health] both listen on",
        ),
        (
            format!("status = \"ROOT/out/x\"\n{}", output("json", "path = \"ROOT/out/x\"")),
            "the output \"json\" and status both write to",
        ),
        (
            "[control]\npath = \"ROOT/out/s\"\n[health]\nlisten = \"unix:ROOT/out/s\"".to_owned(),
            "[control] and [health] both write to ROOT/out/s",
        ),
        (
            output("json", "path = \"ROOT/rings/x.jsonl\""),
            "writes to ROOT/rings/x.jsonl in the directory of an input",
        ),
        (
            output("ctf", "path = \"ROOT/rings\""),
            "writes to ROOT/rings in the directory of an input",
        ),
        (
            "[[input]]\ndir = \"ROOT/rings\"\n[[input]]\ndir = \"ROOT/out/../rings/\"".to_owned(),
            "[[input]]: two inputs read ROOT/out/../rings/, one of them as ROOT/rings: leave one",
        ),
        (
            "[[input]]\ndir = \"ROOT/rings\"\n[[input]]\ndir = \"ROOT/rings\"".to_owned(),
            "two inputs read ROOT/rings: leave one of them out",
        ),
        (
            "[[input]]\ndir = \"ROOT/link\"\n[[input]]\ndir = \"ROOT/rings\"".to_owned(),
            "two inputs read ROOT/rings, one of them as ROOT/link",
        ),
        (
            "[[input]]\ndir = \"ROOT/a/b\"\n[[input]]\ndir = \"ROOT/a/../a/./b\"".to_owned(),
            "two inputs read ROOT/a/../a/./b",
        ),
        (
            "[[input]]\nring = \"ROOT/rings/r\"\n[[input]]\nring = \"ROOT/link/r\"".to_owned(),
            "two inputs read ROOT/link/r",
        ),
        // Files that are read.
        (output("otlp", "certificate = \"ROOT/none.pem\""), "ROOT/none.pem"),
        (output("otlp", "token_file = \"ROOT/none\""), "ROOT/none"),
        (output("nats", "ca_file = \"ROOT/none.pem\""), "nats: ROOT/none.pem"),
        (output("nats", "credentials_file = \"ROOT/none\""), "ROOT/none"),
        (output("nats", "token_file = \"ROOT/none\""), "ROOT/none"),
        ("[health]\ntoken_file = \"ROOT/none\"".to_owned(), "cannot read the token in ROOT/none"),
        ("[health]\ntoken_file = \"ROOT/empty\"".to_owned(), "there is no token in ROOT/empty"),
        (
            "[health]\ncertificate = \"ROOT/no.pem\"\nkey = \"ROOT/no.pem\"".to_owned(),
            "ROOT/no.pem",
        ),
        // Ranges.
        (output("prometheus", "buckets = [2.0, 1.0]"), "must be finite numbers that rise"),
        (output("prometheus", "series = 0"), "`series` must be more than 0"),
        (output("prometheus", "path = \"metrics\""), "must begin with /"),
        (output("otlp", "batch_bytes = 0"), "`batch_bytes` must be more than 0"),
        (output("nats", "window = 0"), "must be more than 0"),
        (output("parquet", "path = \"ROOT/out/p\"\nmemory = 0"), "`memory` must be more than 0"),
        (
            output("null", "buffer = { path = \"ROOT/out/b\", max_bytes = 0 }"),
            "`buffer.max_bytes` must be more than 0",
        ),
        (output("json", "max_bytes = \"lots\""), "line 3: \"lots\" is no size"),
        (output("json", "max_bytes = -1"), "\"-1\" is no size"),
        (output("json", "max_bytes = 1.5"), "expected a size in bytes, like 65536 or \"64K\""),
    ];
    for (keys, says) in &bad {
        let [checked, started] = tried.both(keys);
        assert_eq!(checked.0, 2, "{keys}: {}", checked.1);
        assert!(checked.1.contains(says), "{keys}: {}", checked.1);
        assert_eq!(checked, started, "{keys}");
    }
    println!("{} configurations refused", bad.len());
}

#[test]
fn what_the_check_passes_starts() {
    let tried = Tried::new();
    let good = [
        output("json", "path = \"ROOT/out/x.jsonl\"\nmax_bytes = \"100M\""),
        output("json", "path = \"-\""),
        output("json", "path = \"/dev/null\""),
        output("perfetto", "path = \"ROOT/out/x.pftrace\""),
        output("ctf", "path = \"ROOT/out/ctf\""),
        output("perf-data", "path = \"ROOT/out/perf.data\""),
        output("parquet", "path = \"ROOT/out/parquet\""),
        output("recording", "path = \"ROOT/out/x.perfrec\""),
        output("prometheus", "listen = \"127.0.0.1:0\""),
        output("prometheus", "listen = \"[::]:0\""),
        output("otlp", "endpoint = \"http://127.0.0.1:1\"\ndead_letters = \"ROOT/out/letters\""),
        output("otlp", "endpoint = \"unix:///tmp/none.sock\""),
        output("nats", "servers = [\"127.0.0.1:1\"]"),
        output("null", "buffer = { path = \"ROOT/out/deep/er/b\" }"),
        "state = \"ROOT/out/new/state\"\nstatus = \"ROOT/out/status\"".to_owned(),
        "[control]\npath = \"ROOT/out/run/control\"".to_owned(),
        "[health]\nlisten = \"unix:ROOT/out/health\"".to_owned(),
        "[[snapshot]]\ndir = \"ROOT/out/snapshots\"".to_owned(),
        "[[input]]\ndir = \"ROOT/comes/later\"".to_owned(),
    ];
    for keys in &good {
        let [checked, started] = tried.both(keys);
        assert_eq!(checked.0, 0, "{keys}: {}", checked.1);
        // A directory that comes later is an input that could not be read now.
        let is_started = started.0 == 0 || keys.contains("comes/later");
        assert!(is_started, "{keys}: {}", started.1);
    }
    // The check makes nothing.
    let tried = Tried::new();
    fs::remove_dir(tried.place.path("out")).unwrap();
    fs::create_dir(tried.place.path("out")).unwrap();
    for keys in &good {
        let file = tried.place.path("sidecar.toml");
        let input = "[[input]]\ndir = \"ROOT/rings\"\n";
        let input = if keys.contains("[[input]]") { "" } else { input };
        let other = if keys.contains("[[output]]") { "" } else { "[[output]]\ntype = \"null\"\n" };
        fs::write(&file, format!("{keys}\n{input}{other}").replace("ROOT", &tried.root)).unwrap();
        assert_eq!(run(&["sidecar", "--config", file.to_str().unwrap(), "--check"], b"").code(), 0);
        assert_eq!(fs::read_dir(tried.place.path("out")).unwrap().count(), 0, "{keys}");
    }
}

#[test]
fn attributes_of_resources_come_from_the_environment_or_are_refused() {
    let tried = Tried::new();
    let keys = "[resource]\n\"k8s.pod.name\" = \"$PERFRING_TEST_POD\"\nk8s.node.name = \"n-${PERFRING_TEST_POD}\"\n";
    let [checked, started] = tried.both(keys);
    let says = "line 3: [resource]: k8s.node.name: the variable PERFRING_TEST_POD is not set in the environment";
    assert!(
        checked.0 == 2 && checked.1.contains("[resource]") && checked == started,
        "{checked:?}"
    );
    assert!(
        checked.1.contains(says)
            || checked.1.contains(&says.replace("node", "pod").replace("line 3", "line 2")),
        "{checked:?}"
    );
    let file = tried.place.path("sidecar.toml");
    let mut command = perfring(&["sidecar", "--config", file.to_str().unwrap(), "--check"]);
    let done = Done(command.env("PERFRING_TEST_POD", "shop-7").output().unwrap());
    assert_eq!(done.code(), 0, "{}", done.err());
    for line in ["adds k8s.pod.name=shop-7 to", "adds k8s.node.name=n-shop-7 to"] {
        assert!(done.err().contains(line), "{}", done.err());
    }
}

#[test]
fn an_unknown_key_is_answered_with_all_keys() {
    let tried = Tried::new();
    for (keys, expected) in [
        ("dealy = 1", ["`delay`", "`input`", "`output`", "`rule`", "`snapshot`", "`health`"]),
        (
            "[[output]]\ntype = \"json\"\npth = 1",
            ["`path`", "`where`", "`buffer`", "`max_bytes`", "`delivered_within`", "`keep_bytes`"],
        ),
        (
            "[[output]]\ntype = \"perfetto\"\npth = 1",
            ["`path`", "`where`", "`buffer`", "`max_bytes`", "`max_age`", "`overwrite`"],
        ),
        (
            "[[output]]\ntype = \"otlp\"\nendpont = 1",
            [
                "`endpoint`",
                "`where`",
                "`batch_bytes`",
                "`span_wait`",
                "`dead_letters`",
                "`signals`",
            ],
        ),
        (
            "[[output]]\ntype = \"null\"\nx = 1",
            ["`type`", "`name`", "`where`", "`types`", "`min_severity`", "`delivery`"],
        ),
        (
            "[[input]]\ndri = \"x\"",
            ["`dir`", "`ring`", "`perf`", "`mode`", "`prune_after`", "`priority`"],
        ),
    ] {
        let [checked, _] = tried.both(keys);
        assert_eq!(checked.0, 2, "{keys}: {}", checked.1);
        let (_, list) = checked.1.split_once("expected one of ").expect(&checked.1);
        for key in expected {
            assert!(list.contains(key), "{keys}: {key}: {}", checked.1);
        }
    }
}

#[test]
fn an_error_in_a_value_has_its_line() {
    let tried = Tried::new();
    let rule = "[[rule]]\nname = \"r\"\n\n";
    let snapshot = "[[snapshot]]\ndir = \"ROOT/out\"\n\n";
    let bad = [
        (output("null", "\nwhere = [\"severity_number >> 3\"]"), 4, ">> is no operator"),
        (output("null", "where = [\n  \"a=1\",\n  \"b\",\n]"), 5, "\"b\" is not a condition"),
        (output("null", "where = [\n  7,\n]"), 4, "expected a condition, like"),
        (output("null", "\nmin_severity = \"loud\""), 4, "a severity is trace"),
        (output("null", "\nmin_severity = 25"), 4, "a severity is trace"),
        ("[[output]]\nname = \"x\"\n\ntype = \"fax\"".to_owned(), 4, "is not a type of output"),
        (format!("{rule}where = [\n\n\"severity_number=99\"]\ndrop = true"), 6, "it is 1 to 24"),
        (format!("{rule}sample = 2.0"), 4, "sample is a share"),
        (format!("{rule}rate = \"many\""), 4, "\"many\" is no rate"),
        (format!("{rule}rate = \"1/s\"\nburst = 0"), 5, "a burst of 0"),
        (format!("{rule}drop = true\nburst = 1"), 5, "burst is for rate"),
        (format!("{rule}drop = true\nby = \"x\""), 5, "by is for sample"),
        ("[[rule]]\ndrop = true\nname = \"a b\"".to_owned(), 3, "the name of a rule is"),
        (format!("{snapshot}on = \"severity>=loud\""), 4, "a severity is trace"),
        (format!("{snapshot}on = \"noise\""), 4, "a snapshot is on ="),
        ("[[input]]\nname = \"x\"\nperf = [\"noise\"]".to_owned(), 3, "noise"),
        ("[[input]]\ndir = \"ROOT/rings\"\npid = 1".to_owned(), 3, "pid is for perf"),
        (
            "[[input]]\ndir = \"ROOT/rings\"\nname = \"\"".to_owned(),
            3,
            "the name of an input is empty",
        ),
        (
            "[[input]]\nring = \"ROOT/out/r\"\nprune_after = \"1s\"".to_owned(),
            3,
            "prune_after is for directories",
        ),
        ("[resource]\na = \"b\"\nk8s.x = \"1\"\nk8s.pod = \"\"".to_owned(), 4, "k8s.pod is empty"),
        // What is wrong with the whole table has the line of its first line.
        (format!("\n{rule}"), 2, "a rule has one of"),
        ("\n[[output]]\nname = \"x\"".to_owned(), 2, "an output needs a type"),
    ];
    for (keys, line, says) in &bad {
        let [checked, started] = tried.both(keys);
        assert_eq!(checked.0, 2, "{keys}: {}", checked.1);
        let whole = checked.1.contains(says) && checked.1.contains(&format!(", line {line}: "));
        assert!(whole, "{keys}: line {line}, {says}: {}", checked.1);
        assert_eq!(checked, started, "{keys}");
    }
}

#[test]
fn the_check_says_which_inputs_are_not_there_yet() {
    let tried = Tried::new();
    let waits = |path: &str| format!("{path} does not exist yet: the sidecar waits for it");
    let input = |keys: &str| format!("[[input]]\n{keys}\n");
    let dir = input("dir = \"ROOT/comes/later\"");
    let [checked, _] = tried.both(&(dir + &input("ring = \"ROOT/rings/r\"")));
    assert_eq!(checked.0, 0, "{}", checked.1);
    for path in ["ROOT/comes/later", "ROOT/rings/r"] {
        assert!(checked.1.contains(&waits(path)), "{}", checked.1);
    }
    let [checked, _] = tried.both(&input("dir = \"ROOT/rings\""));
    assert!(checked.0 == 0 && !checked.1.contains("does not exist"), "{}", checked.1);
}

#[test]
fn the_check_says_where_files_end_and_names_no_limit_that_is_none() {
    let tried = Tried::new();
    let none = "max_bytes = \"0\"\nmax_age = 0\n";
    for (kind, keys, says) in [
        ("json", none, "once it has delivered them; path = "),
        ("json", "max_bytes = \"1K\"", "; a file is finished at 1024 bytes; path = "),
        (
            "perfetto",
            "max_bytes = 10\nmax_age = \"1h\"",
            "; a file is finished at 10 bytes, or after 1h; path = ",
        ),
        ("perf-data", none, "; a file is finished when a ring fills, or at the end; path = "),
        (
            "perf-data",
            "",
            "; a file is finished after 5m, or when a ring fills, or at the end; path = ",
        ),
    ] {
        let keys = format!("{}\npath = \"ROOT/out/x\"\n{keys}", output(kind, ""));
        let [checked, _] = tried.both(&keys);
        assert!(checked.0 == 0 && checked.1.contains(says), "{keys}: {}", checked.1);
        assert!(!checked.1.contains("max_") && !checked.1.contains("0s"), "{}", checked.1);
    }
    let [checked, _] = tried.both("[[input]]\ndir = \"ROOT/rings\"\nprune_after = \"0\"");
    assert!(checked.1.contains("; removed once they were read"), "{}", checked.1);
}

#[test]
fn the_check_shows_what_is_set_for_each_output_without_secrets() {
    let tried = Tried::new();
    let nats = "servers = [\"nats://me:secret@localhost:4222\", \"me:secret@other:1\"]\ntoken = \"secret\"\nwindow = 16";
    let otlp = "endpoint = \"http://me:secret@localhost:4318/base?key=secret\"\n\
                headers = { x-scope-orgid = \"secret\" }\ntimeout = \"5s\"";
    let outputs = [
        output(
            "json",
            "name = \"lines\"\npath = \"ROOT/out/x.jsonl\"\nmax_backoff = \"1s\"\nmin_severity = \"warn\"",
        ),
        output("nats", nats),
        output("otlp", otlp),
        output("null", ""),
    ];
    let [checked, _] = tried.both(&outputs.join("\n"));
    let said = &checked.1;
    assert_eq!(checked.0, 0, "{said}");
    for line in [
        "writes to lines (json): records leave their rings once it has delivered them, of selected records; path = \"ROOT/out/x.jsonl\", \
         max_backoff = \"1s\", min_severity = \"warn\"\n",
        "; servers = [\"nats://localhost:4222\", \"other:1\"], token = (hidden), window = 16\n",
        "; endpoint = \"http://localhost:4318/base\", headers = { x-scope-orgid = (hidden) }, timeout = \"5s\"\n",
        "writes to null (null): records leave their rings once it has delivered them\n",
    ] {
        assert!(said.contains(line), "{line:?} is not in {said}");
    }
    assert!(!said.contains("secret"), "{said}");
}
