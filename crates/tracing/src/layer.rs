//! The layer that writes events and spans.

use crate::otel::{Otel, Others};
use crate::panics;
use crate::site::{self, END, PARENT_SPAN_ID, SPAN_ID, Site, Sites, TRACE_ID};
use crate::spans::{self, Ids, Span, Spans};
use crate::visit::Fields;
#[cfg(feature = "context")]
use perfring_context::ThreadContext;
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::types::{Class, Constant};
use perfring_producer::{Location, Options};
use perfring_telemetry::{
    Resource, Signal, Sink, SinkError, SpanEnd, SpanId, SpanStart, TraceId, names,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A [`Layer`] that writes events and spans into a ring.
///
/// ```
/// use perfring_tracing::{PerfringLayer, options};
/// use tracing_subscriber::{EnvFilter, Layer as _, prelude::*};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// let layer = PerfringLayer::create(&path, &options())?.with_filter(EnvFilter::new("info"));
/// let subscriber = tracing_subscriber::registry().with(layer);
/// # let _guard = tracing::subscriber::set_default(subscriber);
/// // subscriber.init();
/// tracing::info!(answer = 42, "ready");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PerfringLayer {
    sink: Sink,
    sites: Sites,
    spans: Spans,
    /// Distinguishes the spans that a thread is in from those of other layers.
    number: u64,
}

static LAYERS: AtomicU64 = AtomicU64::new(0);

impl PerfringLayer {
    /// Opens a directory with a ring for each CPU, and makes it if there is none, and creates a layer that writes there: see
    /// [`Sink::open`]. The fastest way for any number of threads and processes.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn open(dir: impl Into<PathBuf>, options: &Options) -> Result<Self, SinkError> {
        Sink::open(dir, options, Resource::here()).map(PerfringLayer::new)
    }

    /// Creates a shared ring, with [`options`](crate::options) or others, and a layer that writes to it.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn create(location: impl Into<Location>, options: &Options) -> Result<Self, SinkError> {
        Sink::create(location, options, Resource::here()).map(PerfringLayer::new)
    }

    /// Attaches to a shared ring, and creates a layer that writes to it.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn attach(location: impl Into<Location>) -> Result<Self, SinkError> {
        Sink::attach(location, Resource::here()).map(PerfringLayer::new)
    }

    /// Creates a layer that writes to this sink, with the sink's resource.
    ///
    /// ```
    /// use perfring_tracing::{PerfringLayer, Resource, Sink, options};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let resource = Resource::here().with("service.name", "shop").with("service.version", "2.1.0");
    /// let layer = PerfringLayer::new(Sink::create(&path, &options(), resource)?);
    /// assert_eq!(layer.sink().dropped(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(sink: Sink) -> Self {
        PerfringLayer {
            sink,
            sites: Sites::new(),
            spans: Spans::new(),
            number: LAYERS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Returns the sink that it writes to.
    #[must_use]
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// Installs a panic hook that writes each panic of the process to the layer's ring, and then calls
    /// the hook that was installed before, which prints it.
    ///
    /// The record is a [`Log`](perfring_telemetry::Log) of severity `FATAL` and event name `panic`: with
    /// the message, the source location, the thread's name and the span that the thread is in. It is in
    /// the ring before the panic unwinds or aborts, so it is there with `panic = "abort"` and after a
    /// panic in a destructor, too. A process that ends without a panic leaves no such record: `abort()`, a stack
    /// overflow, a signal. Filters do not apply.
    ///
    /// A panic inside of the layer, of the formatting of a value or of another layer is written, too: the
    /// hook takes no lock that the panicking thread may have. It waits for nothing but a shared ring's
    /// lock, and for no longer than any record does.
    ///
    /// ```
    /// use perfring_tracing::{PerfringLayer, options};
    /// use tracing_subscriber::prelude::*;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let layer = PerfringLayer::create(&path, &options())?;
    /// layer.panic_hook();
    /// let subscriber = tracing_subscriber::registry().with(layer);
    /// // subscriber.init();
    /// # let before = perfring_consumer::Snapshot::take(&path)?.iter().count();
    /// let _ = std::thread::spawn(|| panic!("the end")).join();
    /// # let after = perfring_consumer::Snapshot::take(&path)?.iter().count();
    /// # assert_eq!(after, before + 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_hook(&self) {
        panics::install(self.sink.clone(), self.number);
    }

    /// Returns the span that an event or a span is in.
    #[inline(always)]
    fn around(&self, given: Option<&Id>, is_contextual: bool) -> Option<Ids> {
        match given {
            Some(id) => self.spans.get(id.into_u64()),
            None if is_contextual => spans::current(self.number),
            None => None,
        }
    }

    /// Reads the fields of a span that OpenTelemetry gives a meaning, and notes what its end has of them.
    #[cold]
    fn noted(&self, id: &Id, read: impl FnOnce(&mut Otel)) -> Option<Otel> {
        let mut otel = Otel::default();
        read(&mut otel);
        if otel.is_of_end() {
            self.spans.note(id.into_u64(), otel.clone());
        }
        Some(otel)
    }
}

/// Says for profilers which span this thread is in, with the feature: a few stores. The trace is sampled: it is in the ring.
#[inline]
fn publish(_ids: Option<Ids>) {
    #[cfg(feature = "context")]
    {
        let context = _ids.map(|ids| ThreadContext::new(ids.trace().0, ids.span().0, 1));
        ThreadContext::publish(context.as_ref());
    }
}

impl<S> Layer<S> for PerfringLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut once = None;
        let site = self.sites.of(&self.sink, metadata, &mut once);
        let around = self.around(event.parent(), event.is_contextual());
        // The ring counts what it refuses.
        let severity = site::severity(*metadata.level());
        let _ = self.sink.write_at(severity, site.kind, |writer| {
            around.inspect(|ids| write_ids(ids, site, writer));
            unchanging(Class::Log, metadata, site, writer);
            event.record(&mut Fields { writer, first: site.first, class: Class::Log, metadata });
        });
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let metadata = attributes.metadata();
        let mut once = None;
        let site = self.sites.of(&self.sink, metadata, &mut once);
        let around = self.around(attributes.parent(), attributes.is_contextual());
        let (trace, span) = match around {
            Some(around) => (around.trace(), SpanId::random()),
            None => TraceId::random_with_span(),
        };
        let ids = Ids::new(trace, span);
        let parent = around.map(|around| around.span_word());
        let _ = self.sink.write_timed(site.kind, |start, writer| {
            // Before its values are formatted, which may use it.
            let place = site.place;
            self.spans.insert(id.into_u64(), &Span { ids, parent, start, site: place });
            let otel =
                if site.has_otel { self.noted(id, |otel| attributes.record(otel)) } else { None };
            write_ids(&ids, site, writer);
            match (parent, site.first) {
                (Some(parent), Some(_)) => {
                    writer.bytes(PARENT_SPAN_ID, &parent.get().to_ne_bytes());
                }
                (Some(parent), None) => {
                    writer.bytes(names::PARENT_SPAN_ID, &parent.get().to_ne_bytes());
                }
                (None, _) => {}
            }
            unchanging(Class::SpanStart, metadata, site, writer);
            let (first, class) = (site.first, Class::SpanStart);
            let Some(otel) = &otel else {
                return attributes.record(&mut Fields { writer, first, class, metadata });
            };
            if site::is_renamed(metadata) {
                writer.text(names::NAME, otel.name.as_deref().unwrap_or(metadata.name()));
            }
            otel.write(writer);
            attributes.record(&mut Others(Fields { writer, first, class, metadata }));
        });
    }

    /// Writes the values at once, so that they are in the ring after a crash.
    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(ids) = self.spans.get(id.into_u64()) else { return };
        let Some(metadata) = context.metadata(id) else { return };
        let otel = match site::has_otel(metadata) {
            true => self.noted(id, |otel| values.record(otel)),
            false => None,
        };
        if otel.as_ref().is_some_and(|otel| !otel.has_more && otel.kind.is_none()) {
            return; // the end has all of it
        }
        let _ = self.sink.write(SpanStart::SCHEMA.id, |writer| {
            writer.bytes(names::TRACE_ID, &ids.trace().0);
            writer.bytes(names::SPAN_ID, &ids.span().0);
            let class = Class::SpanStart;
            let fields = Fields { writer, first: None, class, metadata };
            match &otel {
                Some(otel) => {
                    otel.write(fields.writer);
                    values.record(&mut Others(fields));
                }
                None => values.record(&mut { fields }),
            }
        });
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        let (span, before) = (self.spans.get(id.into_u64()), self.spans.get(follows.into_u64()));
        let (Some(span), Some(before)) = (span, before) else { return };
        let more = SpanStart::new(span.trace(), span.span(), "");
        let link = Some((before.trace(), before.span()));
        let _ = self.sink.emit(&SpanStart { link, ..more });
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        let id = id.into_u64();
        if let Some(ids) = self.spans.get(id) {
            spans::enter(self.number, id, ids);
            publish(Some(ids));
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        spans::exit(self.number, id.into_u64());
        publish(spans::current(self.number));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some((span, otel)) = self.spans.remove(id.into_u64()) else { return };
        // The registry's search costs more than all else here.
        let metadata = self.sites.metadata(span.site).or_else(|| context.metadata(&id));
        let name = metadata.map_or("", Metadata::name);
        let _ = self.sink.write_timed(SpanEnd::SCHEMA.id, |now, writer| {
            writer.bytes(END.trace, &span.ids.trace().0);
            writer.bytes(END.span, &span.ids.span().0);
            if let Some(parent) = span.parent {
                writer.bytes(END.parent, &parent.get().to_ne_bytes());
            }
            let renamed = otel.as_ref().and_then(|otel| otel.name.as_deref());
            writer.text(END.name, renamed.unwrap_or(name));
            writer.u64(END.duration, now.saturating_sub(span.start));
            if let Some((status, message)) = otel.as_ref().and_then(|otel| otel.status()) {
                writer.u64(END.status, status.number());
                if !message.is_empty() {
                    writer.text(END.message, message);
                }
            }
        });
    }
}

#[inline(always)]
fn write_ids(ids: &Ids, site: &Site, writer: &mut TaggedWriter<'_>) {
    if site.first.is_some() {
        writer.bytes(TRACE_ID, &ids.trace().0);
        writer.bytes(SPAN_ID, &ids.span().0);
    } else {
        writer.bytes(names::TRACE_ID, &ids.trace().0);
        writer.bytes(names::SPAN_ID, &ids.span().0);
    }
}

/// Writes what a type of the call site's own would have as constants, if it has none.
#[inline(always)]
fn unchanging(
    class: Class,
    metadata: &'static Metadata<'static>,
    site: &Site,
    writer: &mut TaggedWriter<'_>,
) {
    if site.first.is_none() {
        write_constants(class, metadata, writer);
    }
}

#[cold]
#[inline(never)]
fn write_constants(
    class: Class,
    metadata: &'static Metadata<'static>,
    writer: &mut TaggedWriter<'_>,
) {
    site::constants(class, metadata, |name, value| match value {
        // The program's own fields take precedence.
        _ if site::is_own(class, metadata, name) => {}
        Constant::Str(value) => writer.text(name, value),
        Constant::U64(value) => writer.u64(name, value),
        _ => {}
    });
}
