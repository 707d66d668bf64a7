"""The types of figures. They are dicts, with the names that ``perfring stat --json`` has."""

from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "HeldUp",
    "Holding",
    "Measured",
    "MergeFigures",
    "NamedConsumer",
    "ProducerTotals",
    "RingStat",
    "RingTotals",
    "Slot",
]


class Holding(TypedDict):
    """The holder of a ring's seat: a process, or the last one that had the seat.

    ``attached_ns`` is a time of ``CLOCK_BOOTTIME``. ``uid`` is None of a process that has detached.
    """

    alive: bool
    state: Literal["alive", "detached", "dead", "free"]
    name: str
    pid: int
    uid: int | None
    epoch: int
    attached_ns: int


class _Refused(TypedDict):
    full_records: int
    full_bytes: int
    too_large_records: int
    too_large_bytes: int
    contended_records: int
    contended_bytes: int
    pending_records: int
    pending_bytes: int


class _Published(TypedDict):
    written_records: int
    written_bytes: int
    discarded_records: int
    discarded_bytes: int
    reclaimed_records: int
    reclaimed_bytes: int


class Slot(Holding, _Refused, _Published):
    """A producer of a shared ring, with its figures since it attached.

    ``open_records`` and ``open_bytes`` count its open reservations.
    """

    slot: int
    open_records: int
    open_bytes: int


class NamedConsumer(Holding):
    """A named consumer of a ring.

    ``waited_for`` is whether producers wait for it, ``slowest`` whether no consumer that is waited
    for is behind it. ``pos`` is its position. ``unread`` is what is published beyond that.
    """

    seat: int
    waited_for: bool
    slowest: bool
    pos: int
    read_records: int
    read_bytes: int
    lapped_records: int
    lapped_bytes: int
    unread_records: int
    unread_bytes: int


class HeldUp(TypedDict):
    """The producer that holds a shared ring up.

    ``for_ns`` is the least time for which it does, ``locked`` whether it has the ring's lock, and
    not only a reservation.
    """

    slot: int
    alive: bool
    for_ns: int
    locked: bool


class ProducerTotals(_Refused, _Published):
    """The records that a producer and its predecessors published, and the refused ones.

    ``reported_`` is what the stream of records reports already, in ``lost_markers`` markers.
    """

    reported_full_records: int
    reported_full_bytes: int
    reported_too_large_records: int
    reported_too_large_bytes: int
    reported_contended_records: int
    reported_contended_bytes: int
    reported_pending_records: int
    reported_pending_bytes: int
    lost_markers: int


class RingTotals(ProducerTotals):
    """The totals of a ring since it was created, with its positions.

    ``present`` counts records that are not released yet. ``unreported`` counts refused records that
    no marker in the stream reports, and ``stranded`` records that no reader can reach after a
    death.
    """

    data_head: int
    data_tail: int
    aux_head: int
    aux_tail: int
    consumer_pos: int
    unreported_records: int
    unreported_bytes: int
    overwritten_records: int
    overwritten_bytes: int
    read_records: int
    read_bytes: int
    lapped_records: int
    lapped_bytes: int
    present_records: int
    present_bytes: int
    stranded_records: int
    stranded_bytes: int


class RingStat(TypedDict):
    """The figures of a ring, as `stat` returns them.

    The totals are those of `RingTotals`. A ring with ``damaged`` totals has none, and no
    ``balanced``: whether every record is accounted for, of a ring at rest. ``types_size``,
    ``types_used``, ``type_count`` and ``types_damaged`` are of the type table, and the six from
    ``metrics_size`` on are of the metrics area. ``producer`` is None of a ring for many producers,
    whose ``slots`` are listed instead.
    """

    ring: str
    data_size: int
    aux_size: int
    policy: Literal["drop", "overwrite"]
    evict: Literal["exact", "half"]
    report: Literal["in_stream", "counters_only"]
    producers: Literal["one", "many", "cpu"]
    slot_count: int
    consumer_count: int
    time: bool
    sample_id: bool
    page_size: int
    max_len: int
    created_ns: int
    creator_pid: int
    creator_uid: int
    uuid: str
    boot_id: str
    epoch: int
    producer: Holding | None
    slots: list[Slot]
    held_up: HeldUp | None
    consumer: Holding
    consumers: list[NamedConsumer]
    damaged: bool
    types_size: int
    types_used: int
    type_count: int
    types_damaged: bool
    metrics_size: int
    metrics_used: int
    metrics_damaged: bool
    instrument_count: int
    instruments_refused: int
    instruments_replaced: int
    balanced: NotRequired[bool]
    data_head: NotRequired[int]
    data_tail: NotRequired[int]
    aux_head: NotRequired[int]
    aux_tail: NotRequired[int]
    consumer_pos: NotRequired[int]
    written_records: NotRequired[int]
    written_bytes: NotRequired[int]
    discarded_records: NotRequired[int]
    discarded_bytes: NotRequired[int]
    reclaimed_records: NotRequired[int]
    reclaimed_bytes: NotRequired[int]
    full_records: NotRequired[int]
    full_bytes: NotRequired[int]
    too_large_records: NotRequired[int]
    too_large_bytes: NotRequired[int]
    contended_records: NotRequired[int]
    contended_bytes: NotRequired[int]
    pending_records: NotRequired[int]
    pending_bytes: NotRequired[int]
    reported_full_records: NotRequired[int]
    reported_full_bytes: NotRequired[int]
    reported_too_large_records: NotRequired[int]
    reported_too_large_bytes: NotRequired[int]
    reported_contended_records: NotRequired[int]
    reported_contended_bytes: NotRequired[int]
    reported_pending_records: NotRequired[int]
    reported_pending_bytes: NotRequired[int]
    lost_markers: NotRequired[int]
    unreported_records: NotRequired[int]
    unreported_bytes: NotRequired[int]
    overwritten_records: NotRequired[int]
    overwritten_bytes: NotRequired[int]
    read_records: NotRequired[int]
    read_bytes: NotRequired[int]
    lapped_records: NotRequired[int]
    lapped_bytes: NotRequired[int]
    present_records: NotRequired[int]
    present_bytes: NotRequired[int]
    stranded_records: NotRequired[int]
    stranded_bytes: NotRequired[int]


class MergeFigures(TypedDict):
    """The figures of a `Merge`.

    ``late`` and ``late_most_ns`` are of records that came too late for their position, ``polls`` of
    rings, and ``hurried`` is how often a ring was half full.
    """

    late: int
    late_most_ns: int
    polls: int
    hurried: int


class Measured(TypedDict):
    """The values of an instrument of a process: see `metrics`.

    A counter, an up-down counter and a gauge have ``value``. A histogram has the rest:
    ``bucket_counts`` begins at the bucket ``offset`` of OpenTelemetry's ``scale``, ``zero_count``
    has the measurements up to ``zero_threshold``, and ``refused`` those that are negative, infinite
    or no numbers. ``min`` and ``max`` are None before the first one.

    ``pid`` and ``slot`` are the process's, ``alive`` is whether it lives and has the ring,
    ``resource`` has its resource attributes, and ``start_time_unix_ns`` the time from which the
    values count.
    """

    name: str
    kind: Literal["counter", "up_down_counter", "gauge", "histogram"]
    unit: str
    description: str
    attributes: dict[str, bool | int | float | str]
    pid: int
    slot: int
    alive: bool
    start_time_unix_ns: int
    resource: dict[str, Any]
    value: NotRequired[int | float]
    count: NotRequired[int]
    sum: NotRequired[float]
    min: NotRequired[float | None]
    max: NotRequired[float | None]
    scale: NotRequired[int]
    zero_count: NotRequired[int]
    zero_threshold: NotRequired[float]
    offset: NotRequired[int]
    bucket_counts: NotRequired[list[int]]
    refused: NotRequired[int]
