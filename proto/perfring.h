/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring.h: the layout of a perfring ring file, in C11 (and C++17).
 *
 * proto/ABI.md is the contract in prose, crates/abi the same in Rust; a test compares the three. This
 * header has no code: perfring_reader.h and perfring_producer.h implement it in C.
 *
 *     0               header page: struct perfring_header, 4096 bytes of the first page
 *     data_offset     data area: data_size bytes, a power of two
 *     control_offset  control pages: slot_count times struct perfring_slot
 *     types_offset    type table: struct perfring_types, then entries
 *     file_size       end
 *
 * All numbers are in the byte order of the machine that created the ring (`endian` says which).
 *
 * Positions are 64-bit byte counts that only grow: offset = position & (data_size - 1).
 * data_tail <= data_head <= producer_pos, and producer_pos - data_tail < data_size, always; but in a ring
 * per CPU that is open to sequences, data_head is ahead of producer_pos.
 *
 * Fields are plain integers here. Those that change while the ring is in use are shared between
 * processes: load and store them with atomics (`__atomic_load_n`, `_Atomic`, `std::atomic_ref`) in
 * these orders. The letters are those of crates/ring/src/lib.rs.
 *
 *  letter  pairs with  site
 *
 *  A       B       a producer stores data_head (release)
 *  B       A       a reader loads data_head (acquire; on read-only pages relaxed, then an acquire
 *                  fence): it sees every record before that head
 *  C       D       the consumer of a drop ring stores aux_tail (release), and data_tail (release):
 *                  what it has read is not overwritten before it has read it, and its
 *                  write-touches do not overwrite new records
 *  D       C       the producer loads data_tail, or aux_tail (acquire)
 *  E       F       a producer stores data_tail, or aux_tail (overwrite; a drop ring's has loaded
 *                  it, D), and its totals, then a release fence, then writes over the oldest
 *                  records, or ranges
 *  F       E       a reader has copied a record, or a range; an acquire fence, then it loads
 *                  data_tail, the totals, or aux_tail, again: if it copied any new byte, it sees the
 *                  tail past the record, or range, and drops the copy
 *  G       H       a SeqLatch's owner stores the first word, a release fence, the body, the last word
 *                  (release)
 *  H       G       a reader of a SeqLatch loads the last word, an acquire fence, the body, an acquire
 *                  fence, the first word: if the two are equal, the copy is whole
 *  I       J       a producer stores data_head, a light fence, loads wait_armed
 *  J       I       a consumer stores wait_armed, a heavy fence, loads data_head: it never sleeps past
 *                  a record
 *  K       L       the consumer stores data_tail, a light fence, loads space_armed
 *  L       K       a producer stores space_armed, a heavy fence, loads data_tail: it never sleeps
 *                  past free space
 *  M       M       a producer of a shared ring takes the lock word by compare-and-swap (acquire) and
 *                  releases it (release): it sees all that was written under the lock before. In a ring
 *                  per CPU cpu_state is stored (release) and loaded (acquire) likewise
 *  N       N       a reservation of a shared ring is ended by a swap of its header word (release),
 *                  and a process that reads a word that may be open loads it (acquire): a record that
 *                  is seen to have ended is whole
 *  O       O       a producer of a shared ring has ended a record, or has stored producer_pos
 *                  (release); a full fence, then it loads data_head, producer_pos (acquire) and the
 *                  header words from there on: of an older record that ends and a younger one that
 *                  has ended, one side sees the other; and no word before producer_pos is an older
 *                  one
 *  P       P       a producer that holds the type table's lock has written an entry, then stores
 *                  types_used (release); a reader that sees the count sees every entry before it
 *  Q       Q       a producer has written an anchor, then stores anchors_written (release), and a
 *                  release fence comes before the next anchor's words; a reader that sees the count
 *                  sees the anchor, and one that sees a word of the next sees the count before it,
 *                  when it loads the count again after an acquire fence
 *  R       R       a producer stores lock odd, a release fence, perf's time fields, lock even
 *                  (release); a reader that finds the same even lock before and after has fields of
 *                  one moment
 *  S       T       a producer stores tail_next, a full fence, loads the tails of named consumers,
 *                  then stores data_tail
 *  T       S       a named consumer that joins stores its tail, a full fence, loads tail_next
 *  U       U       a producer that holds the type table's lock has written a block of the metrics
 *                  area, then stores metrics_used (release)
 *  V       V       a measurement is added to a histogram's sum, least and greatest, then to its
 *                  bucket (release); a gauge gets its first value, then the mark that it is set
 *  W       W       a process that takes a block over stores 0 as its owner, a release fence, the
 *                  other words, the owner (release)
 *
 * The heavy fence is membarrier(2), MEMBARRIER_CMD_GLOBAL_EXPEDITED, and a full fence. The light
 * fence is a compiler fence in a process that has registered with
 * MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, and a full fence in any other.
 */
#ifndef PERFRING_H
#define PERFRING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define PERFRING_ASSERT(what) static_assert(what, #what)
#else
#define PERFRING_ASSERT(what) _Static_assert(what, #what)
#endif

/* Identity. The magic is the eight bytes "perfring" at offset 1152, in any byte order. */
#define PERFRING_MAGIC_BYTES "perfring"
#define PERFRING_ABI_VERSION 1
#define PERFRING_ABI_COMPAT 1
#define PERFRING_ENDIAN_MARK 0x01020304
#define PERFRING_FEATURE_TIME 1 /* each record that an application publishes has a timestamp */
#define PERFRING_FEATURE_AUX 2 /* there is an AUX area, and records whose payloads are in it */
#define PERFRING_FEATURE_CPU 4 /* the producers of one CPU publish in restartable sequences */
#define PERFRING_FEATURE_SAMPLE_ID 8 /* and the pid and tid of its writer; with _TIME and _CPU, without _AUX */
#define PERFRING_FEATURE_CONSUMERS 16 /* named consumers; these headers refuse it */
#define PERFRING_FEATURE_METRICS 32 /* a metrics area; perfring_metrics.h reads it, the other headers refuse it */
#define PERFRING_FEATURES_REQUIRED_KNOWN 63
#define PERFRING_TIME_CLOCK 7 /* `time_clock` of a ring with time: CLOCK_BOOTTIME */
#define PERFRING_PERF_CAPABILITIES 2
#define PERFRING_PERF_CAP_TIME_ZERO 16 /* time_shift, time_mult and time_zero can be used */
#define PERFRING_PERF_HEADER_SIZE 96

/* Kinds of blocks in a metrics area. */
#define PERFRING_METRIC_COUNTER_U64 1
#define PERFRING_METRIC_COUNTER_F64 2
#define PERFRING_METRIC_UP_DOWN_I64 3
#define PERFRING_METRIC_UP_DOWN_F64 4
#define PERFRING_METRIC_GAUGE_I64 5
#define PERFRING_METRIC_GAUGE_F64 6
#define PERFRING_METRIC_HISTOGRAM 7
#define PERFRING_METRIC_RECORD 8

/* Sizes. */
#define PERFRING_METRICS_SIZE_MAX 1073741824 /* 1 GiB */
#define PERFRING_METRICS_ALIGN 64
#define PERFRING_METRICS_FIRST 64
#define PERFRING_HEADER_PAGE_LEN 4096
#define PERFRING_DATA_SIZE_MIN 4096
#define PERFRING_DATA_SIZE_MAX 1099511627776 /* 1 TiB */
#define PERFRING_AUX_SIZE_MIN 65536
#define PERFRING_AUX_SIZE_MAX 1099511627776 /* 1 TiB */
#define PERFRING_RANGE_ALIGN 64 /* a range of the AUX area begins and ends at a multiple of it */
#define PERFRING_SLOT_SIZE 1024
#define PERFRING_TYPES_FIRST 64
#define PERFRING_TYPES_SIZE_MAX 16777216
#define PERFRING_SLOTS_MAX 4096
#define PERFRING_SLOTS_DEFAULT 64 /* of a shared ring, and of a ring per CPU */
#define PERFRING_CPUS_MAX 8192 /* `cpu_number` is less */
#define PERFRING_SEAT_SIZE 512 /* of a named consumer */
#define PERFRING_CONSUMERS_MAX 32
#define PERFRING_NAME_LEN 64
#define PERFRING_UID_DETACHED 0xffffffff /* the uid in the owner info of a seat whose owner has detached */

/* The byte of the file whose open-file-description lock the consumer holds. The producer in slot n
 * holds the one at control_offset + n * PERFRING_SLOT_SIZE; a process that recovers a shared ring and
 * is not a producer of it holds the second one here. */
#define PERFRING_CONSUMER_LOCK_BYTE 2432
#define PERFRING_RECOVER_LOCK_BYTE 2808
/* The byte that a process locks while it takes a named consumer's seat, or drops the dead. */
#define PERFRING_JOIN_LOCK_BYTE 3392

/* `policy`: what a full ring does. */
#define PERFRING_POLICY_DROP 0
#define PERFRING_POLICY_OVERWRITE 1

/* `producers`: how many at a time. */
#define PERFRING_PRODUCERS_ONE 1
#define PERFRING_PRODUCERS_MANY 2
#define PERFRING_PRODUCERS_CPU 3 /* as many, on one CPU; with PERFRING_FEATURE_CPU, and never without */

/* `evict`: how an overwrite ring makes room. */
#define PERFRING_EVICT_EXACT 0
#define PERFRING_EVICT_HALF 1

/* `report`: where a loss is reported, besides the counters. */
#define PERFRING_REPORT_IN_STREAM 0
#define PERFRING_REPORT_COUNTERS_ONLY 1

/* `id` of a PERFRING_TYPE_LOST: why. Any other number is another writer's. */
#define PERFRING_CAUSE_FOREIGN 0
#define PERFRING_CAUSE_FULL 1
#define PERFRING_CAUSE_TOO_LARGE 2
#define PERFRING_CAUSE_LAPPED 3
#define PERFRING_CAUSE_CONTENDED 4
#define PERFRING_CAUSE_PENDING 5

/* Records. */
#define PERFRING_HEADER_LEN 8
#define PERFRING_RECORD_ALIGN 8
#define PERFRING_SIZE_MAX 65528
#define PERFRING_MISC_PAD 0x7
#define PERFRING_LOST_SIZE 32
#define PERFRING_TIMESTAMP_LEN 8
#define PERFRING_WRITER_LEN 8
#define PERFRING_AUX_SIZE 48 /* of a PERFRING_TYPE_AUX, header and body */

/* Record types: those below 64 are the kernel's, 0x50460000 to 0x5046ffff perfring's own. */
#define PERFRING_TYPE_LOST 2
#define PERFRING_TYPE_SAMPLE 9
#define PERFRING_TYPE_AUX 11 /* in a ring with an AUX area: its payload is there */
#define PERFRING_TYPE_BYTES 4096
#define PERFRING_TYPE_NOP 0x50460001
#define PERFRING_TYPE_BUSY 0x50460002 /* never before data_head */

/* `misc` of a PERFRING_TYPE_NOP: what the hole was; 0 for a discarded reservation. */
#define PERFRING_HOLE_RECLAIMED 0x8 /* its producer died */
#define PERFRING_HOLE_REST 0x10     /* left by a commit of fewer bytes than were reserved */

/* `misc` of a PERFRING_TYPE_BUSY without its bit 15, shifted right by this: the slot whose
 * reservation is open. */
#define PERFRING_BUSY_SLOT_SHIFT 3
#define PERFRING_BUSY_AUX 0x8000 /* a bit of it: the reservation has a range of the AUX area */

/* Words of a PERFRING_TYPE_AUX's body, after its header. */
#define PERFRING_AUX_RECORD_OFFSET 0 /* where the payload begins: a position in the AUX area */
#define PERFRING_AUX_RECORD_LEN 1    /* bytes of the payload */
#define PERFRING_AUX_RECORD_FLAGS 2  /* PERFRING_AUX_OVERWRITE, or 0 */
#define PERFRING_AUX_RECORD_TIME 3   /* the timestamp, or 0 */
#define PERFRING_AUX_RECORD_ID 4     /* the type of the record */
#define PERFRING_AUX_RECORD_WORDS 5
#define PERFRING_AUX_OVERWRITE 2 /* the area overwrites its oldest */

/* `shared_lock`: 0, or slot + 1 in so many low bits and the slot's epoch in the others. */
#define PERFRING_LOCK_SLOT_BITS 16

/* Words of one copy of each SeqLatch, of the running totals and of a slot's base, and the index of each
 * figure in it. Word 0 and the last word of a SeqLatch's copy are the number of the write. */
#define PERFRING_TAIL_MARK_WORDS 4
#define PERFRING_PRODUCER_TOTALS_WORDS 28
#define PERFRING_CONSUMER_TOTALS_WORDS 8
#define PERFRING_CONSUMER_TOLD_WORDS 16
#define PERFRING_SLOT_WRITTEN_WORDS 5
#define PERFRING_SLOT_LOSSES_WORDS 24
#define PERFRING_SLOT_BASE_WORDS 16
#define PERFRING_RUNNING_WORDS 13
#define PERFRING_ANCHOR_WORDS 4
#define PERFRING_ANCHORS 16 /* of which the newest 15 can be read */

#define PERFRING_TAIL_MARK_POS 0 /* also the number */
#define PERFRING_TAIL_MARK_RECORDS 1
#define PERFRING_TAIL_MARK_BYTES 2

#define PERFRING_PRODUCER_TOTALS_POS 1
#define PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS 2
#define PERFRING_PRODUCER_TOTALS_WRITTEN_BYTES 3
#define PERFRING_PRODUCER_TOTALS_DISCARDED_RECORDS 4
#define PERFRING_PRODUCER_TOTALS_DISCARDED_BYTES 5
#define PERFRING_PRODUCER_TOTALS_RECLAIMED_RECORDS 6
#define PERFRING_PRODUCER_TOTALS_RECLAIMED_BYTES 7
#define PERFRING_PRODUCER_TOTALS_FULL_RECORDS 8
#define PERFRING_PRODUCER_TOTALS_FULL_BYTES 9
#define PERFRING_PRODUCER_TOTALS_TOO_LARGE_RECORDS 10
#define PERFRING_PRODUCER_TOTALS_TOO_LARGE_BYTES 11
#define PERFRING_PRODUCER_TOTALS_CONTENDED_RECORDS 12
#define PERFRING_PRODUCER_TOTALS_CONTENDED_BYTES 13
#define PERFRING_PRODUCER_TOTALS_PENDING_RECORDS 14
#define PERFRING_PRODUCER_TOTALS_PENDING_BYTES 15
#define PERFRING_PRODUCER_TOTALS_REPORTED_FULL_RECORDS 16
#define PERFRING_PRODUCER_TOTALS_REPORTED_FULL_BYTES 17
#define PERFRING_PRODUCER_TOTALS_REPORTED_TOO_LARGE_RECORDS 18
#define PERFRING_PRODUCER_TOTALS_REPORTED_TOO_LARGE_BYTES 19
#define PERFRING_PRODUCER_TOTALS_REPORTED_CONTENDED_RECORDS 20
#define PERFRING_PRODUCER_TOTALS_REPORTED_CONTENDED_BYTES 21
#define PERFRING_PRODUCER_TOTALS_REPORTED_PENDING_RECORDS 22
#define PERFRING_PRODUCER_TOTALS_REPORTED_PENDING_BYTES 23
#define PERFRING_PRODUCER_TOTALS_LOST_MARKERS 24

#define PERFRING_CONSUMER_TOTALS_POS 1
#define PERFRING_CONSUMER_TOTALS_READ_RECORDS 2
#define PERFRING_CONSUMER_TOTALS_READ_BYTES 3
#define PERFRING_CONSUMER_TOTALS_LAPPED_RECORDS 4
#define PERFRING_CONSUMER_TOTALS_LAPPED_BYTES 5

/* The first of eight words, in the order of PERFRING_PRODUCER_TOTALS_FULL_RECORDS to _PENDING_BYTES. */
#define PERFRING_CONSUMER_TOLD_REFUSED 1
#define PERFRING_CONSUMER_TOLD_NAME 9 /* of a named consumer, the FNV-1a hash of the 64 bytes of its name; otherwise 0 */

/* The position of the newest event in a slot's SeqLatch; PERFRING_NOWHERE: it counts in any case. */
#define PERFRING_NOWHERE 0xffffffffffffffff
#define PERFRING_SLOT_WRITTEN_POS 1
#define PERFRING_SLOT_WRITTEN_RECORDS 2
#define PERFRING_SLOT_WRITTEN_BYTES 3

#define PERFRING_SLOT_LOSSES_POS 1
#define PERFRING_SLOT_LOSSES_DISCARDED_RECORDS 2
#define PERFRING_SLOT_LOSSES_DISCARDED_BYTES 3
#define PERFRING_SLOT_LOSSES_RECLAIMED_RECORDS 4
#define PERFRING_SLOT_LOSSES_RECLAIMED_BYTES 5
#define PERFRING_SLOT_LOSSES_FULL_RECORDS 6
#define PERFRING_SLOT_LOSSES_FULL_BYTES 7
#define PERFRING_SLOT_LOSSES_TOO_LARGE_RECORDS 8
#define PERFRING_SLOT_LOSSES_TOO_LARGE_BYTES 9
#define PERFRING_SLOT_LOSSES_CONTENDED_RECORDS 10
#define PERFRING_SLOT_LOSSES_CONTENDED_BYTES 11
#define PERFRING_SLOT_LOSSES_PENDING_RECORDS 12
#define PERFRING_SLOT_LOSSES_PENDING_BYTES 13
#define PERFRING_SLOT_LOSSES_REPORTED_FULL_RECORDS 14
#define PERFRING_SLOT_LOSSES_REPORTED_FULL_BYTES 15
#define PERFRING_SLOT_LOSSES_REPORTED_TOO_LARGE_RECORDS 16
#define PERFRING_SLOT_LOSSES_REPORTED_TOO_LARGE_BYTES 17
#define PERFRING_SLOT_LOSSES_REPORTED_CONTENDED_RECORDS 18
#define PERFRING_SLOT_LOSSES_REPORTED_CONTENDED_BYTES 19
#define PERFRING_SLOT_LOSSES_REPORTED_PENDING_RECORDS 20
#define PERFRING_SLOT_LOSSES_REPORTED_PENDING_BYTES 21

#define PERFRING_SLOT_BASE_WRITTEN_RECORDS 0
#define PERFRING_SLOT_BASE_WRITTEN_BYTES 1
#define PERFRING_SLOT_BASE_DISCARDED_RECORDS 2
#define PERFRING_SLOT_BASE_DISCARDED_BYTES 3
#define PERFRING_SLOT_BASE_RECLAIMED_RECORDS 4
#define PERFRING_SLOT_BASE_RECLAIMED_BYTES 5
#define PERFRING_SLOT_BASE_FULL_RECORDS 6
#define PERFRING_SLOT_BASE_FULL_BYTES 7
#define PERFRING_SLOT_BASE_TOO_LARGE_RECORDS 8
#define PERFRING_SLOT_BASE_TOO_LARGE_BYTES 9
#define PERFRING_SLOT_BASE_CONTENDED_RECORDS 10
#define PERFRING_SLOT_BASE_CONTENDED_BYTES 11
#define PERFRING_SLOT_BASE_PENDING_RECORDS 12
#define PERFRING_SLOT_BASE_PENDING_BYTES 13

#define PERFRING_RUNNING_DISCARDED_RECORDS 0
#define PERFRING_RUNNING_DISCARDED_BYTES 1
#define PERFRING_RUNNING_RECLAIMED_RECORDS 2
#define PERFRING_RUNNING_RECLAIMED_BYTES 3
#define PERFRING_RUNNING_REPORTED_FULL_RECORDS 4
#define PERFRING_RUNNING_REPORTED_FULL_BYTES 5
#define PERFRING_RUNNING_REPORTED_TOO_LARGE_RECORDS 6
#define PERFRING_RUNNING_REPORTED_TOO_LARGE_BYTES 7
#define PERFRING_RUNNING_REPORTED_CONTENDED_RECORDS 8
#define PERFRING_RUNNING_REPORTED_CONTENDED_BYTES 9
#define PERFRING_RUNNING_REPORTED_PENDING_RECORDS 10
#define PERFRING_RUNNING_REPORTED_PENDING_BYTES 11
#define PERFRING_RUNNING_LOST_MARKERS 12

#define PERFRING_ANCHOR_POS 0
#define PERFRING_ANCHOR_CLOCK_NS 1
#define PERFRING_ANCHOR_REALTIME_NS 2
#define PERFRING_ANCHOR_ERROR_NS 3

/* Offsets of perfring's own fields. */
#define PERFRING_OFF_MAGIC 1152
#define PERFRING_OFF_ABI_VERSION 1160
#define PERFRING_OFF_ABI_COMPAT 1164
#define PERFRING_OFF_FEATURES_REQUIRED 1168
#define PERFRING_OFF_FEATURES_OPTIONAL 1176
#define PERFRING_OFF_PAGE_SIZE 1184
#define PERFRING_OFF_ENDIAN 1188
#define PERFRING_OFF_POLICY 1192
#define PERFRING_OFF_PRODUCERS 1196
#define PERFRING_OFF_EVICT 1200
#define PERFRING_OFF_REPORT 1204
#define PERFRING_OFF_SLOT_COUNT 1208
#define PERFRING_OFF_SLOT_SIZE 1212
#define PERFRING_OFF_CONTROL_OFFSET 1216
#define PERFRING_OFF_CONTROL_SIZE 1224
#define PERFRING_OFF_FILE_SIZE 1232
#define PERFRING_OFF_CREATED_NS 1240
#define PERFRING_OFF_CREATOR_PID 1248
#define PERFRING_OFF_CREATOR_UID 1252
#define PERFRING_OFF_UUID 1256
#define PERFRING_OFF_BOOT_ID 1272
#define PERFRING_OFF_TYPES_OFFSET 1288
#define PERFRING_OFF_TYPES_SIZE 1296
#define PERFRING_OFF_TIME_CLOCK 1304
#define PERFRING_OFF_CONSUMER_COUNT 1308
#define PERFRING_OFF_CONSUMERS_OFFSET 1312
#define PERFRING_OFF_CONSUMERS_SIZE 1320
#define PERFRING_OFF_METRICS_OFFSET 1328
#define PERFRING_OFF_METRICS_SIZE 1336
#define PERFRING_OFF_TAIL_MARK 1408
#define PERFRING_OFF_PRODUCER_TOTALS 1536
#define PERFRING_OFF_WAIT_ARMED 2048
#define PERFRING_OFF_WAIT_WAKE_POS 2056
#define PERFRING_OFF_WAIT_WAKE_RECORDS 2064
#define PERFRING_OFF_WAIT_SEQ 2112
#define PERFRING_OFF_SPACE_ARMED 2176
#define PERFRING_OFF_SPACE_WAKE_POS 2184
#define PERFRING_OFF_SPACE_SEQ 2240
#define PERFRING_OFF_CONSUMER_TOTALS 2304
#define PERFRING_OFF_CONSUMER_EPOCH 2432
#define PERFRING_OFF_CONSUMER_ATTACHED_NS 2440
#define PERFRING_OFF_CONSUMER_PID 2448
#define PERFRING_OFF_CONSUMER_UID 2452
#define PERFRING_OFF_CONSUMER_NAME 2456
#define PERFRING_OFF_SHARED_LOCK 2560
#define PERFRING_OFF_PRODUCER_POS 2568
#define PERFRING_OFF_RUNNING_WRITTEN 2576
#define PERFRING_OFF_RUNNING_STALE 2584
#define PERFRING_OFF_NEWEST_TIMESTAMP 2592
#define PERFRING_OFF_RUNNING_MORE 2624
#define PERFRING_OFF_RUNNING 2688
#define PERFRING_OFF_STUCK_POS 2792
#define PERFRING_OFF_STUCK_SINCE_NS 2800
#define PERFRING_OFF_RECOVER_BYTE 2808
#define PERFRING_OFF_TIME_BOOT 2816
#define PERFRING_OFF_ANCHORS_WRITTEN 2824
#define PERFRING_OFF_ANCHORS 2880
#define PERFRING_OFF_TAIL_NEXT 3392
#define PERFRING_OFF_CPU_STATE 3456
#define PERFRING_OFF_CPU_LIMIT 3464
#define PERFRING_OFF_CPU_COUNT 3472
#define PERFRING_OFF_CPU_NUMBER 3480
#define PERFRING_OFF_NAMED_TAILS 3584
#define PERFRING_OFF_CONSUMER_TOLD 3840

/* struct perf_event_header: one aligned 64-bit word, stored and loaded as such. */
struct perfring_record {
	uint32_t type;
	uint16_t misc; /* PERFRING_MISC_PAD: how many of the last bytes are padding */
	uint16_t size; /* header, payload and padding: a multiple of 8, at least 8 */
};

/* A PERFRING_TYPE_LOST as perfring writes it. */
struct perfring_lost {
	struct perfring_record header;
	uint64_t id;    /* PERFRING_CAUSE_* */
	uint64_t lost;  /* records */
	uint64_t bytes; /* the bytes that they would have taken, headers and padding included */
};

/* In a ring with time, a record that an application published, up to its payload. */
struct perfring_timestamped {
	struct perfring_record header;
	uint64_t time; /* CLOCK_BOOTTIME of the initial time namespace, ns */
};

/* In a ring with PERFRING_FEATURE_SAMPLE_ID, the same. */
struct perfring_sample_id {
	struct perfring_record header;
	uint64_t time;
	uint32_t pid; /* the thread that wrote it, in its own pid namespace */
	uint32_t tid;
};

/* Bytes that a payload of `len` bytes (at most 65520) takes in the ring; of a ring with time, add
 * PERFRING_TIMESTAMP_LEN to `len`, and of one with PERFRING_FEATURE_SAMPLE_ID PERFRING_WRITER_LEN as well. */
#define PERFRING_RECORD_SIZE(len) (((uint64_t)(len) + 15u) & ~(uint64_t)7u)

/* At types_offset. A process that adds an entry holds the lock on its first byte. */
struct perfring_types {
	uint64_t types_used; /* live: end of the last entry, from types_offset on */
	uint64_t zeros[7];
};

/* An entry of the type table: this, `len` bytes of JSON, zeros up to `size`. */
struct perfring_type {
	uint32_t size;  /* of the whole entry: a multiple of 8 */
	uint32_t id;    /* the record type */
	uint32_t len;   /* bytes of JSON */
	uint32_t check; /* FNV-1a, 32 bits, of the JSON */
	uint64_t layout; /* equal for equal payloads; units and help do not count */
};

/* Two copies, written in turn; the one whose first and last word agree is whole, of two whole ones
 * the greater number is the newer. The tail mark is of data_tail or of a boundary at most 64 records
 * after it: subtract the records in between from its count. */
struct perfring_tail_mark {
	uint64_t copies[2][PERFRING_TAIL_MARK_WORDS];
};
struct perfring_producer_totals {
	uint64_t copies[2][PERFRING_PRODUCER_TOTALS_WORDS];
};
struct perfring_consumer_totals {
	uint64_t copies[2][PERFRING_CONSUMER_TOTALS_WORDS];
};
struct perfring_consumer_told {
	uint64_t copies[2][PERFRING_CONSUMER_TOLD_WORDS];
};
struct perfring_slot_written {
	uint64_t copies[2][PERFRING_SLOT_WRITTEN_WORDS];
};
struct perfring_slot_losses {
	uint64_t copies[2][PERFRING_SLOT_LOSSES_WORDS];
};

/* Owner info: who owns a seat, or owned it last. Hints for people: the lock on its first byte is the proof
 * of life. */
struct perfring_holder {
	uint64_t epoch;       /* incremented by each attach */
	uint64_t attached_ns; /* CLOCK_REALTIME */
	uint32_t pid;         /* in the owner's pid namespace */
	uint32_t uid;         /* PERFRING_UID_DETACHED once it has detached */
	char name[PERFRING_NAME_LEN]; /* UTF-8, padded with zeros, not always terminated */
	uint8_t rest[40];
};

/* A producer's slot in the control pages. In an exclusive ring all but the holder is zero. Members
 * named gap_* are zero. */
struct perfring_slot {
	struct perfring_holder holder;
	struct perfring_slot_written written; /* live: what its producers have committed */
	uint8_t gap_written[48];
	struct perfring_slot_losses losses; /* live: what they discarded, left open and were refused */
	uint64_t base[PERFRING_SLOT_BASE_WORDS]; /* both, when the owner attached */
	uint8_t gap_slot[256];
};

/* The first 4096 bytes of the file. Members named gap_* are zero. */
struct perfring_header {
	/* struct perf_event_mmap_page. */
	uint32_t version;
	uint32_t compat_version;
	uint32_t lock; /* live, as capabilities, time_shift, time_mult, time_zero: in a ring with time */
	uint32_t index;
	int64_t offset;
	uint64_t time_enabled;
	uint64_t time_running;
	uint64_t capabilities;
	uint16_t pmc_width;
	uint16_t time_shift;
	uint32_t time_mult;
	uint64_t time_offset;
	uint64_t time_zero;
	uint32_t size;
	uint32_t reserved_1;
	uint64_t time_cycles;
	uint64_t time_mask;
	uint8_t reserved[928];
	uint64_t data_head; /* live */
	uint64_t data_tail; /* live */
	uint64_t data_offset;
	uint64_t data_size;
	uint64_t aux_head;
	uint64_t aux_tail;
	uint64_t aux_offset;
	uint64_t aux_size;
	uint8_t gap_perf[64];

	/* perfring's own: identity and shape. Written before the file gets its name. */
	uint64_t magic;
	uint32_t abi_version;
	uint32_t abi_compat;
	uint64_t features_required;
	uint64_t features_optional;
	uint32_t page_size;
	uint32_t endian;
	uint32_t policy;
	uint32_t producers;
	uint32_t evict;
	uint32_t report;
	uint32_t slot_count;
	uint32_t slot_size;
	uint64_t control_offset;
	uint64_t control_size;
	uint64_t file_size;
	uint64_t created_ns;
	uint32_t creator_pid;
	uint32_t creator_uid;
	uint8_t uuid[16];
	uint8_t boot_id[16];
	uint64_t types_offset;
	uint64_t types_size;
	uint32_t time_clock; /* 0, or PERFRING_TIME_CLOCK */
	uint32_t consumer_count; /* with PERFRING_FEATURE_CONSUMERS, like the next two */
	uint64_t consumers_offset;
	uint64_t consumers_size;
	uint64_t metrics_offset; /* with PERFRING_FEATURE_METRICS, like the next one */
	uint64_t metrics_size;
	uint8_t gap_identity[64];

	/* Live, written by the producer. */
	struct perfring_tail_mark tail_mark;
	uint8_t gap_tail_mark[64];
	struct perfring_producer_totals producer_totals;
	uint8_t gap_producer_totals[64];

	/* Live: how a sleeping consumer is woken. */
	uint32_t wait_armed;
	uint32_t gap_wait_armed;
	uint64_t wait_wake_pos;
	uint64_t wait_wake_records;
	uint8_t gap_wait[40];
	uint32_t wait_seq; /* futex, not private */
	uint8_t gap_wait_seq[60];

	/* Live: how producers that wait for space are woken. */
	uint32_t space_armed;
	uint32_t gap_space_armed;
	uint64_t space_wake_pos;
	uint8_t gap_space[48];
	uint32_t space_seq; /* futex, not private */
	uint8_t gap_space_seq[60];

	/* Live, written by the consumer. */
	struct perfring_consumer_totals consumer_totals;
	uint64_t consumer_epoch; /* from here on as struct perfring_holder */
	uint64_t consumer_attached_ns;
	uint32_t consumer_pid;
	uint32_t consumer_uid;
	char consumer_name[PERFRING_NAME_LEN];
	uint8_t gap_consumer[40];

	/* Live: shared by the producers of a shared ring (zero in an exclusive one). Written under
	 * the lock, except for additions to running_more and to the discarded in running, and in a ring
	 * per CPU for newest_timestamp. */
	uint64_t shared_lock; /* 0, or its holder: see PERFRING_LOCK_SLOT_BITS */
	uint64_t producer_pos; /* end of the last reservation */
	uint64_t running_written;
	uint64_t running_stale;
	uint64_t newest_timestamp; /* also of an exclusive ring */
	uint8_t gap_running_more[24];
	uint64_t running_more;
	uint8_t gap_running[56];
	uint64_t running[PERFRING_RUNNING_WORDS];
	uint64_t stuck_pos;
	uint64_t stuck_since_ns; /* CLOCK_REALTIME */
	uint64_t recover_byte;

	/* Live, in a ring with time, written by the producer: the conversion to wall-clock time. */
	uint64_t time_boot;
	uint64_t anchors_written; /* the next goes to anchors[anchors_written % PERFRING_ANCHORS] */
	uint8_t gap_anchors[48];
	uint64_t anchors[PERFRING_ANCHORS][PERFRING_ANCHOR_WORDS];
	uint64_t tail_next; /* live, with named consumers: what data_tail is about to be */
	uint8_t gap_cpu[56];

	/* Live, in a ring per CPU (zero in any other): shared by its producers. */
	uint64_t cpu_state; /* 0: open to sequences; else slot + 1 of the producer that closed it */
	uint64_t cpu_limit; /* a sequence may publish up to here */
	uint64_t cpu_count; /* records since it was opened << 32 | low 32 bits of the position after them */
	uint32_t cpu_number; /* not live: the CPU */
	uint8_t gap_cpu_number[100];

	/* Live, with named consumers: that of seat n is named_tails[n % 4][n / 4]. */
	uint64_t named_tails[4][8];

	/* Live, written by the consumer: the refused records that it has returned as losses. Zeros: those of the
	 * markers before data_tail. */
	struct perfring_consumer_told consumer_told;
};

PERFRING_ASSERT(sizeof(struct perfring_record) == PERFRING_HEADER_LEN);
PERFRING_ASSERT(sizeof(struct perfring_lost) == PERFRING_LOST_SIZE);
PERFRING_ASSERT(sizeof(struct perfring_timestamped) == PERFRING_HEADER_LEN + PERFRING_TIMESTAMP_LEN);
PERFRING_ASSERT(sizeof(struct perfring_sample_id) ==
		PERFRING_HEADER_LEN + PERFRING_TIMESTAMP_LEN + PERFRING_WRITER_LEN);
PERFRING_ASSERT(sizeof(struct perfring_types) == PERFRING_TYPES_FIRST);
PERFRING_ASSERT(sizeof(struct perfring_type) == 24);
PERFRING_ASSERT(sizeof(struct perfring_holder) == 128);
PERFRING_ASSERT(sizeof(struct perfring_slot) == PERFRING_SLOT_SIZE);
PERFRING_ASSERT(sizeof(struct perfring_header) == PERFRING_HEADER_PAGE_LEN);

PERFRING_ASSERT(offsetof(struct perfring_slot, written) == 128);
PERFRING_ASSERT(offsetof(struct perfring_slot, losses) == 256);
PERFRING_ASSERT(offsetof(struct perfring_slot, base) == 640);

/* The perf part, as the kernel has it. */
PERFRING_ASSERT(offsetof(struct perfring_header, capabilities) == 40);
PERFRING_ASSERT(offsetof(struct perfring_header, reserved) == PERFRING_PERF_HEADER_SIZE);
PERFRING_ASSERT(offsetof(struct perfring_header, data_head) == 1024);
PERFRING_ASSERT(offsetof(struct perfring_header, data_tail) == 1032);
PERFRING_ASSERT(offsetof(struct perfring_header, data_offset) == 1040);
PERFRING_ASSERT(offsetof(struct perfring_header, data_size) == 1048);
PERFRING_ASSERT(offsetof(struct perfring_header, aux_size) == 1080);

#define PERFRING_ASSERT_OFF(field, at) \
	PERFRING_ASSERT(offsetof(struct perfring_header, field) == at)
PERFRING_ASSERT_OFF(magic, PERFRING_OFF_MAGIC);
PERFRING_ASSERT_OFF(abi_version, PERFRING_OFF_ABI_VERSION);
PERFRING_ASSERT_OFF(abi_compat, PERFRING_OFF_ABI_COMPAT);
PERFRING_ASSERT_OFF(features_required, PERFRING_OFF_FEATURES_REQUIRED);
PERFRING_ASSERT_OFF(features_optional, PERFRING_OFF_FEATURES_OPTIONAL);
PERFRING_ASSERT_OFF(page_size, PERFRING_OFF_PAGE_SIZE);
PERFRING_ASSERT_OFF(endian, PERFRING_OFF_ENDIAN);
PERFRING_ASSERT_OFF(policy, PERFRING_OFF_POLICY);
PERFRING_ASSERT_OFF(producers, PERFRING_OFF_PRODUCERS);
PERFRING_ASSERT_OFF(evict, PERFRING_OFF_EVICT);
PERFRING_ASSERT_OFF(report, PERFRING_OFF_REPORT);
PERFRING_ASSERT_OFF(slot_count, PERFRING_OFF_SLOT_COUNT);
PERFRING_ASSERT_OFF(slot_size, PERFRING_OFF_SLOT_SIZE);
PERFRING_ASSERT_OFF(control_offset, PERFRING_OFF_CONTROL_OFFSET);
PERFRING_ASSERT_OFF(control_size, PERFRING_OFF_CONTROL_SIZE);
PERFRING_ASSERT_OFF(file_size, PERFRING_OFF_FILE_SIZE);
PERFRING_ASSERT_OFF(created_ns, PERFRING_OFF_CREATED_NS);
PERFRING_ASSERT_OFF(creator_pid, PERFRING_OFF_CREATOR_PID);
PERFRING_ASSERT_OFF(creator_uid, PERFRING_OFF_CREATOR_UID);
PERFRING_ASSERT_OFF(uuid, PERFRING_OFF_UUID);
PERFRING_ASSERT_OFF(boot_id, PERFRING_OFF_BOOT_ID);
PERFRING_ASSERT_OFF(types_offset, PERFRING_OFF_TYPES_OFFSET);
PERFRING_ASSERT_OFF(types_size, PERFRING_OFF_TYPES_SIZE);
PERFRING_ASSERT_OFF(time_clock, PERFRING_OFF_TIME_CLOCK);
PERFRING_ASSERT_OFF(consumer_count, PERFRING_OFF_CONSUMER_COUNT);
PERFRING_ASSERT_OFF(consumers_offset, PERFRING_OFF_CONSUMERS_OFFSET);
PERFRING_ASSERT_OFF(consumers_size, PERFRING_OFF_CONSUMERS_SIZE);
PERFRING_ASSERT_OFF(metrics_offset, PERFRING_OFF_METRICS_OFFSET);
PERFRING_ASSERT_OFF(metrics_size, PERFRING_OFF_METRICS_SIZE);
PERFRING_ASSERT_OFF(tail_mark, PERFRING_OFF_TAIL_MARK);
PERFRING_ASSERT_OFF(producer_totals, PERFRING_OFF_PRODUCER_TOTALS);
PERFRING_ASSERT_OFF(wait_armed, PERFRING_OFF_WAIT_ARMED);
PERFRING_ASSERT_OFF(wait_wake_pos, PERFRING_OFF_WAIT_WAKE_POS);
PERFRING_ASSERT_OFF(wait_wake_records, PERFRING_OFF_WAIT_WAKE_RECORDS);
PERFRING_ASSERT_OFF(wait_seq, PERFRING_OFF_WAIT_SEQ);
PERFRING_ASSERT_OFF(space_armed, PERFRING_OFF_SPACE_ARMED);
PERFRING_ASSERT_OFF(space_wake_pos, PERFRING_OFF_SPACE_WAKE_POS);
PERFRING_ASSERT_OFF(space_seq, PERFRING_OFF_SPACE_SEQ);
PERFRING_ASSERT_OFF(consumer_totals, PERFRING_OFF_CONSUMER_TOTALS);
PERFRING_ASSERT_OFF(consumer_epoch, PERFRING_OFF_CONSUMER_EPOCH);
PERFRING_ASSERT_OFF(consumer_attached_ns, PERFRING_OFF_CONSUMER_ATTACHED_NS);
PERFRING_ASSERT_OFF(consumer_pid, PERFRING_OFF_CONSUMER_PID);
PERFRING_ASSERT_OFF(consumer_uid, PERFRING_OFF_CONSUMER_UID);
PERFRING_ASSERT_OFF(consumer_name, PERFRING_OFF_CONSUMER_NAME);
PERFRING_ASSERT_OFF(shared_lock, PERFRING_OFF_SHARED_LOCK);
PERFRING_ASSERT_OFF(producer_pos, PERFRING_OFF_PRODUCER_POS);
PERFRING_ASSERT_OFF(running_written, PERFRING_OFF_RUNNING_WRITTEN);
PERFRING_ASSERT_OFF(running_stale, PERFRING_OFF_RUNNING_STALE);
PERFRING_ASSERT_OFF(newest_timestamp, PERFRING_OFF_NEWEST_TIMESTAMP);
PERFRING_ASSERT_OFF(running_more, PERFRING_OFF_RUNNING_MORE);
PERFRING_ASSERT_OFF(running, PERFRING_OFF_RUNNING);
PERFRING_ASSERT_OFF(stuck_pos, PERFRING_OFF_STUCK_POS);
PERFRING_ASSERT_OFF(stuck_since_ns, PERFRING_OFF_STUCK_SINCE_NS);
PERFRING_ASSERT_OFF(recover_byte, PERFRING_OFF_RECOVER_BYTE);
PERFRING_ASSERT_OFF(time_boot, PERFRING_OFF_TIME_BOOT);
PERFRING_ASSERT_OFF(anchors_written, PERFRING_OFF_ANCHORS_WRITTEN);
PERFRING_ASSERT_OFF(anchors, PERFRING_OFF_ANCHORS);
PERFRING_ASSERT_OFF(tail_next, PERFRING_OFF_TAIL_NEXT);
PERFRING_ASSERT_OFF(cpu_state, PERFRING_OFF_CPU_STATE);
PERFRING_ASSERT_OFF(cpu_limit, PERFRING_OFF_CPU_LIMIT);
PERFRING_ASSERT_OFF(cpu_count, PERFRING_OFF_CPU_COUNT);
PERFRING_ASSERT_OFF(cpu_number, PERFRING_OFF_CPU_NUMBER);
PERFRING_ASSERT_OFF(named_tails, PERFRING_OFF_NAMED_TAILS);
PERFRING_ASSERT_OFF(consumer_told, PERFRING_OFF_CONSUMER_TOLD);
#undef PERFRING_ASSERT_OFF

/* The consumer's seat is a holder, on the byte that it locks. */
PERFRING_ASSERT(PERFRING_OFF_RECOVER_BYTE == PERFRING_RECOVER_LOCK_BYTE);
PERFRING_ASSERT(PERFRING_OFF_TAIL_NEXT == PERFRING_JOIN_LOCK_BYTE);
PERFRING_ASSERT(PERFRING_OFF_CONSUMER_EPOCH == PERFRING_CONSUMER_LOCK_BYTE);
PERFRING_ASSERT(PERFRING_OFF_CONSUMER_ATTACHED_NS - PERFRING_OFF_CONSUMER_EPOCH ==
		offsetof(struct perfring_holder, attached_ns));
PERFRING_ASSERT(PERFRING_OFF_CONSUMER_PID - PERFRING_OFF_CONSUMER_EPOCH ==
		offsetof(struct perfring_holder, pid));
PERFRING_ASSERT(PERFRING_OFF_CONSUMER_UID - PERFRING_OFF_CONSUMER_EPOCH ==
		offsetof(struct perfring_holder, uid));
PERFRING_ASSERT(PERFRING_OFF_CONSUMER_NAME - PERFRING_OFF_CONSUMER_EPOCH ==
		offsetof(struct perfring_holder, name));

#endif /* PERFRING_H */
