//! Converts a record's fields to a signal.

use super::exponential::{Exponential, Run, SCALE_MAX, SCALE_MIN};
use super::fault::{self, Fault, Wrong};
use super::kinds::{
    Attributes, Common, Gauge, Histogram, HistogramData, Log, Plain, PlainBody, Resource, Signal,
    SpanEnd, SpanStart, Sum,
};
use super::measure::{Buckets, Instrument, Number, Temporality};
use crate::event::Rec;
use perfring_telemetry::names;
use perfring_types::Class;
use perfring_types::read::Value;
use perfring_types::tagged::CUT;

impl<'a> Signal<'a> {
    /// Converts a record to a signal.
    #[must_use]
    pub fn of(record: &'a Rec<'_>) -> Self {
        let Some(kind) = record.kind_of() else { return untyped(record) };
        let value = match record.value() {
            None => return untyped(record),
            Some(Ok(value)) => value,
            Some(Err(bad)) => {
                let fault = Some(Fault::undecodable(
                    kind.class.known().unwrap_or_default(),
                    bad.to_string(),
                ));
                return plain(record, Common::default(), PlainBody::Bytes(record.bytes), fault);
            }
        };
        let class = kind.class.known().unwrap_or_default();
        let Value::Struct(fields) = value else {
            let body = match value {
                Value::Str(text) => PlainBody::Text(text),
                Value::Bytes(raw) => PlainBody::Bytes(raw),
                other => PlainBody::Value(other),
            };
            let fault = (class != Class::Plain).then(|| Fault::of(class, fault::NO_FIELDS));
            return plain(record, Common::default(), body, fault);
        };
        let mut fields = Fields::new(fields.iter().map(|(name, value)| (&**name, value)));
        let read = match class {
            Class::Log => Ok(Signal::Log(log(&mut fields))),
            Class::SpanStart => span_start(&mut fields).map_err(Some),
            Class::SpanEnd => span_end(&mut fields).map_err(Some),
            Class::Gauge => gauge(&mut fields).map_err(Some),
            Class::Sum => sum(&mut fields).map_err(Some),
            Class::Histogram => histogram(&mut fields).map_err(Some),
            Class::Resource => Ok(Signal::Resource(Resource {
                start: fields.take(names::START_TIME, unsigned),
                common: Common { pid: fields.get(names::PID, unsigned), ..Common::default() },
            })),
            _ => Err(None),
        };
        match read {
            Ok(mut signal) => {
                let scoped = !matches!(class, Class::SpanEnd | Class::Resource);
                let pid = class != Class::Resource;
                let common = signal.common();
                // What a program left out itself, and what the record had no room for, are counted one by one.
                let counts = fields.take(CUT, list(unsigned)).unwrap_or_default();
                common.truncated = counts.into_iter().fold(0, u64::saturating_add);
                // In a timed ring, a record that has its time as a field tells of the past.
                common.time = fields.take(names::TIME, unsigned).or(record.wall);
                if pid {
                    common.pid = fields.take(names::PID, unsigned);
                }
                if scoped {
                    common.scope = fields.take(names::SCOPE, text).unwrap_or_default();
                }
                common.attributes = fields.rest(names::ATTRIBUTES);
                signal
            }
            Err(fault) => {
                // A plain record keeps all fields under their own names.
                let Some(Ok(Value::Struct(fields))) = record.value() else {
                    return untyped(record);
                };
                let mut fields = Fields::new(fields.iter().map(|(name, value)| (&**name, value)));
                let (mut common, mut ids) = (Common::default(), (None, None));
                if class == Class::Plain {
                    ids = (fields.take(names::TRACE_ID, id), fields.take(names::SPAN_ID, id));
                } else {
                    common.time = fields.get(names::TIME, unsigned);
                    common.pid = fields.take(names::PID, unsigned);
                }
                common.attributes = fields.rest("");
                let fault = fault.map(|wrong| Fault::of(class, wrong));
                let mut signal = plain(record, common, PlainBody::None, fault);
                if let Signal::Plain(plain) = &mut signal {
                    (plain.trace_id, plain.span_id) = ids;
                }
                signal
            }
        }
    }

    /// Returns the fields that signals of all classes have.
    pub fn common(&mut self) -> &mut Common<'a> {
        match self {
            Signal::Log(log) => &mut log.common,
            Signal::SpanStart(start) => &mut start.common,
            Signal::SpanEnd(end) => &mut end.common,
            Signal::Gauge(gauge) => &mut gauge.common,
            Signal::Sum(sum) => &mut sum.common,
            Signal::Histogram(histogram) => &mut histogram.common,
            Signal::Resource(resource) => &mut resource.common,
            Signal::Plain(plain) => &mut plain.common,
        }
    }
}

/// Handles a record without a type: often a line of text.
fn untyped<'a>(record: &'a Rec<'_>) -> Signal<'a> {
    let shown = |text: &&str| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    let body = match str::from_utf8(record.bytes).ok().filter(shown) {
        Some(text) => PlainBody::Text(text),
        None => PlainBody::Bytes(record.bytes),
    };
    plain(record, Common::default(), body, None)
}

fn plain<'a>(
    record: &'a Rec<'_>,
    common: Common<'a>,
    body: PlainBody<'a>,
    fault: Option<Fault>,
) -> Signal<'a> {
    let name = record.kind_of().map_or("", |kind| kind.name.as_str());
    let common = Common { time: common.time.or(record.wall), ..common };
    let (trace_id, span_id) = (None, None);
    Signal::Plain(Plain { common, name, kind: record.kind, body, trace_id, span_id, fault })
}

/// A record's fields, from which those with a meaning are taken.
struct Fields<'a> {
    left: Attributes<'a>,
}

impl<'a> Fields<'a> {
    fn new(fields: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        Fields { left: fields.collect() }
    }

    /// Returns the value of this name, if it is valid.
    fn get<T>(&self, name: &str, meant: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        self.left.iter().find(|(its, _)| *its == name).and_then(|(_, value)| meant(value))
    }

    /// Returns the value of this name, if it is valid, and removes it from the attributes.
    fn take<T>(&mut self, name: &str, meant: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        let at = self.left.iter().position(|(its, _)| *its == name)?;
        let (_, value) = self.left.get(at)?;
        let taken = meant(value)?;
        self.left.remove(at);
        Some(taken)
    }

    fn has(&self, name: &str) -> bool {
        self.left.iter().any(|(its, _)| *its == name)
    }

    /// Returns the value of this name, if there is one, and removes it from the attributes.
    fn valid<T>(
        &mut self,
        name: &str,
        meant: impl FnOnce(&'a Value) -> Option<T>,
        wrong: Wrong,
    ) -> Result<Option<T>, Wrong> {
        let is_there = self.has(name);
        match self.take(name, meant) {
            None if is_there => Err(wrong),
            taken => Ok(taken),
        }
    }

    /// Returns the remaining attributes; strips a prefix that marks those named like reserved
    /// fields.
    fn rest(&mut self, before: &str) -> Attributes<'a> {
        let mut rest = std::mem::take(&mut self.left);
        if !before.is_empty() {
            for (name, _) in &mut rest {
                *name = name.strip_prefix(before).unwrap_or(name);
            }
        }
        rest
    }
}

fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::U64(value) => Some(*value),
        Value::I64(value) => u64::try_from(*value).ok(),
        Value::Label { value, .. } => u64::try_from(*value).ok(),
        _ => None,
    }
}

fn small(max: u8) -> impl Fn(&Value) -> Option<u8> {
    move |value| unsigned(value).and_then(|value| u8::try_from(value).ok()).filter(|it| *it <= max)
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Str(text) => Some(text),
        Value::Label { name: Some(name), .. } => Some(name),
        _ => None,
    }
}

fn id<const N: usize>(value: &Value) -> Option<[u8; N]> {
    let Value::Bytes(bytes) = value else { return None };
    <[u8; N]>::try_from(bytes.as_slice()).ok().filter(|id| *id != [0; N])
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        other => unsigned(other).map(|value| value != 0),
    }
}

fn number(value: &Value) -> Option<Number> {
    let whole = |int: Option<i64>, double| int.map_or(Number::Double(double), Number::Int);
    Some(match value {
        Value::I64(value) => Number::Int(*value),
        Value::U64(value) => whole(i64::try_from(*value).ok(), *value as f64),
        Value::I128(value) => whole(i64::try_from(*value).ok(), *value as f64),
        Value::U128(value) => whole(i64::try_from(*value).ok(), *value as f64),
        Value::F32(value) => Number::Double((*value).into()),
        Value::F64(value) => Number::Double(*value),
        Value::Label { value, .. } => Number::Int(*value),
        _ => return None,
    })
}

fn double(value: &Value) -> Option<f64> {
    number(value).map(Number::as_f64)
}

fn list<T>(each: impl Fn(&Value) -> Option<T>) -> impl Fn(&Value) -> Option<Vec<T>> {
    move |value| match value {
        Value::List(values) => values.iter().map(&each).collect(),
        // A single value is not a list.
        other => each(other).map(|one| vec![one]),
    }
}

fn log<'a>(fields: &mut Fields<'a>) -> Log<'a> {
    Log {
        common: Common::default(),
        severity_number: fields
            .take(names::SEVERITY_NUMBER, |value| small(24)(value).filter(|it| *it > 0)),
        severity_text: fields.take(names::SEVERITY_TEXT, text).unwrap_or_default(),
        body: fields.take(names::BODY, Some),
        trace_id: fields.take(names::TRACE_ID, id),
        span_id: fields.take(names::SPAN_ID, id),
        event_name: fields.take(names::EVENT_NAME, text).unwrap_or_default(),
        observed: fields.take(names::OBSERVED_TIME, unsigned),
    }
}

fn ids(fields: &mut Fields<'_>) -> Result<([u8; 16], [u8; 8]), Wrong> {
    let trace = fields.take(names::TRACE_ID, id).ok_or(fault::NO_TRACE)?;
    let span = fields.take(names::SPAN_ID, id).ok_or(fault::NO_SPAN)?;
    Ok((trace, span))
}

fn span_start<'a>(fields: &mut Fields<'a>) -> Result<Signal<'a>, Wrong> {
    let (trace_id, span_id) = ids(fields)?;
    let linked =
        fields.get(names::LINK_TRACE_ID, id::<16>).zip(fields.get(names::LINK_SPAN_ID, id::<8>));
    if linked.is_some() {
        let _ = fields.take(names::LINK_TRACE_ID, Some);
        let _ = fields.take(names::LINK_SPAN_ID, Some);
    }
    Ok(Signal::SpanStart(SpanStart {
        common: Common::default(),
        trace_id,
        span_id,
        parent_span_id: fields.take(names::PARENT_SPAN_ID, id),
        name: fields.take(names::NAME, text),
        kind: fields.take(names::KIND, small(5)),
        link: linked,
    }))
}

fn span_end<'a>(fields: &mut Fields<'a>) -> Result<Signal<'a>, Wrong> {
    let (trace_id, span_id) = ids(fields)?;
    Ok(Signal::SpanEnd(SpanEnd {
        common: Common::default(),
        trace_id,
        span_id,
        parent_span_id: fields.take(names::PARENT_SPAN_ID, id),
        name: fields.take(names::NAME, text).unwrap_or_default(),
        duration: fields.take(names::DURATION, unsigned),
        status_code: fields.take(names::STATUS_CODE, small(2)),
        status_message: fields.take(names::STATUS_MESSAGE, text).unwrap_or_default(),
    }))
}

fn instrument<'a>(fields: &mut Fields<'a>) -> Result<Instrument<'a>, Wrong> {
    let name = fields.take(names::NAME, text).filter(|name| !name.is_empty());
    Ok(Instrument {
        name: name.ok_or(fault::NO_NAME)?,
        unit: fields.take(names::UNIT, text).unwrap_or_default(),
        description: fields.take(names::DESCRIPTION, text).unwrap_or_default(),
    })
}

fn temporality(fields: &mut Fields<'_>) -> Option<Temporality> {
    fields.take(names::TEMPORALITY, |value| match unsigned(value)? {
        1 => Some(Temporality::Delta),
        2 => Some(Temporality::Cumulative),
        _ => None,
    })
}

fn gauge<'a>(fields: &mut Fields<'a>) -> Result<Signal<'a>, Wrong> {
    let what = instrument(fields)?;
    let value = fields.take(names::VALUE, number).ok_or(fault::NO_NUMBER)?;
    Ok(Signal::Gauge(Gauge { common: Common::default(), what, value }))
}

fn sum<'a>(fields: &mut Fields<'a>) -> Result<Signal<'a>, Wrong> {
    let what = instrument(fields)?;
    let value = fields.take(names::VALUE, number).ok_or(fault::NO_SUM)?;
    if !value.as_f64().is_finite() {
        return Err(fault::NO_FINITE_SUM);
    }
    let temporality = temporality(fields).ok_or(fault::NO_TEMPORALITY)?;
    let monotonic = fields.take(names::IS_MONOTONIC, truth).unwrap_or_default();
    if monotonic && value.as_f64() < 0.0 {
        return Err(fault::NEGATIVE);
    }
    let start = fields.take(names::START_TIME, unsigned);
    Ok(Signal::Sum(Sum { common: Common::default(), what, value, monotonic, temporality, start }))
}

fn histogram<'a>(fields: &mut Fields<'a>) -> Result<Signal<'a>, Wrong> {
    let what = instrument(fields)?;
    let temporality = temporality(fields);
    let start = fields.take(names::START_TIME, unsigned);
    let (temporality, data) = if fields.has(names::SCALE) {
        let from = temporality.ok_or(fault::NO_TEMPORALITY)?;
        (from, HistogramData::Exponential(Box::new(exponential(fields)?)))
    } else if [names::COUNT, names::BUCKET_COUNTS].iter().any(|it| fields.has(it)) {
        let from = temporality.ok_or(fault::NO_TEMPORALITY)?;
        (from, HistogramData::State(counts(fields)?))
    } else {
        let one = fields.take(names::VALUE, double).ok_or(fault::NO_MEASUREMENT)?;
        if !one.is_finite() {
            return Err(fault::NO_FINITE_MEASUREMENT);
        }
        // A measurement is complete by itself, whatever the other fields are.
        (Temporality::Delta, HistogramData::One(one))
    };
    Ok(Signal::Histogram(Histogram { common: Common::default(), what, temporality, start, data }))
}

fn finite(fields: &mut Fields<'_>, name: &str) -> Result<Option<f64>, Wrong> {
    match fields.take(name, double) {
        Some(value) if !value.is_finite() => Err(fault::NO_FINITE_TOTAL),
        value => Ok(value),
    }
}

fn signed(value: &Value) -> Option<i32> {
    match value {
        Value::I64(value) => i32::try_from(*value).ok(),
        other => unsigned(other).and_then(|value| i32::try_from(value).ok()),
    }
}

/// Reads a histogram's exponential buckets, at most [`BUCKETS_MAX`](super::BUCKETS_MAX) of one sign: at a lower scale, if there are more.
fn exponential(fields: &mut Fields<'_>) -> Result<Exponential, Wrong> {
    let scale = fields.valid(names::SCALE, signed, fault::SCALE)?.unwrap_or_default();
    if !(SCALE_MIN..=SCALE_MAX).contains(&scale) {
        return Err(fault::SCALE);
    }
    let mut run = |offset, counts| {
        let offset = fields.valid(offset, signed, fault::SCALE)?.unwrap_or_default();
        let counts = fields.valid(counts, list(unsigned), fault::NO_COUNT)?.unwrap_or_default();
        Ok::<_, Wrong>(Run::trimmed(offset, counts))
    };
    let positive = run(names::POSITIVE_OFFSET, names::POSITIVE_COUNTS)?;
    let negative = run(names::NEGATIVE_OFFSET, names::NEGATIVE_COUNTS)?;
    let zero = fields.valid(names::ZERO_COUNT, unsigned, fault::NO_COUNT)?.unwrap_or_default();
    let counted = positive
        .counts
        .iter()
        .chain(&negative.counts)
        .try_fold(zero, |sum, count| sum.checked_add(*count))
        .ok_or(fault::COUNTS)?;
    let count = fields.valid(names::COUNT, unsigned, fault::NO_COUNT)?;
    if count.is_some_and(|count| count != counted) {
        return Err(fault::COUNTS);
    }
    let sum = finite(fields, names::SUM)?.unwrap_or_default();
    let (min, max) = (finite(fields, names::MIN)?, finite(fields, names::MAX)?);
    let zero_threshold = finite(fields, names::ZERO_THRESHOLD)?.unwrap_or_default().max(0.0);
    let (min, max) = (min.unwrap_or(f64::INFINITY), max.unwrap_or(f64::NEG_INFINITY));
    let read = Exponential {
        scale,
        count: counted,
        sum,
        min,
        max,
        zero,
        zero_threshold,
        positive,
        negative,
    };
    let mut kept = Exponential::default();
    kept.add(&read);
    Ok(kept)
}

/// Reads a histogram's counts.
fn counts(fields: &mut Fields<'_>) -> Result<Buckets, Wrong> {
    let bounds = fields.valid(names::EXPLICIT_BOUNDS, list(double), fault::BOUNDS)?;
    let bounds = bounds.unwrap_or_default();
    let buckets = fields.valid(names::BUCKET_COUNTS, list(unsigned), fault::NO_COUNT)?;
    let buckets = buckets.unwrap_or_default();
    let count = fields.valid(names::COUNT, unsigned, fault::NO_COUNT)?;
    let rising = bounds.windows(2).all(|pair| pair[0] < pair[1]);
    if !rising || !bounds.iter().all(|bound| bound.is_finite()) {
        return Err(fault::BOUNDS);
    }
    if !(bounds.is_empty() && buckets.is_empty()) && buckets.len() != bounds.len() + 1 {
        return Err(fault::BUCKETS);
    }
    let counted = buckets.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
    let counted = counted.ok_or(fault::COUNTS)?;
    if !buckets.is_empty() && count.is_some_and(|count| count != counted) {
        return Err(fault::COUNTS);
    }
    let (sum, min, max) =
        (finite(fields, names::SUM)?, finite(fields, names::MIN)?, finite(fields, names::MAX)?);
    let count = if buckets.is_empty() { count.unwrap_or_default() } else { counted };
    Ok(Buckets { count, sum, min, max, bounds, buckets })
}
