//! The checks of a file's header before the file is mapped.

use crate::bad_ring::BadRing;
use crate::lead::Lead;
use crate::numbers::{
    ABI_COMPAT, ABI_VERSION, AUX_SIZE_MAX, AUX_SIZE_MIN, CONSUMERS_MAX, CPUS_MAX, DATA_SIZE_MAX,
    DATA_SIZE_MIN, ENDIAN_MARK, FEATURE_AUX, FEATURE_CONSUMERS, FEATURE_CPU, FEATURE_METRICS,
    FEATURE_SAMPLE_ID, FEATURE_TIME, FEATURES_REQUIRED_KNOWN, MAGIC, METRICS_SIZE_MAX,
    PERF_CAPABILITIES, PERF_HEADER_SIZE, SEAT_SIZE, SLOT_SIZE, SLOTS_MAX, TIME_CLOCK,
    TYPES_SIZE_MAX,
};
use crate::page::HeaderPage;
use crate::policy::{Evict, Policy, Producers, Report};
use crate::record_word::{HEADER_LEN, RECORD_ALIGN, SIZE_MAX, record_size};
use bytemuck::Zeroable;
use core::ops::Range;

/// Where the parts of a ring's file are, in bytes from its start. The header page is before them. A part that a ring does not have
/// is `0..0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Areas {
    /// The records: one page in, so that perf readers find them.
    pub data: Range<u64>,
    /// The control pages: the slots of producers.
    pub control: Range<u64>,
    /// The type table.
    pub types: Range<u64>,
    /// The AUX area: the payloads that are too long for the data area.
    pub aux: Range<u64>,
    /// The seats of named consumers.
    pub consumers: Range<u64>,
    /// The metrics area.
    pub metrics: Range<u64>,
}

const fn part(start: u64, end: u64) -> Range<u64> {
    if start == end { 0..0 } else { start..end }
}

/// The shape and identity of a ring, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a page on the machine that created the ring; the data area starts there.
    pub page_size: u32,
    /// Bytes of the data area: a power of two.
    pub data_size: u64,
    /// What a full ring does.
    pub policy: Policy,
    /// How an overwrite ring makes room.
    pub evict: Evict,
    /// Where losses are reported.
    pub report: Report,
    /// Whether the ring takes one producer at a time, or many, or many on one CPU.
    pub producers: Producers,
    /// The number of its CPU, of a ring of [`Producers::Cpu`]; else 0.
    pub cpu: u32,
    /// Producer slots: 1 for an exclusive ring, the most producers at a time for a shared one.
    pub slots: u32,
    /// Whether each record has a timestamp of `CLOCK_BOOTTIME`.
    pub time: bool,
    /// Whether each record says which thread wrote it: only in a ring of a CPU that has timestamps.
    pub sample_id: bool,
    /// When the ring was created: `CLOCK_REALTIME`, ns.
    pub created_ns: u64,
    /// The process that created it, in its own pid namespace.
    pub creator_pid: u32,
    /// The user that created it, in its own user namespace.
    pub creator_uid: u32,
    /// The ring's own id.
    pub uuid: [u8; 16],
    /// The boot in which it was created.
    pub boot_id: [u8; 16],
    /// Bytes of the type table: whole pages, or 0 if there is none.
    pub types_size: u64,
    /// Bytes of the AUX area: a power of two, or 0 if there is none.
    pub aux_size: u64,
    /// Seats for named consumers, the slowest of which the producers wait for; 0 for a ring with one
    /// consumer, and for an overwrite ring.
    pub consumers: u32,
    /// Bytes of the metrics area: whole pages, or 0 if there is none.
    pub metrics_size: u64,
}

impl Layout {
    /// Returns where the parts of the file are: after each other, in the order of [`Areas`].
    #[must_use]
    #[inline]
    pub const fn areas(&self) -> Areas {
        let page = self.page_size as u64;
        let control = page + self.data_size;
        let types = control + (self.slots as u64 * SLOT_SIZE).next_multiple_of(page);
        let aux = types + self.types_size;
        let consumers = aux + self.aux_size;
        let metrics = consumers + (self.consumers as u64 * SEAT_SIZE).next_multiple_of(page);
        let end = metrics + self.metrics_size;
        Areas {
            data: page..control,
            control: control..types,
            types: part(types, aux),
            aux: part(aux, consumers),
            consumers: part(consumers, metrics),
            metrics: part(metrics, end),
        }
    }

    /// Returns the size of the whole file in bytes.
    #[must_use]
    pub const fn file_size(&self) -> u64 {
        let Areas { control, consumers, .. } = self.areas();
        let seats = consumers.end - consumers.start;
        control.end + self.types_size + self.aux_size + seats + self.metrics_size
    }

    /// Returns the byte that the named consumer in a seat keeps locked.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub const fn consumer_lock_byte(&self, seat: u32) -> u64 {
        self.areas().consumers.start + seat as u64 * SEAT_SIZE
    }

    /// Returns the byte that the holder of a slot keeps locked.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub const fn slot_lock_byte(&self, slot: u32) -> u64 {
        self.areas().control.start + slot as u64 * SLOT_SIZE
    }

    /// Returns the length of the longest payload that the ring takes: all of the AUX area, if it
    /// has one.
    #[must_use]
    pub const fn max_len(&self) -> usize {
        let small = self.max_small_len();
        if self.aux_size as usize > small { self.aux_size as usize } else { small }
    }

    /// Returns the length of the longest payload in the data area: limited by the 16-bit size and
    /// by the ring, which is never quite full. Longer ones are stored in the AUX area.
    #[must_use]
    pub const fn max_small_len(&self) -> usize {
        max_len(self.data_size) - self.lead().len()
    }

    fn features_required(&self) -> u64 {
        (if self.time { FEATURE_TIME } else { 0 })
            | (if self.aux_size != 0 { FEATURE_AUX } else { 0 })
            | (if self.producers == Producers::Cpu { FEATURE_CPU } else { 0 })
            | (if self.sample_id { FEATURE_SAMPLE_ID } else { 0 })
            | (if self.consumers != 0 { FEATURE_CONSUMERS } else { 0 })
            | (if self.metrics_size != 0 { FEATURE_METRICS } else { 0 })
    }

    /// Returns how many slots count losses: none in a ring of one producer, whose totals are in the header page.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub const fn loss_slots(&self) -> usize {
        match self.producers {
            Producers::One => 0,
            Producers::Many | Producers::Cpu => self.slots as usize,
        }
    }

    /// Returns what each record has before its payload.
    #[must_use]
    #[inline]
    pub const fn lead(&self) -> Lead {
        Lead::of(self.time, self.sample_id)
    }

    /// Returns the bytes that a payload of `len` uses in this ring: header, what is before it,
    /// payload, padding to eight. Saturates.
    #[must_use]
    #[inline]
    pub const fn record_size(&self, len: usize) -> u64 {
        record_size(len.saturating_add(self.lead().len()))
    }

    /// Returns the header page of a new ring of this shape. `magic` is left zero: it is written
    /// last.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn to_page(&self) -> HeaderPage {
        let areas = self.areas();
        HeaderPage {
            capabilities: PERF_CAPABILITIES,
            size: PERF_HEADER_SIZE,
            data_offset: areas.data.start,
            data_size: self.data_size,
            abi_version: ABI_VERSION,
            abi_compat: ABI_COMPAT,
            features_required: self.features_required(),
            time_clock: if self.time { TIME_CLOCK } else { 0 },
            page_size: self.page_size,
            endian: ENDIAN_MARK,
            policy: self.policy.code(),
            producers: self.producers.code(),
            evict: self.evict.code(),
            report: self.report.code(),
            slot_count: self.slots,
            slot_size: SLOT_SIZE as u32,
            control_offset: areas.control.start,
            control_size: areas.control.end - areas.control.start,
            file_size: self.file_size(),
            created_ns: self.created_ns,
            creator_pid: self.creator_pid,
            creator_uid: self.creator_uid,
            uuid: self.uuid,
            boot_id: self.boot_id,
            types_offset: areas.types.start,
            types_size: self.types_size,
            aux_offset: areas.aux.start,
            aux_size: self.aux_size,
            cpu_number: self.cpu,
            consumer_count: self.consumers,
            consumers_offset: areas.consumers.start,
            consumers_size: areas.consumers.end - areas.consumers.start,
            metrics_offset: areas.metrics.start,
            metrics_size: self.metrics_size,
            ..HeaderPage::zeroed()
        }
    }

    /// Checks a header page against the length of its file.
    ///
    /// # Errors
    /// What is wrong with it, with a message that says what to do.
    pub fn check(page: &HeaderPage, file_len: u64) -> Result<Self, BadRing> {
        if page.magic != MAGIC {
            return Err(if page.magic == MAGIC.swap_bytes() {
                BadRing::Endian
            } else {
                BadRing::Foreign { magic: page.magic }
            });
        }
        if page.endian != ENDIAN_MARK {
            return Err(BadRing::Endian);
        }
        if page.abi_compat > ABI_VERSION {
            return Err(BadRing::Newer { version: page.abi_version, compat: page.abi_compat });
        }
        let unknown = page.features_required & !FEATURES_REQUIRED_KNOWN;
        if unknown != 0 {
            return Err(BadRing::Features { unknown });
        }
        let bad = |name, value: u64| BadRing::Field { name, value };
        if page.abi_version == 0 || page.abi_compat > page.abi_version {
            return Err(bad("abi_version", page.abi_version.into()));
        }
        if !page.page_size.is_power_of_two() || !(4096..=1 << 20).contains(&page.page_size) {
            return Err(bad("page_size", page.page_size.into()));
        }
        if !page.data_size.is_power_of_two()
            || page.data_size > DATA_SIZE_MAX
            || page.data_size < DATA_SIZE_MIN.max(page.page_size.into())
        {
            return Err(bad("data_size", page.data_size));
        }
        let policy = Policy::from_code(page.policy).ok_or(bad("policy", page.policy.into()))?;
        let evict = Evict::from_code(page.evict).ok_or(bad("evict", page.evict.into()))?;
        let report = Report::from_code(page.report).ok_or(bad("report", page.report.into()))?;
        let producers =
            Producers::from_code(page.producers).ok_or(bad("producers", page.producers.into()))?;
        // Bytes that were zero before there were such rings.
        let per_cpu = producers == Producers::Cpu;
        if per_cpu != (page.features_required & FEATURE_CPU != 0) {
            return Err(bad("producers", page.producers.into()));
        }
        if per_cpu && page.cpu_number >= CPUS_MAX {
            return Err(bad("cpu_number", page.cpu_number.into()));
        }
        let most = if producers == Producers::One { 1 } else { SLOTS_MAX };
        if page.slot_count == 0 || page.slot_count > most {
            return Err(bad("slot_count", page.slot_count.into()));
        }
        if u64::from(page.slot_size) != SLOT_SIZE {
            return Err(bad("slot_size", page.slot_size.into()));
        }
        if !page.types_size.is_multiple_of(page.page_size.into())
            || page.types_size > TYPES_SIZE_MAX
        {
            return Err(bad("types_size", page.types_size));
        }
        let time = page.features_required & FEATURE_TIME != 0;
        if page.time_clock != if time { TIME_CLOCK } else { 0 } {
            return Err(bad("time_clock", page.time_clock.into()));
        }
        let aux = page.features_required & FEATURE_AUX != 0;
        if aux != (page.aux_size != 0) || (aux && !aux_fits(page.aux_size, page.page_size)) {
            return Err(bad("aux_size", page.aux_size));
        }
        let sample_id = page.features_required & FEATURE_SAMPLE_ID != 0;
        if sample_id && !(per_cpu && time && !aux) {
            return Err(bad("features_required", page.features_required));
        }
        // Bytes that were zero before there were such rings.
        let named = page.features_required & FEATURE_CONSUMERS != 0;
        if named && (policy != Policy::Drop || per_cpu || aux) {
            return Err(bad("features_required", page.features_required));
        }
        let consumers = if named { page.consumer_count } else { 0 };
        if named && !(1..=CONSUMERS_MAX).contains(&consumers) {
            return Err(bad("consumer_count", consumers.into()));
        }
        // Bytes that were zero before there were such rings.
        let measured = page.features_required & FEATURE_METRICS != 0;
        let metrics = if measured { (page.metrics_offset, page.metrics_size) } else { (0, 0) };
        if measured
            && (!(1..=METRICS_SIZE_MAX).contains(&metrics.1)
                || !metrics.1.is_multiple_of(page.page_size.into()))
        {
            return Err(bad("metrics_size", metrics.1));
        }
        let layout = Layout {
            page_size: page.page_size,
            data_size: page.data_size,
            policy,
            evict,
            report,
            producers,
            cpu: if per_cpu { page.cpu_number } else { 0 },
            slots: page.slot_count,
            time,
            sample_id,
            created_ns: page.created_ns,
            creator_pid: page.creator_pid,
            creator_uid: page.creator_uid,
            uuid: page.uuid,
            boot_id: page.boot_id,
            types_size: page.types_size,
            aux_size: page.aux_size,
            consumers,
            metrics_size: metrics.1,
        };
        let area = if named { (page.consumers_offset, page.consumers_size) } else { (0, 0) };
        let areas = layout.areas();
        for (name, value, must) in [
            ("data_offset", page.data_offset, areas.data.start),
            ("control_offset", page.control_offset, areas.control.start),
            ("control_size", page.control_size, areas.control.end - areas.control.start),
            ("types_offset", page.types_offset, areas.types.start),
            ("aux_offset", page.aux_offset, areas.aux.start),
            ("consumers_offset", area.0, areas.consumers.start),
            ("consumers_size", area.1, areas.consumers.end - areas.consumers.start),
            ("metrics_offset", metrics.0, areas.metrics.start),
            ("file_size", page.file_size, layout.file_size()),
        ] {
            if value != must {
                return Err(bad(name, value));
            }
        }
        if file_len < layout.file_size() {
            return Err(BadRing::Truncated { len: file_len, needed: layout.file_size() });
        }
        Ok(layout)
    }
}

/// Returns whether an AUX area can have this size.
fn aux_fits(size: u64, page_size: u32) -> bool {
    size.is_power_of_two() && (AUX_SIZE_MIN.max(page_size.into())..=AUX_SIZE_MAX).contains(&size)
}

/// Returns the length of the longest payload for a data area of this size.
pub(crate) const fn max_len(data_size: u64) -> usize {
    let by_ring = data_size - RECORD_ALIGN as u64;
    let size = if by_ring < SIZE_MAX as u64 { by_ring } else { SIZE_MAX as u64 };
    (size - HEADER_LEN as u64) as usize
}
