//! Publishing a process's context, and reading that of any process.

use crate::message;
use perfring_shm::{ThreadContext, publish_process_context};
use perfring_types::read::Value;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use thiserror::Error;

/// The resource that a process publishes of itself, with the names of OpenTelemetry's semantic
/// conventions.
///
/// Values are text, numbers, truth values, bytes, lists and maps (`Value::Struct`), also within one another. A value of a
/// kind that this version does not know is `Value::Null`. Names may occur more than once: the process wrote them so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProcessContext {
    /// Names and values of the resource.
    pub attributes: Vec<(String, Value)>,
    /// Names and values that are for readers on this machine and no part of the resource, such as the names that thread
    /// contexts refer to (`threadlocal.attribute_key_map`). Outputs do not forward them.
    pub extra: Vec<(String, Value)>,
    /// When it was published, `CLOCK_BOOTTIME`, ns. A later one says that it was changed.
    pub published_ns: u64,
}

/// Shows the sentence, which is what `main() -> Result` prints.
impl std::fmt::Debug for ContextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Why a process's context cannot be read.
#[derive(Error)]
#[non_exhaustive]
pub enum ContextError {
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// The process may not be traced.
    #[error(
        "the memory of process {pid} may not be read: that needs its user and no yama ptrace_scope, or CAP_SYS_PTRACE"
    )]
    Denied {
        /// Its number.
        pid: u32,
    },
    /// The process has such a mapping, and it is not what OTEP 4719 says, or changes all the time.
    #[error("the process context of process {pid} cannot be read: {why}")]
    Invalid {
        /// Its number.
        pid: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// The kernel refuses for another reason.
    #[error("the process context of process {pid} cannot be read: {source}")]
    Io {
        /// Its number.
        pid: u32,
        /// Why.
        source: io::Error,
    },
}

/// Publishes attributes as this process's context, or replaces those that this function has published. They are readable
/// to whoever may trace the process, until it ends; a forked child has none.
///
/// If the program exports the variable of thread contexts ([`ThreadContext::publish`]), the context also has the extra
/// attributes by which profilers know of it.
///
/// A process has one context. If another library has published one, leave it at that: see [`ProcessContext::own`].
///
/// # Errors
/// More than [`PROCESS_CONTEXT_MOST`](crate::PROCESS_CONTEXT_MOST) bytes, another thread that publishes at the same time,
/// or a kernel that refuses the mapping or its name.
pub fn publish<N, V>(attributes: impl IntoIterator<Item = (N, V)>) -> io::Result<()>
where
    N: Into<String>,
    V: Into<String>,
{
    publish_process_context(&message::encode(attributes, ThreadContext::is_exported()))
}

/// The names that the mapping can have: that of the file, or the one that `prctl(2)` gave.
const NAMES: [&str; 3] = ["/memfd:OTEL_CTX", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"];
/// Mappings of that name that are looked at: a process should have one.
const MOST_MAPPINGS: usize = 4;
const HEADER: usize = 32;
/// The longest payload that is read, as by OpenTelemetry's profiler.
const PAYLOAD_MOST: u32 = 64 << 10;
/// Attempts while the process writes it.
const ATTEMPTS: u32 = 3;

impl ProcessContext {
    /// Returns the context of a process by its number in this pid namespace, or `None` if it has published none.
    ///
    /// # Errors
    /// See [`ContextError`].
    pub fn of(pid: u32) -> Result<Option<Self>, ContextError> {
        Self::read(pid, &pid.to_string(), None)
    }

    /// Returns the context of the process of this number, if it has this file mapped: so a number out of a file says
    /// something of its writer, even if that was of another pid namespace, or the number was given to another process.
    ///
    /// # Errors
    /// See [`ContextError`].
    pub fn of_who_maps(pid: u32, file: &Metadata) -> Result<Option<Self>, ContextError> {
        Self::read(pid, &pid.to_string(), Some(file))
    }

    /// Returns this process's own context, whichever library has published it.
    ///
    /// # Errors
    /// See [`ContextError`].
    pub fn own() -> Result<Option<Self>, ContextError> {
        Self::read(std::process::id(), "self", None)
    }

    /// Returns the text of an attribute of the resource: the first one of this name. `None` if its value is not text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        match self.attributes.iter().find(|(its, _)| its == name)? {
            (_, Value::Str(text)) => Some(text),
            _ => None,
        }
    }

    fn read(
        pid: u32,
        process: &str,
        mapped: Option<&Metadata>,
    ) -> Result<Option<Self>, ContextError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => ContextError::NoProcess { pid },
            io::ErrorKind::PermissionDenied => ContextError::Denied { pid },
            _ => ContextError::Io { pid, source },
        };
        let Mappings { places, has_file } = Mappings::read(process, mapped).map_err(failed)?;
        if places.is_empty() || !has_file {
            return Ok(None);
        }
        let memory = File::open(format!("/proc/{process}/mem")).map_err(failed)?;
        let mut why = "";
        for place in places {
            for _ in 0..ATTEMPTS {
                match read_at(&memory, place) {
                    Ok(context) => return Ok(Some(context)),
                    Err(Unread::Changing) => why = "it changes all the time",
                    Err(Unread::Invalid(reason)) => {
                        why = reason;
                        break;
                    }
                }
            }
        }
        Err(ContextError::Invalid { pid, why })
    }
}

/// Returns whether a process has this file mapped.
pub(crate) fn has_mapped(process: &str, file: &Metadata) -> io::Result<bool> {
    Mappings::read(process, Some(file)).map(|mappings| mappings.has_file)
}

/// What `/proc/PID/maps` shows.
struct Mappings {
    /// Where mappings of that name begin.
    places: Vec<u64>,
    /// Whether the file is mapped, or none was asked for.
    has_file: bool,
}

impl Mappings {
    fn read(process: &str, file: Option<&Metadata>) -> io::Result<Self> {
        let device = file.map(|file| {
            let dev = file.dev();
            // As the kernel prints it, and as glibc's `major(3)` and `minor(3)` take it apart.
            let major = dev >> 8 & 0xfff | dev >> 32 & !0xfff;
            let minor = dev & 0xff | dev >> 12 & !0xff;
            (format!("{major:02x}:{minor:02x}"), file.ino().to_string())
        });
        let mut found = Mappings { places: Vec::new(), has_file: file.is_none() };
        let maps = BufReader::new(File::open(format!("/proc/{process}/maps"))?);
        for line in maps.split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            // Address, permissions, offset, device, inode, name.
            let mut fields = line.split_ascii_whitespace();
            let Some(range) = fields.next() else { continue };
            let (device_here, inode) = (fields.nth(2), fields.next());
            if let Some((device, wanted)) = &device {
                found.has_file |= device_here == Some(device) && inode == Some(wanted);
            }
            let start = range.split('-').next();
            let start = start.and_then(|start| u64::from_str_radix(start, 16).ok());
            if let (Some(start), Some(name)) = (start, fields.next())
                && NAMES.contains(&name)
                && found.places.len() < MOST_MAPPINGS
            {
                found.places.push(start);
            }
        }
        Ok(found)
    }
}

enum Unread {
    Changing,
    Invalid(&'static str),
}

/// Reads the context whose header is there: the header, the payload, and the header's time again.
fn read_at(memory: &File, place: u64) -> Result<ProcessContext, Unread> {
    let gone = |_| Unread::Invalid("its memory is not there any more");
    let mut header = [0; HEADER];
    memory.read_exact_at(&mut header, place).map_err(gone)?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| header[at + byte]));
    let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| header[at + byte]));
    let (version, size, time, payload) = (half(8), half(12), word(16), word(24));
    if &header[..8] != b"OTEL_CTX" {
        return Err(Unread::Invalid("it has no signature"));
    }
    if version != 2 {
        return Err(Unread::Invalid("it is of another version than 2"));
    }
    if time == 0 {
        return Err(Unread::Changing);
    }
    if size == 0 || size > PAYLOAD_MOST {
        return Err(Unread::Invalid("its payload has no bytes, or more than 64 KiB"));
    }
    let mut bytes = vec![0; size as usize];
    let read = memory.read_exact_at(&mut bytes, payload);
    let mut again = [0; 8];
    memory.read_exact_at(&mut again, place + 16).map_err(gone)?;
    if u64::from_ne_bytes(again) != time {
        return Err(Unread::Changing);
    }
    read.map_err(|_| Unread::Invalid("its payload is not where it says"))?;
    let (attributes, extra) = message::decode(&bytes).ok_or(Unread::Invalid(
        "its payload is no protobuf message of a process context, or has values within too many others",
    ))?;
    Ok(ProcessContext { attributes, extra, published_ns: time })
}
