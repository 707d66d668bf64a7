"""Prints a Perfetto trace as JSON, one event a line, by Perfetto's own messages.

Strings and tracks are resolved. A field that those messages do not know is an error.
"""

import json
import math
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

try:
    from google.protobuf.unknown_fields import UnknownFieldSet
except ImportError:
    UnknownFieldSet = None


def check(message):
    if UnknownFieldSet is not None:
        assert len(UnknownFieldSet(message)) == 0, message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in [value] if hasattr(value, "ListFields") else value:
                check(one)


def shown(note, names):
    if note.dict_entries:
        return {key(one, names): shown(one, names) for one in note.dict_entries}
    if note.array_values:
        return [shown(one, names) for one in note.array_values]
    kind = note.WhichOneof("value")
    value = getattr(note, kind) if kind else []
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value)  # as JSON has none
    return value


def key(note, names):
    return note.name or names[note.name_iid]


trace = perfetto.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
events, notes, tracks, flags = {}, {}, {}, 0
for packet in trace.packet:
    check(packet)
    assert packet.trusted_packet_sequence_id
    if packet.sequence_flags & 1:
        events, notes = {}, {}
        flags |= 1
        assert packet.trace_packet_defaults.timestamp_clock_id == 6
    assert flags and packet.sequence_flags & 2
    for one in packet.interned_data.event_names:
        events[one.iid] = one.name
    for one in packet.interned_data.debug_annotation_names:
        notes[one.iid] = one.name
    if packet.HasField("clock_snapshot"):
        assert packet.clock_snapshot.primary_trace_clock == 6
        clocks = {one.clock_id: one.timestamp for one in packet.clock_snapshot.clocks}
        print(json.dumps({"clocks": [clocks[6], clocks[1]]}))
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        if track.HasField("process"):
            tracks[track.uuid] = {"pid": track.process.pid}
            if track.process.process_name:
                tracks[track.uuid]["process"] = track.process.process_name
        elif track.HasField("thread"):
            tracks[track.uuid] = {"tid": track.thread.tid, "parent": track.parent_uuid}
        else:
            tracks[track.uuid] = {"name": track.name, "parent": track.parent_uuid}
        if track.HasField("counter"):
            unit = track.counter.unit_name or perfetto.CounterDescriptor.Unit.Name(track.counter.unit)
            tracks[track.uuid]["unit"] = unit
            tracks[track.uuid]["is_incremental"] = track.counter.is_incremental
    if packet.HasField("track_event"):
        event = packet.track_event
        line = {
            "at": packet.timestamp,
            "type": perfetto.TrackEvent.Type.Name(event.type)[5:].lower(),
            "name": event.name or events.get(event.name_iid, ""),
            "categories": list(event.categories),
            "track": event.track_uuid,
            "on": {**tracks[event.track_uuid], "parent": tracks.get(tracks[event.track_uuid].get("parent"), {})},
            "args": {key(one, notes): shown(one, notes) for one in event.debug_annotations},
        }
        if line["type"] == "counter":
            line["value"] = event.counter_value if event.HasField("counter_value") else event.double_counter_value
        print(json.dumps(line))
