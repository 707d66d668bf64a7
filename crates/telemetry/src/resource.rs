//! What the process is that writes.

use crate::names::AttributeName;
use perfring_producer::types::Class;
use perfring_producer::types::tagged::TaggedWriter;
use std::borrow::Cow;

/// What the process is that writes: attributes under the names of OpenTelemetry's semantic
/// conventions. `process.pid` is not among them: the sink knows it, also in a forked child.
///
/// ```
/// use perfring_telemetry::Resource;
/// let resource = Resource::here().with("service.name", "shop").with("service.version", "2.1.0");
/// assert_eq!(resource.get("service.name"), Some("shop"));
/// assert_eq!(resource.get("telemetry.sdk.name"), Some("perfring"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    attributes: Vec<(Cow<'static, str>, Cow<'static, str>)>,
}

impl Resource {
    /// What can be known without being told: `service.name` (from `OTEL_SERVICE_NAME`, else the
    /// program's name), `service.instance.id` (a random UUID), `process.executable.name`,
    /// `host.name`, `telemetry.sdk.*`, and what `OTEL_RESOURCE_ATTRIBUTES` says.
    #[must_use]
    pub fn here() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&program).file_name().unwrap_or_default();
        let program = program.to_string_lossy().into_owned();
        let mut this = Resource::default()
            .with("service.name", program.clone())
            .with("service.instance.id", uuid())
            .with("process.executable.name", program)
            .with("telemetry.sdk.name", "perfring")
            .with("telemetry.sdk.language", "rust")
            .with("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
        if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
            this = this.with("host.name", host.trim_end().to_owned());
        }
        let told = std::env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        for (name, value) in told.split(',').filter_map(|pair| pair.split_once('=')) {
            this = this.with(name.trim().to_owned(), value.trim().to_owned());
        }
        match std::env::var("OTEL_SERVICE_NAME") {
            Ok(name) if !name.is_empty() => this.with("service.name", name),
            _ => this,
        }
    }

    /// With this attribute, in the place of one of the same name.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (name, value) = (name.into(), value.into());
        match self.attributes.iter_mut().find(|(its, _)| *its == name) {
            Some((_, its)) => *its = value,
            None => self.attributes.push((name, value)),
        }
        self
    }

    /// The value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(its, _)| its == name);
        found.map(|(_, value)| &**value)
    }

    pub(crate) fn fill(&self, writer: &mut TaggedWriter<'_>) {
        for (name, value) in &self.attributes {
            writer.text(AttributeName::new(Class::Resource, name).as_str(), value);
        }
    }
}

/// A random UUID, version 4.
fn uuid() -> String {
    let mut bytes = crate::TraceId::random().0;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = crate::TraceId(bytes).to_string();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}
