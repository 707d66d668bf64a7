//! The record types of call sites.

use perfring_producer::types::{Class, Constant, Field, Shape};
use perfring_producer::{RecordType, ReserveError};
use perfring_telemetry::names::{self, AttributeName};
use perfring_telemetry::{FIRST, Log, Severity, Signal, Sink, SpanEnd, SpanStart};
use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tracing_core::{Level, Metadata};

/// The numbers of the ids in a call site's own type.
pub(crate) const TRACE_ID: u16 = FIRST;
pub(crate) const SPAN_ID: u16 = FIRST + 1;
/// Only in a span's type.
pub(crate) const PARENT_SPAN_ID: u16 = FIRST + 2;

/// The numbers of the fields of [`SpanEnd`].
pub(crate) struct End {
    pub(crate) trace: u16,
    pub(crate) span: u16,
    pub(crate) parent: u16,
    pub(crate) name: u16,
    pub(crate) duration: u16,
    pub(crate) status: u16,
    pub(crate) message: u16,
}

pub(crate) const END: End = End {
    trace: number(names::TRACE_ID),
    span: number(names::SPAN_ID),
    parent: number(names::PARENT_SPAN_ID),
    name: number(names::NAME),
    duration: number(names::DURATION),
    status: number(names::STATUS_CODE),
    message: number(names::STATUS_MESSAGE),
};

/// Returns the number of a field of [`SpanEnd`].
const fn number(name: &str) -> u16 {
    let (fields, mut at) = (SpanEnd::SCHEMA.fields, 0);
    // One that is missing does not compile.
    while !is_same(fields[at].name.as_bytes(), name.as_bytes()) {
        at += 1;
    }
    at as u16
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A call site's record type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// Its own type, or the built-in one if the ring's table is full.
    pub(crate) kind: RecordType,
    /// The number of its first field; `None` if the names are in the records.
    pub(crate) first: Option<u16>,
    /// Whether it is a span with fields that OpenTelemetry gives a meaning.
    pub(crate) has_otel: bool,
    /// Where [`Sites`] has it: see [`Sites::metadata`].
    pub(crate) place: u32,
}

/// Returns the reserved name that a field has in records of this class; `None` for an attribute.
fn meaning(class: Class, metadata: &Metadata<'_>, field: &str) -> Option<&'static str> {
    match field {
        _ if class != Class::Log => None,
        "message" => Some(names::BODY),
        // The fields that `tracing-log` makes of records of the `log` crate.
        "log.target" if is_of_log(metadata) => Some(names::SCOPE),
        "log.file" if is_of_log(metadata) => Some(names::FILE),
        "log.line" if is_of_log(metadata) => Some(names::LINE),
        _ => None,
    }
}

/// Calls `act` with the name of a field in records of this class.
pub(crate) fn with_name<R>(
    class: Class,
    metadata: &Metadata<'_>,
    field: &str,
    act: impl FnOnce(&str) -> R,
) -> R {
    match meaning(class, metadata, field) {
        Some(name) => act(name),
        None => act(AttributeName::new(class, field).as_str()),
    }
}

/// Returns whether one of the call site's own fields has this name in a record.
pub(crate) fn is_own(class: Class, metadata: &Metadata<'_>, name: &str) -> bool {
    let mut fields = metadata.fields().iter();
    fields.any(|field| with_name(class, metadata, field.name(), |own| own == name))
}

/// Returns whether it is a span with fields that OpenTelemetry gives a meaning.
pub(crate) fn has_otel(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.fields().iter().any(|field| field.name().starts_with("otel."))
}

/// Returns whether each record of a span has its name, which a field may say.
pub(crate) fn is_renamed(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.fields().field("otel.name").is_some()
}

pub(crate) fn is_of_log(metadata: &Metadata<'_>) -> bool {
    metadata.target() == "log" && metadata.file().is_none()
}

pub(crate) fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warn,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        _ => Severity::Trace,
    }
}

/// Returns an event's explicit name.
pub(crate) fn event_name<'a>(metadata: &Metadata<'a>) -> Option<&'a str> {
    let name = metadata.name();
    (!name.starts_with("event ") && !is_of_log(metadata)).then_some(name)
}

/// Calls `each` with what is the same in all records of a call site.
pub(crate) fn constants<'a>(
    class: Class,
    metadata: &Metadata<'a>,
    mut each: impl FnMut(&'static str, Constant<'a>),
) {
    let level = severity(*metadata.level());
    if class == Class::Log {
        each(names::SEVERITY_NUMBER, Constant::U64(level.number()));
        each(names::SEVERITY_TEXT, Constant::Str(level.name()));
        if let Some(name) = event_name(metadata) {
            each(names::EVENT_NAME, Constant::Str(name));
        }
    } else {
        each(names::NAME, Constant::Str(metadata.name()));
        each("level", Constant::Str(level.name()));
    }
    if is_of_log(metadata) {
        return; // one call site stands for all records of the `log` crate
    }
    each(names::SCOPE, Constant::Str(metadata.target()));
    if let Some(file) = metadata.file() {
        each(names::FILE, Constant::Str(file));
    }
    if let Some(line) = metadata.line() {
        each(names::LINE, Constant::U64(line.into()));
    }
    if let Some(module) = metadata.module_path().filter(|module| *module != metadata.target()) {
        each(names::MODULE, Constant::Str(module));
    }
}

impl Site {
    /// Returns the built-in type.
    fn ready(metadata: &Metadata<'_>) -> Self {
        let kind = if metadata.is_span() { SpanStart::SCHEMA.id } else { Log::SCHEMA.id };
        Site { kind, first: None, has_otel: has_otel(metadata), place: NOWHERE }
    }

    #[cold]
    fn new(sink: &Sink, metadata: &'static Metadata<'static>) -> Result<Self, ReserveError> {
        let class = if metadata.is_span() { Class::SpanStart } else { Class::Log };
        let mut ids = vec![names::TRACE_ID, names::SPAN_ID];
        if class == Class::SpanStart {
            ids.push(names::PARENT_SPAN_ID);
        }
        let fields = metadata.fields().iter();
        let own: Vec<String> =
            fields.map(|field| with_name(class, metadata, field.name(), str::to_owned)).collect();
        let all = ids.iter().copied().chain(own.iter().map(String::as_str));
        let mut fields: Vec<_> = all.map(|name| Field::new(name, 0, Shape::ANY)).collect();
        constants(class, metadata, |name, value| {
            // The program's own fields take precedence.
            let is_own = own.iter().any(|own| own == name);
            if !(is_own || name == names::NAME && is_renamed(metadata)) {
                fields.push(Field::constant(name, value));
            }
        });
        let kind = sink.declare(class, &type_name(metadata), "", &fields)?;
        let first = Some(FIRST + ids.len() as u16);
        Ok(Site { kind, first, has_otel: has_otel(metadata), place: NOWHERE })
    }
}

/// Returns `module::name`, or `module:line` for an event without a name.
fn type_name(metadata: &Metadata<'_>) -> Cow<'static, str> {
    let target = metadata.target();
    match (metadata.is_span(), event_name(metadata), metadata.line()) {
        (true, ..) => format!("{target}::{}", metadata.name()).into(),
        (false, Some(name), _) => format!("{target}::{name}").into(),
        (false, None, Some(line)) => format!("{target}:{line}").into(),
        (false, None, None) if is_of_log(metadata) => {
            format!("log:{}", severity(*metadata.level()).name()).into()
        }
        (false, None, None) => target.to_owned().into(),
    }
}

#[inline(always)]
fn hash(metadata: &'static Metadata<'static>) -> usize {
    let address = std::ptr::from_ref(metadata).addr() as u64;
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

/// The place of a call site that is not kept.
const NOWHERE: u32 = u32::MAX;

/// The call sites so far, by the address of their metadata. It only grows, and is read without a lock.
#[derive(Debug)]
pub(crate) struct Sites {
    entries: Box<[OnceLock<(&'static Metadata<'static>, Site)>]>,
    /// Records of unknown call sites until the next attempt to register one, after one that timed out.
    patience: AtomicU32,
    /// The next table.
    next: OnceLock<Box<Sites>>,
}

impl Sites {
    const ENTRIES: usize = 1024;
    /// Entries that are tried in each table.
    const TRIES: usize = 8;
    /// An attempt may take 0.1 s.
    const PATIENCE: u32 = 1024;

    pub(crate) fn new() -> Self {
        Sites {
            entries: (0..Self::ENTRIES).map(|_| OnceLock::new()).collect(),
            patience: AtomicU32::new(0),
            next: OnceLock::new(),
        }
    }

    /// Returns what is to be kept for a call site, or else as `Err` how it writes this once.
    #[cold]
    fn make(&self, sink: &Sink, metadata: &'static Metadata<'static>) -> Result<Site, Site> {
        let patience = self.patience.load(Ordering::Relaxed);
        if patience > 0 {
            // Two threads may count as one.
            self.patience.store(patience - 1, Ordering::Relaxed);
            return Err(Site::ready(metadata));
        }
        match Site::new(sink, metadata) {
            Ok(site) => Ok(site),
            Err(error) if Sink::may_declare_later(&error) => {
                self.patience.store(Self::PATIENCE, Ordering::Relaxed);
                Err(Site::ready(metadata))
            }
            Err(_) => Ok(Site::ready(metadata)),
        }
    }

    /// Returns the site of this metadata, and makes it first if it is new. `once` is for one that cannot be kept yet.
    #[inline(always)]
    pub(crate) fn of<'a>(
        &'a self,
        sink: &Sink,
        metadata: &'static Metadata<'static>,
        once: &'a mut Option<Site>,
    ) -> &'a Site {
        match self.entries[hash(metadata) % Self::ENTRIES].get() {
            Some((its, site)) if std::ptr::eq(*its, metadata) => site,
            _ => once.insert(self.search(sink, metadata)),
        }
    }

    #[inline(never)]
    fn search(&self, sink: &Sink, metadata: &'static Metadata<'static>) -> Site {
        let hash = hash(metadata);
        let (mut table, mut first) = (self, 0);
        loop {
            for at in 0..Self::TRIES {
                let at = (hash + at) % Self::ENTRIES;
                let entry = &table.entries[at];
                let (its, site) = match entry.get() {
                    Some(found) => found,
                    // Registered outside of the lock: at worst the same type twice.
                    None => {
                        match self.make(sink, metadata) {
                            Ok(site) => {
                                let place = first + at as u32;
                                let _ = entry.set((metadata, Site { place, ..site }));
                            }
                            Err(site) => return site,
                        }
                        match entry.get() {
                            Some(found) => found,
                            None => continue,
                        }
                    }
                };
                if std::ptr::eq(*its, metadata) {
                    return *site;
                }
            }
            table = table.next.get_or_init(|| Box::new(Sites::new()));
            first += Self::ENTRIES as u32;
        }
    }

    /// Returns the metadata of the call site that is kept at a place.
    #[inline]
    pub(crate) fn metadata(&self, place: u32) -> Option<&'static Metadata<'static>> {
        let (mut table, mut at) = (self, place as usize);
        while at >= Self::ENTRIES {
            table = table.next.get()?;
            at -= Self::ENTRIES;
        }
        table.entries[at].get().map(|(metadata, _)| *metadata)
    }
}
