//! `perfring view`: a page that shows rings.

use crate::args;
use crate::failure::{Failure, note, summary};
use crate::stop::{POLL, Stop};
use perfring_consumer::{AttachError, Location, Observer, Start};
use perfring_export::Stream;
use perfring_export::recording::is_recording;
use perfring_view::serve::{Options, Server, StartError, is_loopback};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Watch rings in a browser: rates, fill, lags, losses, records
///
/// Serves one page, which needs nothing from the network, and prints its address. The address has a token: anyone
/// with the address can see the rings. Reads as an observer: it needs read permission, and disturbs no process. If
/// there are too many records, it shows a sample and reports that.
///
/// The page also shows recordings, and snapshots of rings, which a button takes.
///
/// It shows rings, those of directories, and those of sets of rings in directories; rings that appear later are shown
/// within a second.
///
/// Example: perfring view /dev/shm/perfring-1000 --open
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories of rings, rings, and recordings; by default this user's directory of rings
    #[arg(value_name = "DIR|RING|RECORDING")]
    paths: Vec<PathBuf>,
    /// The address and port to listen on; port 0 is a free one. With any but a loopback address, other machines can
    /// connect, and the page is not encrypted
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// Open the page in the default browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let paths = args::watched(&args.paths)?;
    let stop = Stop::patient()?;
    let server = serve(paths, &args.listen)?;
    Stream::stdout()
        .write_all(format!("{}\n", server.url()).as_bytes())
        .map_err(Failure::output)?;
    if io::stdout().is_terminal() && !args.open {
        summary("open this address in a browser; Ctrl-C ends this");
    }
    if args.open {
        open(server.url());
    }
    while stop.signal().is_none() {
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Serves the page.
pub(crate) fn serve(paths: Vec<PathBuf>, listen: &str) -> Result<Server, Failure> {
    let (recordings, paths): (Vec<_>, Vec<_>) =
        paths.into_iter().partition(|path| is_recording(path));
    // What was named and is no ring is not left out in silence, as it is in a directory.
    for path in paths.iter().filter(|path| path.is_file()) {
        match Observer::attach(Location::File(path.clone()), Start::Latest) {
            Err(AttachError::Bad { source, .. }) => {
                let path = path.display();
                let why = format!("{path} is neither a ring nor a recording: {source}");
                return Err(Failure::Damaged(why));
            }
            opened => drop(opened?),
        }
    }
    if !is_loopback(listen) {
        note(&format!(
            "{listen} is not a loopback address: what the page shows crosses the network unencrypted"
        ));
    }
    Server::start(Options { paths, recordings, listen: listen.to_owned() }).map_err(|error| {
        match error {
            StartError::Listen { .. } => Failure::Usage(error.to_string()),
            StartError::Recording { .. } => Failure::Damaged(error.to_string()),
            error => Failure::general(error),
        }
    })
}

/// Opens a page in the user's browser.
pub(crate) fn open(url: &str) {
    let browser = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = browser {
        note(&format!("cannot start a browser by xdg-open: {error}; open the address yourself"));
    }
}
