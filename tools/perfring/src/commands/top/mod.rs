//! `perfring top`: a live table of rings.

mod table;
mod view;

use crate::args;
use crate::failure::Failure;
use crate::stop::Stop;
use perfring_export::later;
use perfring_view::row::Row;
use perfring_view::watch::Watch;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use table::Table;

/// The longest delay of a key or a signal.
const KEYS: Duration = Duration::from_millis(100);

/// Watch rings live: rate, fill, lag, losses, stalls
///
/// Needs read permission and disturbs no process. Rings that appear in a directory, or in a set of
/// rings in it, are shown from the next poll on. Press ? for the keys.
///
/// LAG counts the records that the consumer has not read; LOST counts records that were refused,
/// lapped or reclaimed: press Enter for each cause. What an overwrite ring overwrites is not
/// counted as lost.
///
/// Example: perfring top /dev/shm/perfring-1000
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories of rings, or rings; by default this user's directory of rings
    #[arg(value_name = "DIR|RING")]
    paths: Vec<PathBuf>,
    /// The time between two polls, like 250ms
    #[arg(long, short, value_name = "TIME", value_parser = args::interval, default_value = "1s")]
    interval: Duration,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let paths = args::watched(&args.paths)?;
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        let why = "top needs a terminal: use `perfring ls` or `perfring stat`";
        return Err(Failure::Usage(why.to_owned()));
    }
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let stop = Stop::patient()?;
    let failed = |error: io::Error| Failure::General(format!("cannot draw: {error}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = watch(
        &mut terminal,
        Watch::new(paths, Duration::ZERO),
        &names.join(" "),
        args.interval,
        &stop,
    );
    ratatui::restore();
    ended.map_err(failed)
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    mut watch: Watch,
    about: &str,
    interval: Duration,
    stop: &Stop,
) -> io::Result<()> {
    let mut table = Table::default();
    let mut next = Instant::now();
    let mut changed = true;
    while !table.quit && stop.signal().is_none() {
        let now = Instant::now();
        if now >= next && !table.paused {
            let mut rows = watch.peek(now);
            rows.iter_mut().for_each(Row::describe);
            table.set(rows);
            next = later(now, interval);
            changed = true;
        }
        if changed {
            let others = match (watch.others.len(), &watch.closed[..]) {
                (_, [closed, ..]) => format!("{about} ({closed})"),
                (0, []) => about.to_owned(),
                (1, []) => format!("{about} (and a file that is no ring)"),
                (others, []) => format!("{about} (and {others} files that are no rings)"),
            };
            terminal.draw(|frame| view::draw(frame, &mut table, &others))?;
            changed = false;
        }
        if event::poll(KEYS.min(interval))? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    press(&mut table, key);
                    changed = true;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
    }
    Ok(())
}

fn press(table: &mut Table, key: KeyEvent) {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        table.quit |= key.code == KeyCode::Char('c');
        return;
    }
    match key.code {
        KeyCode::Char(_) | KeyCode::Enter | KeyCode::Esc | KeyCode::Backspace => {}
        KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown => {}
        KeyCode::Home | KeyCode::End => {}
        _ => return,
    }
    table.key(key.code);
}
