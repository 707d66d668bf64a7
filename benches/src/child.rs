//! A process of a sample.
//!
//! It gets its order over a socket, which is its standard input, and answers there. Its standard
//! output and error are files, as libraries may print anything.

use crate::cores::Pinned;
use crate::error::{BenchError, Result, system};
use crate::part::{CHILD_ARG, Order, Part, Word};
use crate::player::{Entry, Kind};
use crate::stage::{Page, Stage};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

/// Returns the contestant of a name.
pub type Find = fn(&str) -> Option<Entry>;

/// Plays its parts. Arguments: the parent's process id.
///
/// # Errors
/// The error, which is also sent to the conductor, if it is still running.
pub fn child(args: &[String], find: Find) -> Result<()> {
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
    let out = Mutex::new(socket);
    let entry = find(&order.contestant)
        .ok_or_else(|| BenchError::Usage(format!("no contestant {}", order.contestant)))?;
    match order.parts.as_slice() {
        // Alone, without a second thread: a library or the kernel may be slower with one.
        [part] => {
            let lines = Mutex::new(lines);
            perform((&order, entry), 0, part, &out, || listen(&mut *lock(&lines)?))
        }
        parts => in_threads((&order, entry), parts, &out, lines),
    }
}

fn in_threads(
    order: (&Order, Entry),
    parts: &[Part],
    out: &Mutex<UnixStream>,
    mut lines: BufReader<UnixStream>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let mut prompts = Vec::new();
        let mut players = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let (prompt, prompted): (_, Receiver<()>) = channel();
            prompts.push(prompt);
            players.push(scope.spawn(move || {
                perform(order, index, part, out, || prompted.recv().map_err(|_| conductor_ended()))
            }));
        }
        // Twice: to open, and to end.
        for _ in 0..2 {
            if listen(&mut lines).is_err() {
                break;
            }
            for prompt in &prompts {
                // A part that has failed no longer listens, and has reported that.
                let _ = prompt.send(());
            }
        }
        drop(prompts);
        players.into_iter().try_for_each(|player| match player.join() {
            Ok(result) => result,
            Err(_) => Err(BenchError::Usage("a thread panicked".to_owned())),
        })
    })
}

fn conductor_ended() -> BenchError {
    io::Error::from(io::ErrorKind::UnexpectedEof).into()
}

fn lock<T>(mutex: &Mutex<T>) -> Result<std::sync::MutexGuard<'_, T>> {
    mutex.lock().map_err(|_| conductor_ended())
}

/// Waits for a message from the conductor.
fn listen(lines: &mut BufReader<UnixStream>) -> Result<()> {
    if lines.read_line(&mut String::new())? == 0 {
        return Err(conductor_ended());
    }
    Ok(())
}

fn say(out: &Mutex<UnixStream>, index: usize, word: &Word) -> Result<()> {
    let mut line = serde_json::to_vec(&(index, word))?;
    line.push(b'\n');
    Ok(lock(out)?.write_all(&line)?)
}

/// Plays one part and reports errors.
fn perform(
    (order, entry): (&Order, Entry),
    index: usize,
    part: &Part,
    out: &Mutex<UnixStream>,
    listen: impl Fn() -> Result<()>,
) -> Result<()> {
    let played = play(entry, part, &order.page, |word| say(out, index, &word), listen);
    if let Err(error) = &played {
        say(out, index, &Word::Failed(error.to_string()))?;
    }
    played
}

fn play(
    entry: Entry,
    part: &Part,
    page: &Path,
    say: impl Fn(Word) -> Result<()>,
    listen: impl Fn() -> Result<()>,
) -> Result<()> {
    let _pinned = part.core.map(Pinned::to).transpose()?;
    let stage = Stage::new(Page::open(page)?, say, listen);
    match entry.kind {
        Kind::Ends(player) => player.play(part, &stage),
        Kind::Bare(play) => play(part, &stage),
        Kind::NotBuilt(why) => Err(BenchError::Usage(why.to_owned())),
    }
}
