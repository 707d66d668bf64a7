//! Snapshots are written and explained beside everything else, and none is forgotten.

use crate::scripted::{Hook, Reported, Scripted, publish, ring};
use perfring_consumer::stat::Stat;
use perfring_producer::Policy;
use perfring_sidecar::config::{Delivery, OutputConfig};
use perfring_sidecar::{Config, End, Sidecar, Signals};
use perfring_testkit::wait::Watchdog;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// How many rules take a snapshot.
const RULES: usize = 5;
/// The number of SIGTERM.
const SIGTERM: i32 = 15;

/// A directory with a ring to observe, and an output.
struct Stage {
    dir: tempfile::TempDir,
    output: Scripted,
    signals: Signals,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("rings")).unwrap();
        publish(&mut ring(&dir.path().join("rings"), "flight", Policy::Overwrite), 0..10);
        Stage { dir, output: Scripted::ready(), signals: Signals::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a configuration with these settings, and these keys of each rule.
    fn config(&self, settings: &str, rule: &str) -> Config {
        let mut text = format!("{settings}\n[[input]]\ndir = {:?}\n", self.path("rings"));
        for at in 0..RULES {
            let dir = self.path(&format!("snapshots-{at}"));
            text += &format!("[[snapshot]]\ndir = {dir:?}\n{rule}\n");
        }
        let mut config = Config::parse(&text, "test").unwrap();
        let output = self.output.clone();
        let open = move |_: &str| Ok(output.boxed());
        config.outputs.push(OutputConfig::new("scripted", Delivery::Required, open));
        config
    }

    /// Has this done when the output takes a record: after the snapshots are taken.
    fn then(&self, act: fn(&Signals)) {
        let signals = self.signals.clone();
        self.output.set(|script| {
            script.hook = Hook::new(move |event| {
                if let Reported::Record(..) = event {
                    act(&signals);
                }
            })
        });
    }

    fn run(&self, config: Config, reload: &mut dyn FnMut() -> Config, say: &mut dyn FnMut(&str)) {
        self.signals.snapshot();
        let mut sidecar = Sidecar::start(config).unwrap();
        let mut reload = || Ok(reload());
        let ended = sidecar.run(&self.signals, &mut reload, &mut |message| {
            say(&message.to_string());
        });
        assert!(matches!(ended, End::Signal(SIGTERM)), "{ended:?}");
    }
}

/// Returns the paths of the snapshots that these messages name, sorted.
fn named(said: &[String], by: impl Fn(&str) -> Option<&str>) -> Vec<&str> {
    let mut all: Vec<&str> = said.iter().filter_map(|said| by(said)).collect();
    all.sort_unstable();
    all
}

fn written(said: &str) -> Option<&str> {
    said.strip_prefix("snapshot (signal): 10 records in ")
}

fn explained(said: &str) -> Option<&str> {
    said.strip_prefix("why ")?.split_once(": ").map(|(path, _)| path)
}

fn not_explained(said: &str) -> Option<&str> {
    let (path, rest) = said.split_once(" is not explained: the sidecar ended; ")?;
    assert_eq!(rest, format!("`perfring why {path}` explains it"));
    Some(path)
}

#[test]
fn outputs_are_closed_before_explanations_are_waited_for_and_read_while_files_are_written() {
    let stage = Stage::new();
    stage.then(|signals| signals.stop(SIGTERM));
    let config = stage.config("drain = \"0s\"\nshutdown = \"1h\"", "why = true");
    let mut said = Vec::new();
    stage.run(config, &mut Config::default, &mut |message| {
        let script = stage.output.0.borrow();
        let has_read = script.reported.iter().any(|event| matches!(event, Reported::Record(..)));
        assert!(written(message).is_none() || has_read, "nothing is read before that");
        assert!(explained(message).is_none() || script.closed, "the output is still open");
        said.push(message.to_owned());
    });
    let files = named(&said, written);
    assert_eq!(files.len(), RULES, "{said:#?}");
    assert_eq!(named(&said, explained), files, "{said:#?}");
    for file in files {
        assert!(fs::exists(file.replace(".perfrec", ".why.txt")).unwrap(), "{file}");
    }
}

#[test]
fn a_snapshot_that_is_not_explained_when_the_sidecar_ends_is_named() {
    let stage = Stage::new();
    stage.then(|signals| signals.stop(SIGTERM));
    let config = stage.config("drain = \"0s\"\nshutdown = \"0s\"", "why = true");
    let mut said = Vec::new();
    stage.run(config, &mut Config::default, &mut |message| said.push(message.to_owned()));
    let mut named_last = named(&said, explained);
    let explained = named_last.len();
    named_last.extend(named(&said, not_explained));
    named_last.sort_unstable();
    println!("{explained} of {RULES} were explained in time");
    assert_eq!(named_last, named(&said, written), "{said:#?}");
    // On a machine that is very busy, files may take too long.
    let late = said.iter().filter(|said| said.contains("the sidecar ended before it was written"));
    assert_eq!(named_last.len() + late.count(), RULES, "{said:#?}");
}

#[test]
fn a_reload_without_why_forgets_no_snapshot() {
    let stage = Stage::new();
    stage.then(Signals::reload);
    let config = stage.config("log_interval = \"20ms\"", "why = true");
    let (mut said, dog) = (Vec::new(), Watchdog::default());
    stage.run(config, &mut || stage.config("log_interval = \"20ms\"", ""), &mut |message| {
        dog.check("all snapshots are explained");
        said.push(message.to_owned());
        if named(&said, explained).len() == RULES {
            stage.signals.stop(SIGTERM);
        }
    });
    assert!(said.iter().any(|said| said == "the configuration was reloaded"), "{said:#?}");
    assert_eq!(named(&said, explained), named(&said, written), "{said:#?}");
}

#[test]
fn a_snapshot_that_failed_is_in_the_status() {
    let stage = Stage::new();
    stage.then(|signals| signals.stop(SIGTERM));
    let status = stage.path("status");
    let config =
        stage.config(&format!("drain = \"0s\"\nshutdown = \"1h\"\nstatus = {status:?}"), "");
    config.check().unwrap();
    let (mut said, mut is_there) = (Vec::new(), false);
    stage.run(config, &mut Config::default, &mut |message| {
        if !std::mem::replace(&mut is_there, true) {
            fs::write(stage.path("snapshots-1"), "a file").unwrap();
        }
        said.push(message.to_owned());
    });
    let dir = stage.path("snapshots-1").display().to_string();
    let sentence = format!(
        "no snapshot (signal) in {dir}: it is no directory: name another one, or move the file away"
    );
    assert!(said.contains(&sentence), "{said:#?}");
    assert_eq!(named(&said, written).len(), RULES - 1, "{said:#?}");
    let status: Value = serde_json::from_slice(&fs::read(status).unwrap()).unwrap();
    assert_eq!(status["snapshots_trouble"], sentence, "{status}");
}

#[test]
fn a_sidecar_without_an_output_consumes_nothing() {
    let stage = Stage::new();
    let drops = stage.path("rings").join("drops");
    publish(&mut ring(&stage.path("rings"), "drops", Policy::Drop), 0..10);
    let mut config = stage.config("", "");
    config.outputs.clear();
    let described = config.describe().join("\n");
    assert!(described.contains("observed") && !described.contains("consumed"), "{described}");
    let mut sidecar = Sidecar::start(config).unwrap().once();
    let ended = sidecar.run(&stage.signals, &mut || Ok(Config::default()), &mut |_| {});
    assert!(matches!(ended, End::Drained), "{ended:?}");
    let totals = Stat::read(drops).unwrap().totals.unwrap();
    assert_eq!((totals.tail, totals.producer.written.records), (0, 10));
}
