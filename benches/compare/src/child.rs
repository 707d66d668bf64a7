//! A process of a sample.
//!
//! It gets its order over a socket, which is its standard input, and answers there. Its standard
//! output and error are files, as libraries may print anything.

use crate::CompareError;
use crate::entrants::{Kind, by_name};
use crate::part::{Order, Part, Word};
use crate::player::bare;
use crate::stage::{Page, Stage};
use perfring_bench::cores::Pinned;
use perfring_bench::die_with_parent;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

/// The first argument of such a process.
pub const CHILD_ARG: &str = "__compare-child";

/// Plays its parts. Arguments: the parent's process id.
///
/// # Errors
/// The error, which is also sent to the conductor, if it is still running.
pub fn child(args: &[String]) -> Result<(), CompareError> {
    let [parent] = args else {
        return Err(CompareError::Usage(format!("{CHILD_ARG} is for the harness itself")));
    };
    if !die_with_parent(parent)? {
        return Ok(());
    }
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut lines = BufReader::new(socket.try_clone()?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let out = Mutex::new(socket);
    match order.parts.as_slice() {
        // Alone, without a second thread: a library or the kernel may be slower with one.
        [part] => {
            let lines = Mutex::new(lines);
            perform(&order, 0, part, &out, || listen(&mut *lock(&lines)?))
        }
        parts => in_threads(&order, parts, &out, lines),
    }
}

fn in_threads(
    order: &Order,
    parts: &[Part],
    out: &Mutex<UnixStream>,
    mut lines: BufReader<UnixStream>,
) -> Result<(), CompareError> {
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
            Err(_) => Err(CompareError::Usage("a thread panicked".to_owned())),
        })
    })
}

fn conductor_ended() -> CompareError {
    io::Error::from(io::ErrorKind::UnexpectedEof).into()
}

fn lock<T>(mutex: &Mutex<T>) -> Result<std::sync::MutexGuard<'_, T>, CompareError> {
    mutex.lock().map_err(|_| conductor_ended())
}

/// Waits for a message from the conductor.
fn listen(lines: &mut BufReader<UnixStream>) -> Result<(), CompareError> {
    if lines.read_line(&mut String::new())? == 0 {
        return Err(conductor_ended());
    }
    Ok(())
}

fn say(out: &Mutex<UnixStream>, index: usize, word: &Word) -> Result<(), CompareError> {
    let mut line = serde_json::to_vec(&(index, word))?;
    line.push(b'\n');
    Ok(lock(out)?.write_all(&line)?)
}

/// Plays one part and reports errors.
fn perform(
    order: &Order,
    index: usize,
    part: &Part,
    out: &Mutex<UnixStream>,
    listen: impl Fn() -> Result<(), CompareError>,
) -> Result<(), CompareError> {
    let played = play(order, part, &order.page, |word| say(out, index, &word), listen);
    if let Err(error) = &played {
        say(out, index, &Word::Failed(error.to_string()))?;
    }
    played
}

fn play(
    order: &Order,
    part: &Part,
    page: &Path,
    say: impl Fn(Word) -> Result<(), CompareError>,
    listen: impl Fn() -> Result<(), CompareError>,
) -> Result<(), CompareError> {
    let _pinned = part.core.map(Pinned::to).transpose()?;
    let stage = Stage::new(Page::open(page)?, say, listen);
    match by_name(&order.contestant).map(|entry| entry.kind) {
        Some(Kind::Ends(player)) => player.play(part, &stage),
        Some(Kind::Memcpy | Kind::Line) => bare(part, &stage),
        Some(Kind::NotBuilt(why)) => Err(CompareError::Usage(why.to_owned())),
        None => Err(CompareError::Usage(format!("no contestant {}", order.contestant))),
    }
}
