//! The description of the process that writes.

use crate::names::{self, AttributeName};
use crate::value::Value;
use percent_encoding::percent_decode_str;
use perfring_producer::types::Class;
use perfring_producer::types::tagged::TaggedWriter;
use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::path::Path;

/// The description of the process that writes: attributes with the names of OpenTelemetry's semantic
/// conventions. `process.pid` is ignored: the sink writes the pid itself, in a forked child the child's.
///
/// ```
/// use perfring_telemetry::Resource;
/// let resource = Resource::here().with("service.name", "shop").with("service.version", "2.1.0");
/// assert_eq!(resource.get("service.name"), Some("shop"));
/// assert_eq!(resource.get("telemetry.sdk.name"), Some("perfring"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    attributes: Vec<(Cow<'static, str>, ResourceValue)>,
    /// The process that the resource was made in, and the id that it got.
    instance: Option<(u32, String)>,
}

/// A value of an attribute of a [`Resource`].
///
/// ```
/// use perfring_telemetry::Resource;
/// let resource = Resource::here().with("host.cpus", 8).with("canary", true).with("zone", "b");
/// assert_eq!((resource.get("zone"), resource.get("canary")), (Some("b"), None)); // that is no text
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResourceValue {
    /// Text.
    Text(Cow<'static, str>),
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// A number.
    F64(f64),
    /// A list of the others: see [`Value::List`]. A list in a list is text.
    List(Vec<ResourceValue>),
}

macro_rules! from {
    ($($type:ty: $variant:ident),* $(,)?) => {$(
        impl From<$type> for ResourceValue {
            fn from(value: $type) -> Self {
                ResourceValue::$variant(value.into())
            }
        }
    )*};
}

from! { &'static str: Text, String: Text, Cow<'static, str>: Text, bool: Bool, i32: I64, i64: I64, f64: F64 }

impl fmt::Display for ResourceValue {
    /// Writes text as it is, and a list as `[a b]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceValue::Text(text) => f.write_str(text),
            ResourceValue::Bool(value) => value.fmt(f),
            ResourceValue::I64(value) => value.fmt(f),
            ResourceValue::F64(value) => value.fmt(f),
            ResourceValue::List(values) => {
                f.write_str("[")?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

impl ResourceValue {
    fn write(&self, name: &str, writer: &mut TaggedWriter<'_>) {
        match self {
            ResourceValue::List(values) => {
                let values: Vec<_> = values.iter().map(ResourceValue::one).collect();
                Value::List(&values).write(name, writer);
            }
            one => one.one().write(name, writer),
        }
    }

    fn one(&self) -> Value<'_> {
        match self {
            ResourceValue::Text(text) => Value::Str(text),
            ResourceValue::Bool(value) => Value::Bool(*value),
            ResourceValue::I64(value) => Value::I64(*value),
            ResourceValue::F64(value) => Value::F64(*value),
            ResourceValue::List(_) => Value::Display(self),
        }
    }
}

impl Resource {
    /// Returns what is known of this process: `service.name` (from `OTEL_SERVICE_NAME`, else the
    /// program's name, else `unknown_service`), `service.instance.id`, `process.executable.name`,
    /// `host.name`, `telemetry.sdk.*`, and the attributes of `OTEL_RESOURCE_ATTRIBUTES`. Pids are unique within one
    /// pid namespace, so it also has [`names::PID_NAMESPACE`], and in a container `container.id`, where the
    /// process can see it. With the feature `context`, what another library has published as this process's context
    /// precedes all of these, so that both speak of one `service.instance.id`.
    ///
    /// The id is a UUID made of the machine's boot, the pid namespace, the pid and the time when the process began: it is the
    /// same for all sinks of a process, and a forked child has its own.
    ///
    /// ```
    /// use perfring_telemetry::Resource;
    /// let id = |resource: Resource| resource.get("service.instance.id").map(str::to_owned);
    /// assert_eq!(id(Resource::here()), id(Resource::here()));
    /// ```
    #[must_use]
    pub fn here() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or_default();
        let program = program.to_string_lossy().into_owned();
        let instance = instance_id();
        let mut this = Resource::default()
            .with("service.name", service(&program))
            .with(INSTANCE, instance.clone())
            .with("process.executable.name", program)
            .with("telemetry.sdk.name", "perfring")
            .with("telemetry.sdk.language", "rust")
            .with("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
        this.instance = Some((std::process::id(), instance));
        if let Ok(host) = fs::read_to_string("/proc/sys/kernel/hostname") {
            this = this.with("host.name", host.trim_end().to_owned());
        }
        if let Some(namespace) = pid_namespace(Path::new("/proc/self")) {
            this = this.with(names::PID_NAMESPACE, namespace);
        }
        if let Some(container) = container_id(Path::new("/proc/self")) {
            this = this.with("container.id", container);
        }
        let reported = std::env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        for (name, value) in reported.split(',').filter_map(|pair| pair.split_once('=')) {
            this = this.with(decoded(name.trim()), decoded(value.trim()));
        }
        if let Ok(name) = std::env::var("OTEL_SERVICE_NAME")
            && !name.is_empty()
        {
            this = this.with("service.name", name);
        }
        #[cfg(feature = "context")]
        if let Ok(Some(published)) = perfring_context::ProcessContext::own() {
            for (name, value) in published.attributes {
                let value = match value {
                    perfring_context::Value::Null => continue,
                    perfring_context::Value::Str(text) => text.into(),
                    perfring_context::Value::Bool(value) => value.into(),
                    perfring_context::Value::I64(value) => value.into(),
                    perfring_context::Value::F64(value) => value.into(),
                    other => ResourceValue::from(other.to_string()),
                };
                this = this.with(name, value);
            }
        }
        this
    }

    /// Publishes it as this process's context, for profilers and sidecars, unless the process has one. A sink does so
    /// when it attaches; a forked child's at its first record.
    ///
    /// # Errors
    /// See [`perfring_context::publish`].
    #[cfg(feature = "context")]
    pub fn publish(&self) -> std::io::Result<()> {
        match perfring_context::ProcessContext::own() {
            Ok(Some(_)) => Ok(()),
            _ => {
                let own = self.child_instance();
                let attributes = self.attributes_here(own.as_deref());
                perfring_context::publish(attributes.map(|(name, value)| (name, value.to_string())))
            }
        }
    }

    /// Adds an attribute, or replaces the one of the same name.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<ResourceValue>,
    ) -> Self {
        let (name, value) = (name.into(), value.into());
        match self.attributes.iter_mut().find(|(its, _)| *its == name) {
            Some((_, its)) => *its = value,
            None => self.attributes.push((name, value)),
        }
        self
    }

    /// Returns the text of an attribute; `None` if its value is not text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        match self.attributes.iter().find(|(its, _)| its == name)? {
            (_, ResourceValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the id of this process, if it is a forked child of the process that the resource was made in.
    fn child_instance(&self) -> Option<String> {
        let (pid, made) = self.instance.as_ref()?;
        let is_child = *pid != std::process::id() && self.get(INSTANCE) == Some(made);
        is_child.then(instance_id)
    }

    /// Returns the attributes as they are in this process, whose id is `own` if it is a forked child.
    fn attributes_here<'a>(
        &'a self,
        own: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a str, Cow<'a, ResourceValue>)> {
        self.attributes.iter().map(move |(name, value)| match own {
            Some(own) if name == INSTANCE => (&**name, Cow::Owned(own.to_owned().into())),
            _ => (&**name, Cow::Borrowed(value)),
        })
    }

    pub(crate) fn fill(&self, writer: &mut TaggedWriter<'_>) {
        let own = self.child_instance();
        // The sink has written the pid, and a repeated field would become a list.
        for (name, value) in
            self.attributes_here(own.as_deref()).filter(|(name, _)| *name != names::PID)
        {
            value.write(AttributeName::new(Class::Resource, name).as_str(), writer);
        }
    }
}

/// Returns the inode of the pid namespace, which two processes of a machine share if they are in the same.
fn pid_namespace(process: &Path) -> Option<String> {
    let link = fs::read_link(process.join("ns/pid")).ok()?;
    let number = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.to_owned())
}

/// Returns the container's id: 64 hexadecimal digits, in the name of its control
/// group (version 1, or the host's view of version 2), else in the path of a file that the engine
/// mounts from the container's own directory.
fn container_id(process: &Path) -> Option<String> {
    let groups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
    let of_group = |line: &str| {
        let last = line.rsplit('/').next()?;
        let last = last.strip_suffix(".scope").unwrap_or(last);
        id_in(last.rsplit(['-', ':']).next()?)
    };
    if let Some(id) = groups.lines().find_map(of_group) {
        return Some(id);
    }
    let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    mounts.lines().find_map(|line| {
        // Field 4 is the source's path in its file system, field 5 where it is mounted.
        let mut fields = line.split(' ').skip(3);
        let (source, target) = (fields.next()?, fields.next()?);
        let given = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"].contains(&target);
        // Not the sandbox's of a pod, which all its containers share.
        let own = given && !source.contains("/sandboxes/");
        own.then(|| source.split('/').find_map(id_in))?
    })
}

fn id_in(part: &str) -> Option<String> {
    let is_id = part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| part.to_ascii_lowercase())
}

fn service(program: &str) -> String {
    if program.is_empty() { "unknown_service".into() } else { program.to_owned() }
}

/// Decodes percent escapes, as in the baggage format; anything else stays as it is.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The attribute with the id of a process.
const INSTANCE: &str = "service.instance.id";

/// Returns the id of this process; a random one if the kernel does not show what distinguishes processes.
fn instance_id() -> String {
    let process = Path::new("/proc/self");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let known = boot.zip(pid_namespace(process)).zip(start_time(process));
    let Some(((boot, namespace), started)) = known else {
        return uuid(4, crate::ids::TraceId::random().0);
    };
    let pid = std::process::id();
    uuid(8, hash(format!("{} {namespace} {pid} {started}", boot.trim_end()).as_bytes()))
}

/// Returns when a process began, in ticks since the boot: the field 22 of its `stat`.
fn start_time(process: &Path) -> Option<String> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The program's name, in parentheses, may have spaces and parentheses itself.
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19).map(str::to_owned)
}

/// The FNV-1a hash of 128 bits.
fn hash(bytes: &[u8]) -> [u8; 16] {
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let step = |hash: u128, byte: &u8| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    bytes.iter().fold(start, step).to_be_bytes()
}

/// Formats a UUID of this version.
fn uuid(version: u8, mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = crate::ids::TraceId(bytes).to_string();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn percent_codes_are_read() {
        assert_eq!(decoded("a%20b%2Cc%3d%C3%A9"), "a b,c=é");
        assert_eq!(decoded("100% %zz %4 %+1 %"), "100% %zz %4 %+1 %");
        assert_eq!(decoded("%ff"), "\u{fffd}");
    }

    #[test]
    fn a_namespace_and_a_container_are_known_where_the_kernel_shows_them() {
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path();
        let none = (pid_namespace(process), container_id(process));
        assert_eq!(none, (None, None), "no /proc");
        fs::create_dir(process.join("ns")).unwrap();
        std::os::unix::fs::symlink("pid:[4026531836]", process.join("ns/pid")).unwrap();
        assert_eq!(pid_namespace(process).as_deref(), Some("4026531836"));
        let id = "0123456789abcdef".repeat(4);
        let found = |cgroup: String, mountinfo: String| {
            fs::write(process.join("cgroup"), cgroup).unwrap();
            fs::write(process.join("mountinfo"), mountinfo).unwrap();
            container_id(process)
        };
        let groups = [
            format!("12:pids:/docker/{id}\n"),
            format!("0::/system.slice/docker-{id}.scope\n"),
            format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope\n"),
            format!("0::/kubepods-pod1.slice:cri-containerd:{id}\n"),
        ];
        for group in groups {
            assert_eq!(found(group.clone(), String::new()).as_ref(), Some(&id), "{group}");
        }
        // What a process of version 2 sees in its own namespace, with what the engine mounts.
        let mount = |source: &str, target: &str| {
            format!("9 8 0:1 / /proc rw - proc proc rw\n7 6 8:1 {source} {target} rw - ext4 x rw\n")
        };
        let (own, root) =
            (format!("/var/lib/docker/containers/{id}/hostname"), "0::/\n".to_owned());
        assert_eq!(found(root.clone(), mount(&own, "/etc/hostname")), Some(id.clone()));
        assert_eq!(found(root.clone(), mount(&own, "/data")), None, "another's directory");
        let pod = format!("/var/lib/containerd/sandboxes/{id}/hostname");
        assert_eq!(found(root.clone(), mount(&pod, "/etc/hostname")), None, "the pod's");
        let session = "0::/user.slice/user-1000.slice/session-2.scope\n".to_owned();
        assert_eq!(found(session, String::new()), None, "no container");
    }

    #[test]
    fn here_says_which_pid_namespace() {
        let here = Resource::here();
        if Path::new("/proc/self/ns/pid").exists() || fs::read_link("/proc/self/ns/pid").is_ok() {
            let reported = here.get(names::PID_NAMESPACE).unwrap().parse::<u64>().unwrap();
            assert!(reported > 0);
        }
    }

    #[test]
    fn an_id_is_made_of_what_distinguishes_processes() {
        let id = |resource: &Resource| resource.get(INSTANCE).unwrap().to_owned();
        let here = Resource::here();
        assert_eq!(id(&here), id(&Resource::here()));
        assert_eq!(here.child_instance(), None);
        // As a forked child has it: the resource was made in another process.
        let forked = Resource { instance: Some((1, id(&here))), ..here.clone() };
        let own = forked.child_instance().unwrap();
        let text = ResourceValue::from(own.clone());
        assert!(
            forked.attributes_here(Some(&own)).any(|pair| pair == (INSTANCE, Cow::Borrowed(&text)))
        );
        let named = forked.with(INSTANCE, "mine");
        assert_eq!(named.child_instance(), None, "it is the program's own choice");
        assert_eq!(uuid(8, hash(b"")), "6c62272e-07bb-8142-a2b8-21756295c58d");
        assert_ne!(hash(b"boot 1 17 5"), hash(b"boot 1 17 6"));
    }

    #[test]
    fn a_service_has_a_name() {
        assert_eq!((service(""), service("shop")), ("unknown_service".into(), "shop".into()));
    }
}
