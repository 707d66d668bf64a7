//! Checks of places before anything is opened: the configuration's check and each output's open say the same.

use super::output::OutputError;
use super::replace::directory;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::Path;

/// The longest path of a Unix socket, without its zero.
const SOCKET_PATH: usize = 107;

/// Checks that a file can be made, or an existing one be written to.
///
/// ```
/// use std::path::Path;
/// let wrong = perfring_events::check_file(Path::new("/nowhere/x.jsonl")).unwrap_err();
/// assert!(wrong.starts_with("the directory /nowhere of /nowhere/x.jsonl does not exist: create it"));
/// ```
///
/// # Errors
/// A sentence: its directory does not exist, or is none, or the file is a directory, or this user may not write there.
pub fn check_file(file: &Path) -> Result<(), String> {
    let shown = file.display();
    if file.as_os_str().is_empty() {
        return Err("the path of a file is empty: name a file".to_owned());
    }
    if file.is_dir() {
        return Err(format!("{shown} is a directory: name a file in it"));
    }
    check_parent(file)?;
    match file.exists() {
        true => may_write(file),
        false => may_write(directory(file)),
    }
}

/// Checks that a directory can be made, or be written to.
///
/// # Errors
/// A sentence, as of [`check_file`].
pub fn check_directory(dir: &Path) -> Result<(), String> {
    if dir.as_os_str().is_empty() {
        return Err("the path of a directory is empty: name one".to_owned());
    }
    if dir.exists() {
        return match dir.is_dir() {
            true => may_write(dir),
            false => Err(format!("{} is not a directory: choose another path", dir.display())),
        };
    }
    check_parent(dir)?;
    may_write(directory(dir))
}

/// Checks that a directory can be made with those above it that do not exist, or be written to.
///
/// # Errors
/// A sentence, as of [`check_file`].
pub fn check_directories(dir: &Path) -> Result<(), String> {
    match dir.ancestors().find(|dir| dir.as_os_str().is_empty() || dir.exists()) {
        Some(above) if above.as_os_str().is_empty() => may_write(Path::new(".")),
        Some(above) => check_directory(above),
        None => Ok(()),
    }
}

/// Checks that a Unix socket can have this path.
///
/// # Errors
/// A sentence: it is longer than the 107 bytes that the kernel has for it.
pub fn check_socket(path: &Path) -> Result<(), String> {
    match path.as_os_str().len() {
        0 => Err("the path of a socket is empty".to_owned()),
        1..=SOCKET_PATH => Ok(()),
        bytes => Err(format!(
            "the path of the socket {} has {bytes} bytes, and the kernel takes {SOCKET_PATH} at most: choose a \
             shorter one",
            path.display()
        )),
    }
}

/// Checks that a server can listen on this address: a host of this machine, and a port. The port may be in use.
///
/// ```
/// assert_eq!(perfring_events::check_address("127.0.0.1:9464"), Ok(()));
/// assert!(perfring_events::check_address(":9464").unwrap_err().contains("has no host"));
/// assert!(perfring_events::check_address("9464").unwrap_err().contains("127.0.0.1:9464"));
/// ```
///
/// # Errors
/// A sentence: host or port is missing, unknown, or not of this machine.
pub fn check_address(address: &str) -> Result<(), String> {
    let Some((host, port)) = address.rsplit_once(':') else {
        let (lacks, port) = match address.parse::<u16>() {
            Ok(_) => ("host", address),
            Err(_) => ("port", "9464"),
        };
        return Err(format!("{address:?} has no {lacks}: write it as 127.0.0.1:{port}"));
    };
    if host.is_empty() {
        return Err(format!(
            "{address:?} has no host: write 127.0.0.1:{port} for this machine alone, or 0.0.0.0:{port} for others, too"
        ));
    }
    if port.parse::<u16>().is_err() {
        return Err(format!("{address:?} has no port: it ends with a number from 0 to 65535"));
    }
    let all = address.to_socket_addrs().map_err(|error| {
        format!("{address:?} is no address: {error}; write an IP address of this machine and a port, like 127.0.0.1:9464")
    })?;
    // With port 0, whatever port another process has.
    let bound = all.map(|at| TcpListener::bind((at.ip(), 0)).map(drop));
    match bound.fold(None, |before: Option<std::io::Result<()>>, next| {
        before.filter(Result::is_ok).or(Some(next))
    }) {
        Some(Err(error)) => Err(format!(
            "{address:?} is no address of this machine ({error}): write 127.0.0.1, 0.0.0.0, or one that `ip address` shows"
        )),
        _ => Ok(()),
    }
}

/// Checks a file or a directory of an output.
pub fn of_output(name: &str, checked: Result<(), String>) -> Result<(), OutputError> {
    checked.map_err(|sentence| OutputError::new(name, sentence))
}

/// Checks that a size or a number of an output is more than zero.
pub fn more_than_zero(name: &str, options: &[(&str, u64)]) -> Result<(), OutputError> {
    match options.iter().find(|(_, value)| *value == 0) {
        Some((key, _)) => Err(OutputError::new(name, format!("`{key}` must be more than 0"))),
        None => Ok(()),
    }
}

fn check_parent(file: &Path) -> Result<(), String> {
    let (dir, shown) = (directory(file), file.display());
    let is = dir.display();
    match dir.metadata() {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(format!("{is} of {shown} is not a directory: choose another path")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!(
            "the directory {is} of {shown} does not exist: create it, or choose another path"
        )),
        Err(error) => Err(format!("the directory {is} of {shown} cannot be read: {error}")),
    }
}

fn may_write(path: &Path) -> Result<(), String> {
    let how = if path.is_dir() { Access::WRITE_OK | Access::EXEC_OK } else { Access::WRITE_OK };
    match access(path, how) {
        Ok(()) => Ok(()),
        Err(Errno::ROFS) => Err(format!(
            "{} is on a file system that is read-only: choose another path",
            path.display()
        )),
        Err(error) => Err(format!(
            "{} may not be written to by this user ({error}): change its permissions, or choose another path",
            path.display()
        )),
    }
}
