//! One process of a sample.

use crate::error::Result;
use crate::part::{CHILD_ARG, Order, Word};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// How much of the end of a process's output is reported.
const TAIL: usize = 400;

pub(super) struct Actor {
    child: Child,
    socket: UnixStream,
    unread: Vec<u8>,
    /// The messages that were not taken yet.
    words: VecDeque<Word>,
    /// It has closed its socket: it is ending, or has ended.
    closed: bool,
    printed: PathBuf,
}

impl Actor {
    pub(super) fn start(order: &Order, dir: &Path, number: usize) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let printed = dir.join(format!("printed-{number}"));
        let out = File::create(&printed)?;
        // This very executable, even if its path has a newer one by now.
        let child = Command::new("/proc/self/exe")
            .arg(CHILD_ARG)
            .arg(std::process::id().to_string())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(out.try_clone()?)
            .stderr(out)
            // Its own children are in its group and end with it.
            .process_group(0)
            .spawn()?;
        let (unread, words) = (Vec::new(), VecDeque::new());
        let mut actor = Actor { child, socket: ours, unread, words, closed: false, printed };
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        // If it is dead, that is found when its socket is read.
        actor.closed = actor.socket.write_all(&line).is_err();
        Ok(actor)
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(super) fn group(&self) -> u32 {
        self.child.id()
    }

    /// Lets it continue.
    pub(super) fn prompt(&mut self) -> std::io::Result<()> {
        self.socket.write_all(b"\n")
    }

    /// Reads the messages that have arrived.
    pub(super) fn listen(&mut self) -> Result<()> {
        let mut buffer = [0; 1 << 16];
        let count = self.socket.read(&mut buffer).unwrap_or(0);
        self.closed |= count == 0;
        self.unread.extend(buffer.iter().take(count));
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            self.words.push_back(serde_json::from_slice(&line)?);
        }
        Ok(())
    }

    /// Returns whether it has sent a message.
    pub(super) fn has_spoken(&self) -> bool {
        !self.words.is_empty()
    }

    /// Takes its first message.
    pub(super) fn take_word(&mut self) -> Option<Word> {
        self.words.pop_front()
    }

    /// Returns why it no longer continues, if so.
    pub(super) fn failure(&mut self) -> Option<String> {
        let failed = self.words.iter().find_map(|word| match word {
            Word::Failed(reason) => Some(reason.clone()),
            _ => None,
        });
        failed.or_else(|| (self.closed && !self.has_spoken()).then(|| self.last_words()))
    }

    /// Returns how it ended, and what it printed last.
    pub(super) fn last_words(&mut self) -> String {
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let how =
            self.child.wait().map_or_else(|error| error.to_string(), |s: ExitStatus| s.to_string());
        let printed = std::fs::read(&self.printed).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let printed = printed.trim();
        let from = printed.char_indices().rev().nth(TAIL - 1).map_or(0, |(at, _)| at);
        let tail = printed.get(from..).unwrap_or_default();
        if tail.is_empty() {
            format!("ended early: {how}")
        } else {
            format!("ended early: {how}: {tail}")
        }
    }

    pub(super) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // The group, as a library may have started a driver. It may have ended already; nothing
        // else can fail.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
