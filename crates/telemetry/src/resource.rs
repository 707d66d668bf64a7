//! What the process is that writes.

use crate::names::{self, AttributeName};
use perfring_producer::types::Class;
use perfring_producer::types::tagged::TaggedWriter;
use std::borrow::Cow;

/// What the process is that writes: attributes under the names of OpenTelemetry's semantic
/// conventions. `process.pid` is not among them, and not written if given: the sink knows it, also in a
/// forked child.
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
    /// program's name, else `unknown_service`), `service.instance.id` (a random UUID), `process.executable.name`,
    /// `host.name`, `telemetry.sdk.*`, and what `OTEL_RESOURCE_ATTRIBUTES` says.
    #[must_use]
    pub fn here() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&program).file_name().unwrap_or_default();
        let program = program.to_string_lossy().into_owned();
        let mut this = Resource::default()
            .with("service.name", service(&program))
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
            this = this.with(decoded(name.trim()), decoded(value.trim()));
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
        // The sink has written the pid, and a field that comes twice is a list.
        for (name, value) in self.attributes.iter().filter(|(name, _)| name != names::PID) {
            writer.text(AttributeName::new(Class::Resource, name).as_str(), value);
        }
    }
}

fn service(program: &str) -> String {
    if program.is_empty() { "unknown_service".into() } else { program.to_owned() }
}

/// Without percent signs, as the format of baggage has them; what is no such code stays as it is.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.filter(|code| code.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_codes_are_read() {
        assert_eq!(decoded("a%20b%2Cc%3d%C3%A9"), "a b,c=é");
        assert_eq!(decoded("100% %zz %4 %+1 %"), "100% %zz %4 %+1 %");
        assert_eq!(decoded("%ff"), "\u{fffd}");
    }

    #[test]
    fn a_service_has_a_name() {
        assert_eq!((service(""), service("shop")), ("unknown_service".into(), "shop".into()));
    }
}
