//! A process of a sample.
//!
//! It gets its order over a socket, which is its standard input, and answers there. Its standard
//! output and error are files, as libraries may print anything.

use crate::cores::Pinned;
use crate::entrants::Entrants;
use crate::error::{BenchError, Result, system};
use crate::part::{CHILD_ARG, Order, Word};
use crate::player::{Entry, Kind};
use crate::stage::{Page, Stage};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Plays its part in a sample. Arguments: the parent's process id.
///
/// # Errors
/// The error, which is also sent to the conductor, if it is still running.
pub fn child(args: &[String], entrants: &Entrants) -> Result<()> {
    let [parent] = args else {
        return Err(BenchError::Usage(format!("{CHILD_ARG} is for the harness itself")));
    };
    // The kernel kills this process when its parent ends, also while it spins.
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(system("prctl"))?;
    // The parent may have ended before the line above.
    if nix::unistd::getppid().to_string() != *parent {
        return Ok(());
    }
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut lines = BufReader::new(socket.try_clone()?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let entry = entrants
        .by_name(&order.contestant)
        .ok_or_else(|| BenchError::Usage(format!("no contestant {}", order.contestant)))?;
    let (socket, lines) = (&socket, RefCell::new(lines));
    let played = play(entry, &order, |word| say(socket, &word), || listen(&mut lines.borrow_mut()));
    if let Err(error) = &played {
        say(socket, &Word::Failed(error.to_string()))?;
    }
    played
}

/// Waits for a message from the conductor.
fn listen(lines: &mut BufReader<UnixStream>) -> Result<()> {
    if lines.read_line(&mut String::new())? == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(())
}

fn say(mut socket: &UnixStream, word: &Word) -> Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    Ok(socket.write_all(&line)?)
}

fn play(
    entry: Entry,
    order: &Order,
    say: impl Fn(Word) -> Result<()>,
    listen: impl Fn() -> Result<()>,
) -> Result<()> {
    let part = &order.part;
    let _pinned = part.core.map(Pinned::to).transpose()?;
    let stage = Stage::new(Page::open(&order.page)?, say, listen);
    match entry.kind {
        Kind::Ends(player) => (player.play)(part, &stage),
        Kind::Bare(play) => play(part, &stage),
        Kind::NotBuilt(why) => Err(BenchError::Usage(why.to_owned())),
    }
}
