//! The resources of processes.

use super::kinds::Resource;
use crate::event::{Origin, Rec};
use perfring_consumer::Location;
use perfring_context::ProcessContext;
use perfring_telemetry::names::{self, AttributeName};
use perfring_types::Class;
use perfring_types::read::Value;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The limit of processes that are remembered per ring: the most recently reported ones.
const PROCESSES: usize = 1024;

/// A process's resource, with attributes of the ring that it wrote to: `perfring.ring.name` and
/// `perfring.ring.uuid`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// Names and values.
    pub attributes: Vec<(String, Value)>,
    /// When the process began to count, ns since 1970.
    pub start: Option<u64>,
    /// The number of truncated attributes.
    pub truncated: u64,
}

impl Reported {
    /// Returns the value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|(its, _)| its == name).map(|(_, value)| value)
    }
}

/// The resources of all rings that are read, by ring and process.
///
/// Each is in one `Arc` for as long as it does not change, so equal addresses mean equal resources.
#[derive(Debug, Default)]
pub struct Resources {
    rings: BTreeMap<u32, Ring>,
    added: Added,
}

/// Attributes that each resource gets. An attribute that the process itself has wins.
#[derive(Clone, Debug, Default)]
pub struct Added(Vec<(String, String)>);

impl Added {
    /// Creates them from names and values.
    #[must_use]
    pub fn new(attributes: &[(String, String)]) -> Self {
        Added(attributes.to_vec())
    }

    /// Returns the fields of a resource's record with these attributes; `None` if the record is no resource, or nothing is added.
    pub fn to_record(&self, record: &Rec<'_>) -> Option<Value> {
        if self.0.is_empty() || record.kind_of()?.class.known() != Some(Class::Resource) {
            return None;
        }
        let Some(Ok(Value::Struct(fields))) = record.value() else { return None };
        let mut fields = fields.clone();
        for (name, value) in &self.0 {
            add(AttributeName::new(Class::Resource, name).as_str(), value, &mut fields);
        }
        Some(Value::Struct(fields))
    }
}

#[derive(Debug, Default)]
struct Ring {
    reported: HashMap<u64, Arc<Reported>>,
    /// In the order in which they were first reported.
    order: VecDeque<u64>,
    /// Created for processes that reported none, by the epoch of the ring's producer; with the same limit.
    unknown: HashMap<(u64, Option<u64>), Arc<Reported>>,
}

impl Resources {
    /// Adds these attributes to each resource from now on. An attribute that the process itself has wins.
    pub fn add(&mut self, attributes: &[(String, String)]) {
        self.added = Added::new(attributes);
    }

    /// Stores the resource that a process reports.
    pub fn learn(&mut self, origin: &Origin, resource: &Resource<'_>) {
        let Some(pid) = resource.common.pid else { return };
        let mut attributes = of_ring(origin);
        for (name, value) in &resource.common.attributes {
            attributes.push(((*name).to_owned(), (*value).clone()));
        }
        self.added.0.iter().for_each(|(name, value)| add(name, value, &mut attributes));
        if !attributes.iter().any(|(name, _)| name == SERVICE) {
            attributes.push((SERVICE.into(), Value::Str(UNKNOWN.into())));
        }
        let reported =
            Reported { attributes, start: resource.start, truncated: resource.common.truncated };
        let ring = self.rings.entry(origin.id).or_default();
        if ring.reported.get(&pid).is_some_and(|before| **before == reported) {
            return;
        }
        if ring.reported.insert(pid, Arc::new(reported)).is_none() {
            ring.order.push_back(pid);
        }
        if ring.order.len() > PROCESSES
            && let Some(oldest) = ring.order.pop_front()
        {
            ring.reported.remove(&oldest);
        }
    }

    /// Returns the resource that this process reported; `None` if it has not.
    #[must_use]
    pub fn get(&self, origin: u32, pid: u64) -> Option<&Arc<Reported>> {
        self.rings.get(&origin)?.reported.get(&pid)
    }

    /// Returns a resource for a process that reported none, or for an unknown process: its process context, if it has
    /// published one that this process may read.
    pub fn unknown(&mut self, origin: &Origin, pid: Option<u64>) -> Arc<Reported> {
        let ring = self.rings.entry(origin.id).or_default();
        if ring.unknown.len() >= PROCESSES {
            ring.unknown.clear();
        }
        let made = ring.unknown.entry((origin.producer.epoch, pid)).or_insert_with(|| {
            let mut attributes = of_ring(origin);
            let owner = &origin.producer;
            let mut published = context(origin, pid);
            let of_own = |name: &str| published.iter().any(|(its, _)| its == name);
            let added: Vec<_> =
                self.added.0.iter().filter(|(name, _)| !of_own(name)).cloned().collect();
            published.extend(added.into_iter().map(|(name, value)| (name, Value::Str(value))));
            if !published.iter().any(|(name, _)| name == SERVICE) {
                let known =
                    pid.is_some_and(|pid| pid == u64::from(owner.pid)) && !owner.name.is_empty();
                let service = if known { owner.name.clone() } else { UNKNOWN.into() };
                attributes.push((SERVICE.into(), Value::Str(service)));
            }
            if let Some(pid) = pid {
                attributes.push((names::PID.into(), Value::U64(pid)));
            }
            attributes.extend(published.into_iter().filter(|(name, _)| name != names::PID));
            Arc::new(Reported { attributes, start: None, truncated: 0 })
        });
        Arc::clone(made)
    }

    /// Returns all reported resources: by ring and process.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64, &Arc<Reported>)> {
        let rings = self.rings.iter();
        rings.flat_map(|(id, ring)| {
            ring.reported.iter().map(move |(pid, reported)| (*id, *pid, reported))
        })
    }

    /// Forgets the resource that a process reported.
    pub fn forget_process(&mut self, origin: u32, pid: u64) {
        if let Some(ring) = self.rings.get_mut(&origin) {
            ring.reported.remove(&pid);
            ring.order.retain(|its| *its != pid);
        }
    }

    /// Forgets the resources of a ring.
    pub fn forget(&mut self, origin: u32) {
        self.rings.remove(&origin);
    }
}

/// Returns what the writer of a ring has published of itself: the process of this number, else the ring's one producer.
/// Only of a process that has the ring mapped: the number is of its own pid namespace.
fn context(origin: &Origin, pid: Option<u64>) -> Vec<(String, Value)> {
    let owner = &origin.producer;
    let pid = pid.or((owner.epoch > 0).then_some(owner.pid.into()));
    let Some(pid) = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0) else {
        return Vec::new();
    };
    let ring = Location::from(origin.location.clone()).path();
    let Ok(file) = std::fs::metadata(ring) else { return Vec::new() };
    // A process that is gone, or that may not be read, is one without a context.
    let context = ProcessContext::of_who_maps(pid, &file).ok().flatten();
    context.map_or_else(Vec::new, |context| context.attributes)
}

const SERVICE: &str = "service.name";
/// OpenTelemetry's name for a service without one.
const UNKNOWN: &str = "unknown_service";

/// Adds an attribute that is not there.
fn add<N: AsRef<str> + for<'n> From<&'n str>>(
    name: &str,
    value: &str,
    attributes: &mut Vec<(N, Value)>,
) {
    if !attributes.iter().any(|(its, _)| its.as_ref() == name) {
        attributes.push((name.into(), Value::Str(value.to_owned())));
    }
}

fn of_ring(origin: &Origin) -> Vec<(String, Value)> {
    vec![
        ("perfring.ring.name".into(), Value::Str(origin.name.clone())),
        ("perfring.ring.uuid".into(), Value::Str(origin.uuid_text())),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use crate::shapes::Shapes;
    use perfring_producer::{Options, Producer};

    #[test]
    fn a_process_that_reports_nothing_has_what_the_configuration_adds() {
        let mut resources = Resources::default();
        let added = [("k8s.pod.name", "shop-7"), ("service.name", "shop")];
        resources.add(&added.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let reported = resources.unknown(&Origin::default(), None);
        for (name, value) in added {
            let all: Vec<_> = reported.attributes.iter().filter(|(its, _)| its == name).collect();
            assert_eq!(all, [&(name.to_owned(), Value::Str(value.to_owned()))]);
        }
    }

    #[test]
    fn a_ring_without_telemetry_has_the_resource_that_its_producer_published() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plain");
        let producer = Producer::create(&path, &Options::default()).unwrap();
        perfring_context::publish([("service.name", "shop"), ("process.pid", "1")]).unwrap();
        let mut origin = Shapes::open(&path, 0).unwrap().origin().clone();
        let text = |reported: &Reported, name: &str| reported.get(name).cloned();
        let mut resources = Resources::default();
        for pid in [None, Some(u64::from(std::process::id()))] {
            let reported = resources.unknown(&origin, pid);
            assert_eq!(text(&reported, SERVICE), Some(Value::Str("shop".into())), "{pid:?}");
            let names = reported.attributes.iter().map(|(name, _)| name);
            let pids = names.filter(|name| **name == names::PID).count();
            assert_eq!(pids, usize::from(pid.is_some()), "it is the record's, not the context's");
        }
        // Lists, maps and bytes arrive as such: hosts=["a"], owner={"k": bytes}, and none of the extra attributes.
        let field =
            |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
        let pair = |name: &str, value: &[u8]| [field(1, name.as_bytes()), field(2, value)].concat();
        let list = field(5, &field(1, &field(1, b"a")));
        let map = field(6, &field(1, &pair("k", &field(7, &[0, 255]))));
        let attributes = [field(1, &pair("hosts", &list)), field(1, &pair("owner", &map))].concat();
        let payload = [field(1, &attributes), field(2, &pair("extra", &field(1, b"x")))].concat();
        perfring_shm::publish_process_context(&payload).unwrap();
        let mut again = Resources::default();
        let reported = again.unknown(&origin, None);
        let hosts = Value::List(vec![Value::Str("a".into())]);
        assert_eq!(reported.get("hosts"), Some(&hosts));
        let owner = Value::Struct(vec![("k".into(), Value::Bytes(vec![0, 255]))]);
        assert_eq!(reported.get("owner"), Some(&owner));
        assert_eq!(reported.get("extra"), None);
        // The next producer of the ring is another process, which may have the same pid.
        drop(producer);
        let producer = Producer::attach_as(&path, "next").unwrap();
        let mut next = Shapes::open(&path, 0).unwrap().origin().clone();
        next.location = "/nowhere".into(); // so that the name counts
        let reported = resources.unknown(&next, Some(std::process::id().into()));
        assert_eq!(text(&reported, SERVICE), Some(Value::Str("next".into())));
        // A process of that number that has not mapped the ring is another one.
        drop(producer);
        origin.id = 1;
        let reported = resources.unknown(&origin, Some(std::process::id().into()));
        assert_ne!(text(&reported, SERVICE), Some(Value::Str("shop".into())));
    }
}
