//! The subset of Perfetto's messages that our traces use. Names, numbers and types are those of
//! Perfetto's public `perfetto_trace.proto`.

use prost::{Enumeration, Message};

/// Defines messages: each field with its attributes for prost.
macro_rules! messages {
    ($($message:ident { $($field:ident: $type:ty [$($prost:tt)*];)* })*) => {$(
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $message {
            $(#[prost($($prost)*)] pub $field: $type,)*
        }
    )*};
}

messages! {
    TracePacket {
        clock_snapshot: Option<ClockSnapshot> [message, optional, tag = "6"];
        timestamp: Option<u64> [uint64, optional, tag = "8"];
        trusted_packet_sequence_id: Option<u32> [uint32, optional, tag = "10"];
        track_event: Option<TrackEvent> [message, optional, tag = "11"];
        interned_data: Option<InternedData> [message, optional, tag = "12"];
        sequence_flags: Option<u32> [uint32, optional, tag = "13"];
        timestamp_clock_id: Option<u32> [uint32, optional, tag = "58"];
        trace_packet_defaults: Option<TracePacketDefaults> [message, optional, tag = "59"];
        track_descriptor: Option<TrackDescriptor> [message, optional, tag = "60"];
    }
    TracePacketDefaults {
        timestamp_clock_id: Option<u32> [uint32, optional, tag = "58"];
    }
    ClockSnapshot {
        clocks: Vec<Clock> [message, repeated, tag = "1"];
        primary_trace_clock: Option<u32> [uint32, optional, tag = "2"];
    }
    Clock {
        clock_id: Option<u32> [uint32, optional, tag = "1"];
        timestamp: Option<u64> [uint64, optional, tag = "2"];
    }
    TrackDescriptor {
        uuid: Option<u64> [uint64, optional, tag = "1"];
        name: Option<String> [string, optional, tag = "2"];
        process: Option<ProcessDescriptor> [message, optional, tag = "3"];
        thread: Option<ThreadDescriptor> [message, optional, tag = "4"];
        parent_uuid: Option<u64> [uint64, optional, tag = "5"];
        counter: Option<CounterDescriptor> [message, optional, tag = "8"];
        description: Option<String> [string, optional, tag = "14"];
    }
    ProcessDescriptor {
        pid: Option<i32> [int32, optional, tag = "1"];
        process_name: Option<String> [string, optional, tag = "6"];
    }
    ThreadDescriptor {
        pid: Option<i32> [int32, optional, tag = "1"];
        tid: Option<i64> [int64, optional, tag = "2"];
        thread_name: Option<String> [string, optional, tag = "5"];
    }
    CounterDescriptor {
        unit: Option<i32> [enumeration = "Unit", optional, tag = "3"];
        is_incremental: Option<bool> [bool, optional, tag = "5"];
        unit_name: Option<String> [string, optional, tag = "6"];
    }
    TrackEvent {
        debug_annotations: Vec<DebugAnnotation> [message, repeated, tag = "4"];
        r#type: Option<i32> [enumeration = "EventType", optional, tag = "9"];
        name_iid: Option<u64> [uint64, optional, tag = "10"];
        track_uuid: Option<u64> [uint64, optional, tag = "11"];
        categories: Vec<String> [string, repeated, tag = "22"];
        name: Option<String> [string, optional, tag = "23"];
        counter_value: Option<i64> [int64, optional, tag = "30"];
        double_counter_value: Option<f64> [double, optional, tag = "44"];
    }
    DebugAnnotation {
        name_iid: Option<u64> [uint64, optional, tag = "1"];
        bool_value: Option<bool> [bool, optional, tag = "2"];
        uint_value: Option<u64> [uint64, optional, tag = "3"];
        int_value: Option<i64> [int64, optional, tag = "4"];
        double_value: Option<f64> [double, optional, tag = "5"];
        string_value: Option<String> [string, optional, tag = "6"];
        name: Option<String> [string, optional, tag = "10"];
        dict_entries: Vec<DebugAnnotation> [message, repeated, tag = "11"];
        array_values: Vec<DebugAnnotation> [message, repeated, tag = "12"];
    }
    InternedData {
        event_names: Vec<InternedString> [message, repeated, tag = "2"];
        debug_annotation_names: Vec<InternedString> [message, repeated, tag = "3"];
    }
    InternedString {
        iid: Option<u64> [uint64, optional, tag = "1"];
        name: Option<String> [string, optional, tag = "2"];
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
pub(super) enum Unit {
    Unspecified = 0,
    TimeNs = 1,
    Count = 2,
    SizeBytes = 3,
}

impl TrackEvent {
    pub(super) fn instant(track: u64, category: &str, details: Vec<DebugAnnotation>) -> Self {
        TrackEvent {
            r#type: Some(EventType::Instant as i32),
            track_uuid: Some(track),
            categories: vec![category.to_owned()],
            debug_annotations: details,
            ..TrackEvent::default()
        }
    }

    pub(super) fn counted(number: i64) -> Self {
        let r#type = Some(EventType::Counter as i32);
        TrackEvent { r#type, counter_value: Some(number), ..TrackEvent::default() }
    }

    pub(super) fn measured(number: f64) -> Self {
        let r#type = Some(EventType::Counter as i32);
        TrackEvent { r#type, double_counter_value: Some(number), ..TrackEvent::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
pub(super) enum EventType {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}
