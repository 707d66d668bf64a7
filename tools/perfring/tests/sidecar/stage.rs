//! Rings, and a sidecar that reads them.

use crate::command::{Live, Place, json_lines, perfring, skipped};
use perfring_producer::{Options, Policy, Producer};
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

/// A directory for rings, one for the outputs, and the stderr of the sidecar.
pub(super) struct Rings {
    pub(super) place: Place,
}

impl Rings {
    pub(super) fn new() -> Self {
        let place = Place::new();
        fs::create_dir(place.path("rings")).unwrap();
        Rings { place }
    }

    pub(super) fn dir(&self) -> String {
        self.path("rings")
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.place.path(name).to_str().unwrap().to_owned()
    }

    pub(super) fn ring(&self, name: &str, policy: Policy) -> Producer {
        let options = Options { size: 64 << 10, policy, time: true, ..Options::default() };
        Producer::create(self.place.path("rings").join(name), &options).unwrap()
    }

    /// A sidecar whose stderr goes to the file `said`.
    pub(super) fn sidecar(&self, args: &[&str]) -> Live {
        let said = File::options().append(true).create(true).open(self.path("said")).unwrap();
        let dir = self.dir();
        let mut all = vec!["sidecar", &dir];
        all.extend(args);
        if !args.contains(&"--drain") {
            all.extend(["--drain", "5m"]); // an end takes the time that a busy machine needs
        }
        let mut command = perfring(&all);
        command.stderr(Stdio::from(said));
        Live::of(command)
    }

    /// A disk with room for 512 KiB, if one may be mounted.
    pub(super) fn disk(&self) -> Option<Disk> {
        let disk = self.path("disk");
        fs::create_dir(&disk).unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k", "none", &disk])
            .output()
            .is_ok_and(|done| done.status.success());
        if !mounted {
            skipped("only root may mount a small disk to fill");
        }
        mounted.then_some(Disk(disk))
    }

    /// A ring with room for some hundred thousand records.
    pub(super) fn large_ring(&self, name: &str) -> Producer {
        let options = Options { size: 16 << 20, time: true, ..Options::default() };
        Producer::create(self.place.path("rings").join(name), &options).unwrap()
    }

    pub(super) fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    /// Returns all lines of a file and of the finished files before it.
    pub(super) fn lines(&self, stem: &str) -> Vec<Value> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.place.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(stem))
            .collect();
        files.sort();
        let whole = |path: &PathBuf| {
            // The last line may be incomplete.
            let text = fs::read_to_string(path).unwrap();
            json_lines(text.rsplit_once('\n').map_or("", |(whole, _)| whole))
        };
        files.iter().flat_map(whole).collect()
    }
}

/// A small disk, unmounted at the end.
pub(super) struct Disk(pub(super) String);

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

pub(super) fn publish(producer: &mut Producer, from: u64, to: u64) {
    for n in from..to {
        producer.publish(text(n).as_bytes()).unwrap();
    }
}

pub(super) fn text(n: u64) -> String {
    format!("record {n:08}")
}

pub(super) fn len(path: &str) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// The rest of stdout, and the code.
pub(super) fn rings_end(mut live: Live) -> (String, String, i32) {
    let mut out = String::new();
    std::io::Read::read_to_string(&mut live.out, &mut out).unwrap();
    let code = live.child.wait().unwrap().code().unwrap_or(-1);
    (out, String::new(), code)
}
