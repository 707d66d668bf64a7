/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_producer.h: publishes into a ring from C11 or C++17, as its one producer. See
 * perfring_attach.h for its requirements, and perfring_types.h for typed records.
 *
 *     struct perfring_producer producer;
 *
 *     if (perfring_producer_attach(&producer, "/dev/shm/ticks", "my program") < 0)
 *             die(producer.ring.why);
 *     perfring_publish(&producer, 4096, "hello", 5);
 *
 *     void *payload;
 *     if (perfring_reserve(&producer, 4096, sizeof(struct tick), &payload) == 0) {
 *             fill(payload);                       // in the ring; 8-aligned
 *             perfring_commit(&producer, sizeof(struct tick));
 *     }
 *     perfring_producer_detach(&producer);
 *
 * A refused record is counted, and reported in the stream before the next one that fits. perfring_create.h
 * creates rings, and `perfring create RING` does. Rings of both policies are accepted, with and without
 * timestamps: a record of a ring with timestamps gets the time of its reservation. Shared rings, and rings per
 * CPU, are refused with PERFRING_E_KIND.
 */
#ifndef PERFRING_PRODUCER_H
#define PERFRING_PRODUCER_H

#include "perfring_time.h"
#include "perfring_totals.h"

/* Whether a publish wakes a sleeping consumer. */
#define PERFRING_WAKE_AUTO 0  /* if it sleeps, and what it waits for is there */
#define PERFRING_WAKE_NO 1    /* not even then: a later publish will */
#define PERFRING_WAKE_FORCE 2 /* if it sleeps */

/* A producer's reservation. */
#define PERFRING_OPEN_NOTHING 0
#define PERFRING_OPEN_PLAIN 1
#define PERFRING_OPEN_TIMED 2 /* it begins with a timestamp */

struct perfring_producer {
	struct perfring ring;
	uint64_t pos;	/* what data_head holds */
	uint64_t tail;	/* drop: data_tail when last loaded; overwrite: what it holds */
	uint64_t limit; /* a reservation that ends here or before needs no other check */
	uint64_t max_len;
	uint64_t plain_end; /* a payload of this length or longer is too long, or gets a timestamp */
	uint64_t totals_pos;		/* `pos` of the totals in the file */
	struct perfring_count overwritten;
	uint64_t totals[PERFRING_PRODUCER_TOTALS_WORDS]; /* all of them, true at `pos` */
	struct perfring_seq_latch_writer totals_writer;
	struct perfring_seq_latch_writer mark_writer;
	uint64_t open_pos; /* the open reservation */
	uint64_t open_len; /* with its timestamp */
	uint32_t open_type;
	int open_kind; /* PERFRING_OPEN_* */
	int wake; /* PERFRING_WAKE_*, of every publish */
	uint64_t refused_at; /* 1 more than what was written at the last refusal; 0: there was none */
	struct perfring_clock clock; /* of a ring with time */
};

/* Bytes of the ring that a payload takes. */
static inline uint64_t perfring_taken(const struct perfring_producer *producer, uint64_t len)
{
	if (producer->ring.timed)
		len = len > UINT64_MAX - PERFRING_TIMESTAMP_LEN ? UINT64_MAX : len + PERFRING_TIMESTAMP_LEN;
	return len > UINT64_MAX - 15 ? UINT64_MAX & ~UINT64_C(7) : PERFRING_RECORD_SIZE(len);
}

/* Whether another producer has attached since this one: the totals in the page, which each writes when it
 * attaches, are later than this one's. The lock does not keep apart who opened an overlay and its upper directory. */
static inline int perfring_is_replaced(const struct perfring_producer *producer)
{
	const uint64_t *words = &producer->ring.header->producer_totals.copies[0][0];
	uint64_t one = PERFRING_LOAD(&words[0]), other = PERFRING_LOAD(&words[PERFRING_PRODUCER_TOTALS_WORDS]);

	return (one > other ? one : other) > producer->totals_writer.seq;
}

static inline int perfring_replaced(struct perfring_producer *producer)
{
	producer->limit = 0; /* a smaller record is refused as well */
	snprintf(producer->ring.why, sizeof(producer->ring.why), "%s", perfring_error(PERFRING_E_REPLACED));
	return PERFRING_E_REPLACED;
}

/* Publishes the totals, true at `pos`, unless the page is another producer's. */
static inline void perfring_write_totals(struct perfring_producer *producer)
{
	if (perfring_is_replaced(producer))
		return;
	producer->totals[PERFRING_PRODUCER_TOTALS_POS] = producer->totals_pos = producer->pos;
	perfring_seq_latch_write(&producer->totals_writer, &producer->ring.header->producer_totals.copies[0][0],
			     PERFRING_PRODUCER_TOTALS_WORDS, producer->totals);
}

/* Publishes all before `pos`, and wakes the consumer if it waits for that. */
static inline void perfring_publish_head(struct perfring_producer *producer, uint64_t pos, int wake)
{
	struct perfring_header *header = producer->ring.header;

	producer->pos = pos;
	PERFRING_STORE_RELEASE(&header->data_head, pos); /* A, pairs with B */
	if (wake == PERFRING_WAKE_NO)
		return;
	perfring_light_fence(&producer->ring);	   /* I, pairs with J */
	if (PERFRING_LOAD(&header->wait_armed) == 0) /* relaxed: I orders it */
		return;
	PERFRING_FENCE_ACQUIRE(); /* pairs with the release store of wait_armed: its targets */
	if (wake != PERFRING_WAKE_FORCE && pos < PERFRING_LOAD(&header->wait_wake_pos) &&
	    producer->totals[PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS] < PERFRING_LOAD(&header->wait_wake_records))
		return;
	/* The swap makes one wake of one sleep, however many records are published meanwhile. */
	if (__atomic_exchange_n(&header->wait_armed, 0, __ATOMIC_ACQ_REL) == 0)
		return;
	__atomic_fetch_add(&header->wait_seq, 1, __ATOMIC_RELEASE);
	perfring_wake(&header->wait_seq);
}

/* The number of causes with unreported losses; a producer of this kind has two. */
static inline uint64_t perfring_unreported(const struct perfring_producer *producer)
{
	const uint64_t *totals = producer->totals;

	if (producer->ring.shape.report == PERFRING_REPORT_COUNTERS_ONLY)
		return 0;
	return (uint64_t)(totals[PERFRING_PRODUCER_TOTALS_FULL_RECORDS] !=
			  totals[PERFRING_PRODUCER_TOTALS_REPORTED_FULL_RECORDS]) +
	       (uint64_t)(totals[PERFRING_PRODUCER_TOTALS_TOO_LARGE_RECORDS] !=
			  totals[PERFRING_PRODUCER_TOTALS_REPORTED_TOO_LARGE_RECORDS]);
}

/* Bytes of the markers that are due before a record of `size` bytes: none if the ring cannot hold all of them
 * together; then a later record brings them. */
static inline uint64_t perfring_marker_bytes(const struct perfring_producer *producer, uint64_t size)
{
	uint64_t bytes = perfring_unreported(producer) * PERFRING_LOST_SIZE;

	return bytes + size < producer->ring.data_size ? bytes : 0;
}

/* Writes the marker of one cause at *pos, if a loss is unreported. Relaxed: A publishes it. */
static inline void perfring_report(struct perfring_producer *producer, uint64_t *pos, uint64_t cause,
				 unsigned refused, unsigned reported)
{
	uint64_t *totals = producer->totals;

	if (totals[refused] == totals[reported])
		return;
	PERFRING_STORE(perfring_word(&producer->ring, *pos),
		       perfring_header_word(PERFRING_TYPE_LOST, 0, PERFRING_LOST_SIZE));
	PERFRING_STORE(perfring_word(&producer->ring, *pos + 8), cause);
	PERFRING_STORE(perfring_word(&producer->ring, *pos + 16), totals[refused] - totals[reported]);
	PERFRING_STORE(perfring_word(&producer->ring, *pos + 24), totals[refused + 1] - totals[reported + 1]);
	totals[reported] = totals[refused];
	totals[reported + 1] = totals[refused + 1];
	totals[PERFRING_PRODUCER_TOTALS_LOST_MARKERS]++;
	*pos += PERFRING_LOST_SIZE;
}

/* Returns the tail after evicting as many of the oldest records as `end` needs. Nothing is published. */
static inline uint64_t perfring_evict(struct perfring_producer *producer, uint64_t end,
					 struct perfring_count *overwritten)
{
	uint64_t tail = producer->tail;

	/* This producer remembers no boundary half a ring back, so it evicts half a ring more. */
	if (producer->ring.shape.evict == PERFRING_EVICT_HALF)
		end += producer->ring.data_size / 2;
	*overwritten = producer->overwritten;
	while (end - tail >= producer->ring.data_size && tail != producer->pos) {
		struct perfring_record word = perfring_header_at(&producer->ring, tail);

		if (!perfring_is_record(word, producer->pos - tail)) {
			/* Another process wrote into the data area: all is evicted, by the private count. */
			*overwritten = perfring_count_at(producer->totals, PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS);
			return producer->pos;
		}
		if (perfring_is_data(word)) {
			overwritten->records++;
			overwritten->bytes += word.size;
		}
		tail += word.size;
	}
	return tail;
}

/* The slow path of a reservation: totals, markers, room. Of the positions only the tail is published; the
 * markers are from `pos` to *start, and the next publish publishes them. */
static inline int perfring_make_room(struct perfring_producer *producer, uint64_t size, uint64_t *start)
{
	struct perfring *ring = &producer->ring;
	uint64_t interval = perfring_totals_interval(ring);
	uint64_t markers = perfring_marker_bytes(producer, size), end = producer->pos + markers + size;
	uint64_t tail = producer->tail, mark[PERFRING_TAIL_MARK_WORDS];
	struct perfring_count overwritten = producer->overwritten;
	int overwrite = ring->shape.policy == PERFRING_POLICY_OVERWRITE;

	*start = producer->pos;
	if (perfring_is_replaced(producer))
		return perfring_replaced(producer);
	if (end - tail >= ring->data_size) {
		if (overwrite) {
			tail = perfring_evict(producer, end, &overwritten);
		} else {
			tail = PERFRING_LOAD_ACQUIRE(&ring->header->data_tail); /* D, pairs with C */
			/* The one word of the page that a producer loads: it may only increase, and not beyond
			 * what was published. */
			if (tail % 8 || tail - producer->tail > producer->pos - producer->tail)
				return perfring_corrupt(ring, tail);
			producer->tail = tail;
			if (end - tail >= ring->data_size)
				return PERFRING_E_FULL;
		}
	}
	/* A successor walks from the totals to the head: those records must be intact. */
	if (producer->pos - producer->totals_pos >= interval || end - producer->totals_pos >= ring->data_size ||
	    (overwrite && tail > producer->totals_pos))
		perfring_write_totals(producer);
	if (overwrite && tail != producer->tail) {
		/* The mark before the tail. The other copy matches the present tail, so after a death between the
		 * two stores one of them matches. */
		mark[PERFRING_TAIL_MARK_RECORDS] = overwritten.records;
		mark[PERFRING_TAIL_MARK_BYTES] = overwritten.bytes;
		perfring_seq_latch_write_as(&producer->mark_writer, &ring->header->tail_mark.copies[0][0],
					PERFRING_TAIL_MARK_WORDS, tail, mark);
		producer->overwritten = overwritten;
		producer->tail = tail;
		PERFRING_STORE_RELEASE(&ring->header->data_tail, tail); /* E, pairs with F */
	}
	/* Totals and tail are published before anything before them is overwritten. */
	PERFRING_FENCE_RELEASE(); /* E, pairs with F */
	if (markers) {
		perfring_report(producer, start, PERFRING_CAUSE_FULL, PERFRING_PRODUCER_TOTALS_FULL_RECORDS,
			      PERFRING_PRODUCER_TOTALS_REPORTED_FULL_RECORDS);
		perfring_report(producer, start, PERFRING_CAUSE_TOO_LARGE,
			      PERFRING_PRODUCER_TOTALS_TOO_LARGE_RECORDS,
			      PERFRING_PRODUCER_TOTALS_REPORTED_TOO_LARGE_RECORDS);
	}
	/* With a loss unreported, the next one takes the slow path too. */
	producer->limit = producer->totals_pos + interval;
	if (producer->limit > producer->tail + ring->data_size - 1)
		producer->limit = producer->tail + ring->data_size - 1;
	if (perfring_unreported(producer))
		producer->limit = 0;
	return PERFRING_OK;
}

/* Counts a refusal, which is reported before the next record that fits. Wakes the consumer of a full ring. */
static inline int perfring_refuse(struct perfring_producer *producer, int why, uint64_t len)
{
	unsigned at = why == PERFRING_E_TOO_LARGE ? PERFRING_PRODUCER_TOTALS_TOO_LARGE_RECORDS
						  : PERFRING_PRODUCER_TOTALS_FULL_RECORDS;
	uint64_t written;

	if (perfring_is_replaced(producer))
		return perfring_replaced(producer);
	producer->totals[at]++;
	producer->totals[at + 1] += perfring_taken(producer, len);
	producer->limit = 0;
	perfring_publish_head(producer, producer->pos, PERFRING_WAKE_FORCE);
	perfring_write_totals(producer);
	written = producer->totals[PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS];
	if (producer->refused_at != written + 1) {
		/* The first of several: a consumer that sleeps beside a full ring has missed its wake. */
		producer->refused_at = written + 1;
		perfring_wake(&producer->ring.header->wait_seq);
	}
	return why;
}

/* Places a record whose body has `len` bytes. */
static inline PERFRING_ALWAYS int perfring_place(struct perfring_producer *producer, uint32_t type, uint64_t len,
						 int kind, void **body)
{
	struct perfring *ring = &producer->ring;
	uint64_t size = PERFRING_RECORD_SIZE(len), start = producer->pos;
	int error;

	if (start + size > producer->limit) {
		error = perfring_make_room(producer, size, &start);
		if (error)
			return error;
	}
	/* Relaxed: A publishes it, and E came before it. */
	PERFRING_STORE(perfring_word(ring, start), perfring_header_word(type, (uint16_t)(size - 8 - len), size));
	if (len % 8) /* no record carries bytes of another in its padding */
		PERFRING_STORE(perfring_word(ring, start + size - 8), 0);
	producer->open_pos = start;
	producer->open_len = len;
	producer->open_type = type;
	producer->open_kind = kind;
	*body = perfring_word(ring, start) + 1; /* in one piece: the data is mapped twice in a row */
	return PERFRING_OK;
}

/* Places a record that is too long, or gets a timestamp: apart, so that others pay nothing for it. */
static PERFRING_APART int perfring_place_timed(struct perfring_producer *producer, uint32_t type, uint64_t len,
					       void **payload)
{
	struct perfring_clock *clock = &producer->clock;
	uint64_t now, *time;
	void *body;
	int error;

	if (len > producer->max_len)
		return PERFRING_E_TOO_LARGE;
	now = perfring_clock_now(clock);
	if (now >= clock->keep_at && !perfring_is_replaced(producer))
		perfring_keep_time(producer->ring.header, clock, producer->pos);
	error = perfring_place(producer, type, len + PERFRING_TIMESTAMP_LEN, PERFRING_OPEN_TIMED, &body);
	if (error)
		return error;
	if (now > clock->newest)
		clock->newest = now;
	/* After the next totals, a successor does not read this record for it. Relaxed: G publishes it. */
	PERFRING_STORE(&producer->ring.header->newest_timestamp, clock->newest);
	time = (uint64_t *)body;
	PERFRING_STORE(time, clock->newest); /* relaxed: A publishes it */
	*payload = time + 1;
	return PERFRING_OK;
}

/* Reserves like perfring_reserve, and does not count a refusal. */
static inline int perfring_try_reserve(struct perfring_producer *producer, uint32_t type, uint64_t len,
				       void **payload)
{
	if (perfring_is_forked(&producer->ring))
		return PERFRING_E_FORKED;
	if (producer->open_kind != PERFRING_OPEN_NOTHING)
		return PERFRING_E_MISUSE;
	if (!perfring_type_is_free(type))
		return PERFRING_E_TYPE;
	if (len >= producer->plain_end) /* one test for both */
		return perfring_place_timed(producer, type, len, payload);
	return perfring_place(producer, type, len, PERFRING_OPEN_PLAIN, payload);
}

/* Reserves space for one record, in the ring, to be committed or discarded before the next. Counts a
 * refusal. */
static inline int perfring_reserve(struct perfring_producer *producer, uint32_t type, uint64_t len,
				   void **payload)
{
	int error = perfring_try_reserve(producer, type, len, payload);

	if (error == PERFRING_E_FULL || error == PERFRING_E_TOO_LARGE || error == PERFRING_E_CORRUPT)
		return perfring_refuse(producer, error, len);
	return error;
}

/* Publishes the open reservation, of whose body `len` bytes are kept. */
static inline PERFRING_ALWAYS int perfring_end(struct perfring_producer *producer, uint64_t len)
{
	uint64_t size, word, kept;

	if (len > producer->open_len)
		len = producer->open_len;
	size = PERFRING_RECORD_SIZE(len);
	if (len != producer->open_len) {
		word = perfring_header_word(producer->open_type, (uint16_t)(size - 8 - len), size);
		PERFRING_STORE(perfring_word(&producer->ring, producer->open_pos), word);
		if (len % 8) {
			uint8_t *last = (uint8_t *)perfring_word(&producer->ring, producer->open_pos + size - 8);

			kept = 0;
			memcpy(&kept, last, len % 8);
			memcpy(last, &kept, sizeof(kept));
		}
	}
	producer->open_kind = PERFRING_OPEN_NOTHING;
	producer->totals[PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS]++;
	producer->totals[PERFRING_PRODUCER_TOTALS_WRITTEN_BYTES] += size;
	perfring_publish_head(producer, producer->open_pos + size, producer->wake);
	return PERFRING_OK;
}

/* The same for what is no plain reservation: apart, so that others pay nothing for it. */
static PERFRING_APART int perfring_end_timed(struct perfring_producer *producer, uint64_t len)
{
	if (producer->open_kind == PERFRING_OPEN_NOTHING)
		return PERFRING_E_MISUSE;
	return perfring_end(producer, len < producer->open_len ? len + PERFRING_TIMESTAMP_LEN : len);
}

/* Publishes the open reservation, with `len` bytes if that is less than was reserved. */
static inline int perfring_commit(struct perfring_producer *producer, uint64_t len)
{
	if (perfring_is_forked(&producer->ring))
		return PERFRING_E_FORKED;
	if (producer->open_kind != PERFRING_OPEN_PLAIN)
		return perfring_end_timed(producer, len);
	return perfring_end(producer, len);
}

/* Discards the open reservation, which leaves a hole that readers skip. */
static inline int perfring_discard(struct perfring_producer *producer)
{
	uint64_t size = PERFRING_RECORD_SIZE(producer->open_len);

	if (perfring_is_forked(&producer->ring))
		return PERFRING_E_FORKED;
	if (producer->open_kind == PERFRING_OPEN_NOTHING)
		return PERFRING_E_MISUSE;
	producer->open_kind = PERFRING_OPEN_NOTHING;
	PERFRING_STORE(perfring_word(&producer->ring, producer->open_pos),
		       perfring_header_word(PERFRING_TYPE_NOP, 0, size));
	producer->totals[PERFRING_PRODUCER_TOTALS_DISCARDED_RECORDS]++;
	producer->totals[PERFRING_PRODUCER_TOTALS_DISCARDED_BYTES] += size;
	perfring_publish_head(producer, producer->open_pos + size, producer->wake);
	return PERFRING_OK;
}

/* Reserves, fills and commits one record. */
static inline PERFRING_ALWAYS int perfring_copy_in(struct perfring_producer *producer, uint32_t type,
						   const void *bytes, uint64_t len)
{
	void *payload;
	int error = perfring_reserve(producer, type, len, &payload);

	if (error)
		return error;
	if (len)
		memcpy(payload, bytes, (size_t)len);
	return perfring_commit(producer, len);
}

/* The same for a record that is too long, or gets a timestamp: apart, so that others pay nothing for it. */
static PERFRING_APART int perfring_copy_in_timed(struct perfring_producer *producer, uint32_t type,
						 const void *bytes, uint64_t len)
{
	return perfring_copy_in(producer, type, bytes, len);
}

/* Publishes one record. */
static inline int perfring_publish(struct perfring_producer *producer, uint32_t type, const void *bytes,
				   uint64_t len)
{
	if (len >= producer->plain_end)
		return perfring_copy_in_timed(producer, type, bytes, len);
	return perfring_copy_in(producer, type, bytes, len);
}

/* Waits until a drop ring that refused `len` bytes has room for them, for at most `ms`: 1 if it may have, 0 if it
 * has not. For use with perfring_try_reserve, which does not count its refusals. */
static inline int perfring_wait_for_space(struct perfring_producer *producer, uint64_t len, int ms)
{
	struct perfring_header *header = producer->ring.header;
	uint64_t size = perfring_taken(producer, len), need = size + perfring_marker_bytes(producer, size) + 8;
	uint64_t target = producer->pos + need, low;
	int64_t end = perfring_now() + (int64_t)ms * 1000000, left;
	uint32_t seq;

	if (perfring_is_forked(&producer->ring))
		return PERFRING_E_FORKED;
	if (len > producer->max_len)
		return PERFRING_E_TOO_LARGE;
	if (perfring_is_replaced(producer))
		return perfring_replaced(producer);
	target = target > producer->ring.data_size ? target - producer->ring.data_size : 0;
	/* A consumer that sleeps until a threshold would not make room. */
	perfring_publish_head(producer, producer->pos, PERFRING_WAKE_FORCE);
	for (;;) {
		seq = PERFRING_LOAD_ACQUIRE(&header->space_seq);
		__atomic_store_n(&header->space_armed, 1, __ATOMIC_SEQ_CST); /* L, pairs with K */
		low = PERFRING_LOAD(&header->space_wake_pos);
		while (low > target && !__atomic_compare_exchange_n(&header->space_wake_pos, &low, target, 0,
								    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			;
		perfring_heavy_fence(); /* L */
		if (PERFRING_LOAD_ACQUIRE(&header->data_tail) >= target)
			return 1;
		left = end - perfring_now();
		if (left <= 0)
			return 0;
		/* A slice: a perf reader does not wake producers. */
		perfring_sleep(&header->space_seq, seq, left < PERFRING_SLICE_NS ? left : PERFRING_SLICE_NS);
	}
}

/* Reports unreported losses, if there is room, and leaves the seat. An open reservation disappears without a
 * trace. A program that exits without this call is shown as dead. */
static inline void perfring_producer_detach(struct perfring_producer *producer)
{
	uint64_t start;

	if (!perfring_is_forked(&producer->ring) && !perfring_is_replaced(producer)) {
		/* The markers before it are kept. */
		if (producer->open_kind != PERFRING_OPEN_NOTHING)
			perfring_publish_head(producer, producer->open_pos, PERFRING_WAKE_AUTO);
		producer->open_kind = PERFRING_OPEN_NOTHING;
		if (perfring_unreported(producer) && perfring_make_room(producer, 0, &start) == 0)
			perfring_publish_head(producer, start, PERFRING_WAKE_AUTO);
		perfring_write_totals(producer);
		perfring_sign_off(&producer->ring.slots[0].holder);
	}
	perfring_close(&producer->ring);
}

/* Takes over the tail, and the count of what was overwritten before it. */
static inline int perfring_take_over_tail(struct perfring_producer *producer)
{
	const uint64_t *seq_latch = &producer->ring.header->tail_mark.copies[0][0];
	uint64_t mark[PERFRING_TAIL_MARK_WORDS] = { 0 };
	struct perfring_to_mark path;
	struct perfring_count between;
	int kept = perfring_seq_latch_least(seq_latch, PERFRING_TAIL_MARK_WORDS, producer->tail, mark);

	if (kept < 0 || mark[0] > producer->pos)
		return perfring_corrupt(&producer->ring, producer->tail);
	perfring_walk_to_mark(&producer->ring, producer->tail, mark[0], &path);
	if (!perfring_count_from(&path, producer->tail, &between))
		return perfring_corrupt(&producer->ring, producer->tail);
	producer->overwritten =
		perfring_since(perfring_count_at(mark, PERFRING_TAIL_MARK_RECORDS), between);
	perfring_seq_latch_after(&producer->mark_writer, seq_latch, PERFRING_TAIL_MARK_WORDS, kept);
	return PERFRING_OK;
}

/* The greatest timestamp before the head: the noted one, or that of a record since the totals. The records
 * have been counted, so they are whole. */
static inline uint64_t perfring_newest_timestamp(const struct perfring *ring, uint64_t pos, uint64_t head)
{
	uint64_t newest = PERFRING_LOAD(&ring->header->newest_timestamp), time;
	struct perfring_record word;

	for (; pos != head; pos += word.size) {
		word = perfring_header_at(ring, pos);
		if (!perfring_is_record(word, head - pos))
			break;
		time = perfring_is_data(word) && word.size > PERFRING_HEADER_LEN
			       ? PERFRING_LOAD(perfring_word(ring, pos + PERFRING_HEADER_LEN)) : 0;
		newest = time > newest ? time : newest;
	}
	return newest;
}

/* Attaches as the one producer: to a new ring, or where the last producer ended, killed or not. */
static inline int perfring_producer_attach(struct perfring_producer *producer, const char *path,
					   const char *name)
{
	struct perfring *ring = &producer->ring;
	const uint64_t *seq_latch;
	const char *unclear;
	uint64_t from;
	int error, kept;

	memset(producer, 0, sizeof(*producer));
	perfring_hold_off_forks();
	error = perfring_open_checked(ring, path, PERFRING_PRODUCER);
	if (!error && ring->shape.producers == PERFRING_PRODUCERS_CPU) {
		snprintf(ring->why, sizeof(ring->why), "the ring is made for the producers of one CPU at a time: attach to it as such");
		error = PERFRING_E_KIND;
	}
	if (!error && ring->shape.producers != PERFRING_PRODUCERS_ONE) {
		snprintf(ring->why, sizeof(ring->why), "the ring is made for many producers at a time: this code publishes only into rings with one producer");
		error = PERFRING_E_KIND;
	}
	if (!error)
		error = perfring_map(ring, PERFRING_PRODUCER);
	if (!error)
		/* Before the lock is taken: a child forked in between would keep it. */
		perfring_register_handle(ring);
	perfring_allow_forks();
	if (!error)
		error = perfring_lock_seat(ring, path, ring->shape.control_offset);
	if (error)
		goto failed;
	unclear = ring->timed ? perfring_find_clock(&producer->clock) : NULL;
	if (unclear) {
		snprintf(ring->why, sizeof(ring->why), "the ring has timestamps, and this process cannot take them: %s", unclear);
		error = PERFRING_E_CLOCK;
		goto failed;
	}
	producer->pos = PERFRING_LOAD_ACQUIRE(&ring->header->data_head);  /* B, pairs with A of the last one */
	producer->tail = PERFRING_LOAD_ACQUIRE(&ring->header->data_tail); /* D, pairs with C */
	if (!perfring_is_sane(ring, producer->pos, producer->tail)) {
		error = perfring_corrupt(ring, producer->tail);
		goto failed;
	}
	seq_latch = &ring->header->producer_totals.copies[0][0];
	kept = perfring_producer_totals(ring, producer->totals);
	from = producer->totals[PERFRING_PRODUCER_TOTALS_POS];
	if (kept < 0 || !perfring_advance_totals(ring, producer->totals, producer->pos)) {
		error = perfring_corrupt(ring, producer->pos);
		goto failed;
	}
	if (ring->shape.policy == PERFRING_POLICY_OVERWRITE)
		error = perfring_take_over_tail(producer);
	if (error)
		goto failed;
	perfring_seq_latch_after(&producer->totals_writer, seq_latch, PERFRING_PRODUCER_TOTALS_WORDS, kept);
	producer->max_len = ring->data_size - 8 < PERFRING_SIZE_MAX ? ring->data_size - 8 : PERFRING_SIZE_MAX;
	producer->max_len -= PERFRING_HEADER_LEN + (ring->timed ? PERFRING_TIMESTAMP_LEN : 0);
	producer->plain_end = ring->timed ? 0 : producer->max_len + 1;
	if (ring->timed) {
		producer->clock.newest = perfring_newest_timestamp(ring, from, producer->pos);
		PERFRING_STORE(&ring->header->newest_timestamp, producer->clock.newest); /* relaxed: G publishes it */
	}
	perfring_register_fences(ring);
	/* The records from the old totals to the head may be overwritten from now on. */
	perfring_write_totals(producer);
	if (ring->timed)
		perfring_begin_time(ring->header, &producer->clock, producer->pos);
	perfring_write_owner_info(&ring->slots[0].holder, name);
	/* A sleeper whose flag a dead producer took is awake again. */
	perfring_wake(&ring->header->wait_seq);
	return PERFRING_OK;
failed:
	perfring_close(ring);
	return error;
}

#endif /* PERFRING_PRODUCER_H */
