//! Rings of the inputs that are not read, and files that may be rings.

use crate::config::REASONS;
use crate::engine::Engine;
use crate::limits::RAISE_NOFILE;
use crate::log::Say;
use perfring_set::{NoRing, NotRead};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files of a directory of which each is reported, for each reason.
const REPORTED: usize = 5;
/// The limit of rings that the status lists.
const LISTED: usize = 100;

/// What is not read, by its path.
#[derive(Default)]
pub(crate) struct Unreadable {
    rings: BTreeMap<PathBuf, Unread>,
    /// Files in directories, by their reasons: a message for each of the first.
    files: BTreeMap<NotRead, usize>,
    /// Copies of rings that are read, with the rings' uuids.
    copies: BTreeMap<PathBuf, [u8; 16]>,
}

/// A copy of a ring that is read.
pub(crate) struct RingCopy<'a> {
    pub(crate) path: &'a Path,
    /// The location of the file that is read.
    pub(crate) of: String,
    /// The ring's name.
    pub(crate) ring: &'a str,
}

struct Unread {
    reason: NotRead,
    why: String,
    since: Instant,
}

impl Unreadable {
    /// Notes a file of a directory that a follower refuses, and reports it.
    pub(super) fn refused(&mut self, file: &NoRing, say: &mut Say<'_>) {
        let NoRing { path, why, reason, .. } = file;
        if *reason == NotRead::Limit {
            return self.short(path, &format!("{why}; {RAISE_NOFILE}"), say);
        }
        let nth = self.files.entry(*reason).or_default();
        *nth = nth.saturating_add(1);
        match *nth {
            ..=REPORTED => say.warn(&format!("{} is not read: {why}", path.display())),
            nth if nth == REPORTED + 1 => {
                let what = match reason {
                    NotRead::Foreign => "are no rings",
                    NotRead::Permission => "are not read for want of a permission",
                    _ => "are not read",
                };
                say.warn(&format!(
                    "more files {what}, and are not named here: `perfring ls DIR` names them"
                ));
            }
            _ => {}
        }
        if *reason == NotRead::Foreign {
            self.readable(path);
        } else {
            self.note(path, *reason, why);
        }
    }

    /// Notes a ring, or a file that may be one, that is not read because of a limit. Reports the first.
    pub(super) fn short(&mut self, path: &Path, why: &str, say: &mut Say<'_>) {
        if !self.rings.values().any(|unread| unread.reason == NotRead::Limit) {
            let path = path.display();
            say.warn(&format!("{path} is not read, and more rings may not be: {why}; retrying"));
        }
        self.note(path, NotRead::Limit, why);
    }

    /// Notes a ring that is not read.
    pub(super) fn note(&mut self, path: &Path, reason: NotRead, why: &str) {
        let now = Instant::now();
        let known = self.rings.entry(path.to_owned());
        let known = known.or_insert_with(|| Unread { reason, why: String::new(), since: now });
        known.reason = reason;
        if known.why != why {
            why.clone_into(&mut known.why);
        }
    }

    /// Notes a file that is a copy of a ring with this uuid.
    pub(super) fn copy(&mut self, path: &Path, uuid: [u8; 16]) {
        self.copies.insert(path.to_owned(), uuid);
    }

    /// Returns all copies of rings that are read.
    pub(crate) fn copies<'a>(
        &'a self,
        engine: &'a Engine,
    ) -> impl Iterator<Item = RingCopy<'a>> + 'a {
        self.copies.iter().filter_map(|(path, uuid)| {
            let ring = engine.rings().find(|ring| ring.origin.uuid == *uuid)?;
            Some(RingCopy { path, of: ring.location(), ring: &ring.origin.name })
        })
    }

    /// Returns the first copies as JSON.
    pub(crate) fn copies_json(&self, engine: &Engine) -> Value {
        let one = |RingCopy { path, of, ring }: RingCopy<'_>| json!({ "path": path.display().to_string(), "of": of, "ring": ring });
        self.copies(engine).take(LISTED).map(one).collect()
    }

    /// Notes that a ring can be read, or is gone. Returns whether it was not read before.
    pub(super) fn readable(&mut self, path: &Path) -> bool {
        self.copies.remove(path);
        self.rings.remove(path).is_some()
    }

    /// Notes that nothing below this path is an input any more.
    pub(super) fn left(&mut self, dir: &Path) {
        self.rings.retain(|path, _| !path.starts_with(dir));
        self.copies.retain(|path, _| !path.starts_with(dir));
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.rings.contains_key(path)
    }

    pub(crate) fn len(&self) -> usize {
        self.rings.len()
    }

    /// Returns how many are not read for each reason.
    pub(crate) fn counts(&self) -> [(NotRead, usize); REASONS.len()] {
        let count = |reason| self.rings.values().filter(|it| it.reason == reason).count();
        REASONS.map(|reason| (reason, count(reason)))
    }

    /// Adds why rings are not read, for these reasons. Rings that exceed a limit are one reason.
    pub(super) fn add_to(&self, reasons: &mut Vec<String>, counts: impl Fn(NotRead) -> bool) {
        let of = |limit: bool| {
            let all = self.rings.iter().filter(|(_, it)| counts(it.reason));
            all.filter(move |(_, it)| (it.reason == NotRead::Limit) == limit)
        };
        reasons.extend(of(false).map(|(path, it)| sentence(path, &it.why)));
        if let Some((_, last)) = of(true).last() {
            let number = of(true).count();
            reasons.push(format!("rings that are not read: {number}; {}", last.why));
        }
    }

    /// Returns the first ones as JSON.
    pub(crate) fn json(&self) -> Value {
        let one = |(path, it): (&PathBuf, &Unread)| {
            json!({
                "path": path.display().to_string(),
                "cause": it.reason.name(),
                "why": it.why,
                "since_seconds": it.since.elapsed().as_secs_f64(),
            })
        };
        self.rings.iter().take(LISTED).map(one).collect()
    }
}

/// A sentence that names the path, which errors of an attach do by themselves.
fn sentence(path: &Path, why: &str) -> String {
    let path = path.display().to_string();
    match why.contains(&path) {
        true => why.to_owned(),
        false => format!("{path} is not read: {why}"),
    }
}
