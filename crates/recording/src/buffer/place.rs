//! How far a buffer is delivered, in a file beside those with its events.

use super::ends::Ends;
use crate::machine::boot;
use perfring_events::{FileMode, replace};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use uuid::Uuid;

const FILE: &str = "place";
const VERSION: u32 = 1;
/// The limit of rings; beyond it all are forgotten, and may be repeated.
const RINGS_MAX: usize = 65_536;

/// How far all of a buffer is delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    version: u32,
    /// The output that has it. What another one has says nothing of this one.
    output: String,
    /// The number of the file that was read.
    pub(super) file: u64,
    /// When that was begun, ns since 1970: another file may have its number.
    pub(super) began: u64,
    /// How many of its events are delivered.
    pub(super) events: u64,
    /// The first file that has all records of its rings, up to the last one that it has of each;
    /// `u64::MAX` while rules leave some out. What is in files before it may be read in the rings
    /// again, so nothing follows from where they end.
    pub(super) exact: u64,
    /// What is delivered of rings, of such files.
    pub(super) rings: Ends,
    /// The boot of the machine in which that was so: a crash of the machine can take a ring's file
    /// back to an older state, and other records then have those positions.
    boot: Uuid,
}

impl Place {
    /// Creates the place before everything.
    pub(super) fn new(output: &str) -> Self {
        let boot = Uuid::from_bytes(boot());
        Place { version: VERSION, output: output.to_owned(), boot, ..Place::default() }
    }

    /// Reads the place of this output from a buffer's directory, if there is one.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn read(dir: &Path, output: &str) -> Result<Option<Self>, String> {
        let text = match fs::read_to_string(path(dir)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| error.to_string())?,
        };
        let (sum, json) = text.split_once(' ').ok_or("it was cut short, or is something else")?;
        if sum != sum_of(json) {
            return Err("its checksum is wrong".to_owned());
        }
        let place: Place = serde_json::from_str(json).map_err(|error| error.to_string())?;
        match place {
            Place { version, .. } if version != VERSION => {
                Err(format!("version {version}, and this program reads version {VERSION}"))
            }
            Place { output: other, .. } if other != output => {
                Err(format!("it is that of the output {other}"))
            }
            place => Ok(Some(place.of_now())),
        }
    }

    /// Forgets what another boot of the machine knew of rings.
    fn of_now(self) -> Self {
        let Place { output, boot, .. } = Place::new(&self.output);
        let rings = if boot == self.boot { self.rings } else { Ends::new() };
        Place { output, boot, rings, ..self }
    }

    /// Returns the content of its file.
    fn text(&mut self) -> io::Result<String> {
        if self.rings.len() > RINGS_MAX {
            self.rings.clear();
        }
        let json = serde_json::to_string(self)? + "\n";
        Ok(format!("{} {json}", sum_of(&json)))
    }

    /// Writes it without waiting for the disk: what is delivered stays so, whichever place a crash
    /// of the machine leaves. (Events that were written to a file since that was last synced are
    /// lost in such a crash.)
    pub(super) fn write(&mut self, dir: &Path) -> io::Result<()> {
        let draft = dir.join("place.new");
        FileMode::PRIVATE.create(&draft)?.write_all(self.text()?.as_bytes())?;
        fs::rename(&draft, path(dir))
    }

    /// Removes it: without it, nothing is taken for delivered.
    pub(super) fn remove(dir: &Path) -> io::Result<()> {
        fs::remove_file(path(dir))
    }

    /// Writes it to the disk.
    pub(super) fn write_to_disk(&mut self, dir: &Path) -> io::Result<()> {
        replace(&path(dir), self.text()?.as_bytes(), FileMode::PRIVATE)
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

fn sum_of(json: &str) -> String {
    format!("{:08x}", crc32fast::hash(json.as_bytes()))
}
