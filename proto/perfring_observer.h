/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_observer.h: reads a ring from C11 or C++17 without leaving a trace. It copies records, and
 * checks afterwards whether a producer was overwriting them.
 *
 *     struct perfring_observer observer;
 *     struct perfring_item item;
 *
 *     if (perfring_observer_open(&observer, "/dev/shm/ticks") == 0) {
 *             while (perfring_observe(&observer, &item) > 0)
 *                     show(&item);
 *             perfring_observer_close(&observer);
 *     }
 *
 * perfring_reader.h says how long an item's bytes are valid, and when losses are returned.
 */
#ifndef PERFRING_OBSERVER_H
#define PERFRING_OBSERVER_H

#include "perfring_told.h"

#include <stdlib.h>

#define PERFRING_ITEM_RECORD 1
#define PERFRING_ITEM_LOST 2

/* An observer that was lapped so often in a row continues from the newest producer totals. */
#define PERFRING_LAPS_MAX 4

/* A record, or a position at which records are missing. */
struct perfring_item {
	int kind;
	uint64_t pos;
	/* A record. */
	uint32_t type;
	uint32_t len;
	const void *bytes;
	uint64_t time; /* in a ring with time: ns of CLOCK_BOOTTIME */
	uint32_t pid;  /* in a ring whose records say so, who wrote it; otherwise 0 */
	uint32_t tid;
	/* A loss. */
	uint32_t cause; /* PERFRING_CAUSE_* */
	struct perfring_count lost;
	/* 1: the stream has no marker for it yet, and everything before pos was read. It happened at some time
	 * before now: records that come later may be older. */
	int at_end;
};

/* The private state of a reader. */
struct perfring_observer {
	struct perfring ring;
	uint64_t cursor;
	uint64_t head;
	struct perfring_count passed; /* before the cursor: read and lapped */
	struct perfring_count lapped;
	struct perfring_told told;
	unsigned laps_in_a_row;
	uint64_t *copy; /* words of the ring from `from` to `upto`, checked to be whole */
	uint64_t copy_bytes;
	uint64_t from;
	uint64_t upto;
};

/* The oldest record of an overwrite ring, and what was overwritten before it. 0: try again. */
static inline int perfring_oldest_by_mark(const struct perfring *ring, uint64_t tail, uint64_t *pos,
				  struct perfring_count *before)
{
	const uint64_t *seq_latch = &ring->header->tail_mark.copies[0][0];
	uint64_t mark[PERFRING_TAIL_MARK_WORDS] = { 0 }, now;
	struct perfring_to_mark path;
	struct perfring_count between;

	if (perfring_seq_latch_least(seq_latch, PERFRING_TAIL_MARK_WORDS, tail, mark) < 0)
		return 0;
	perfring_walk_to_mark(ring, tail, mark[0], &path);
	now = perfring_tail(ring); /* F */
	if (perfring_count_from(&path, now, &between)) {
		*pos = now;
		*before = perfring_since(perfring_count_at(mark, PERFRING_TAIL_MARK_RECORDS), between);
		return 1;
	}
	if (now == tail) /* unmoved: the mark is invalid, or is being written */
		return 0;
	/* The producer overtook the walk: continue at its newest mark. */
	if (perfring_seq_latch_least(seq_latch, PERFRING_TAIL_MARK_WORDS, now, mark) < 0 || mark[0] % 8)
		return 0;
	*pos = mark[0];
	*before = perfring_count_at(mark, PERFRING_TAIL_MARK_RECORDS);
	return 1;
}

/* Counts what was written before a position that is a record boundary: 1, or 0 if the tail passed it
 * meanwhile. */
static inline int perfring_count_before(struct perfring *ring, uint64_t pos, struct perfring_count *before)
{
	uint64_t totals[PERFRING_PRODUCER_TOTALS_WORDS], walk[PERFRING_PRODUCER_TOTALS_WORDS];
	uint64_t from, to;
	struct perfring_count between;
	int complete;

	if (perfring_producer_totals(ring, totals) < 0)
		return perfring_corrupt(ring, pos);
	from = totals[PERFRING_PRODUCER_TOTALS_POS];
	to = from > pos ? from : pos;
	from = from > pos ? pos : from;
	memset(walk, 0, sizeof(walk));
	walk[PERFRING_PRODUCER_TOTALS_POS] = from;
	complete = perfring_advance_totals(ring, walk, to);
	if (!perfring_is_intact(ring, from))
		return 0;
	if (!complete)
		return perfring_corrupt(ring, walk[PERFRING_PRODUCER_TOTALS_POS]);
	between = perfring_count_at(walk, PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS);
	*before = perfring_count_at(totals, PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS);
	*before = to == pos ? perfring_plus(*before, between) : perfring_since(*before, between);
	return 1;
}

/* The oldest valid record, and what was written before it. */
static inline int perfring_oldest(struct perfring *ring, uint64_t *pos, struct perfring_count *before)
{
	const uint64_t *seq_latch = &ring->header->consumer_totals.copies[0][0];
	uint64_t totals[PERFRING_PRODUCER_TOTALS_WORDS], tail = 0, head;
	int tries, walks = 0, found;

	for (tries = 0; tries < PERFRING_TRIES; tries++) {
		tail = perfring_tail(ring);
		*pos = tail;
		if (ring->shape.policy == PERFRING_POLICY_OVERWRITE) {
			found = perfring_oldest_by_mark(ring, tail, pos, before);
		} else if (perfring_seq_latch_where(seq_latch, PERFRING_CONSUMER_TOTALS_WORDS,
						PERFRING_CONSUMER_TOTALS_POS, tail, totals) >= 0) {
			*before = perfring_plus(
				perfring_count_at(totals, PERFRING_CONSUMER_TOTALS_READ_RECORDS),
				perfring_count_at(totals, PERFRING_CONSUMER_TOTALS_LAPPED_RECORDS));
			found = 1;
		} else if (perfring_tail(ring) != tail) {
			found = 0; /* the consumer moved the tail, and has other totals for it */
		} else if (++walks <= 4) {
			/* A perf reader moves the tail and keeps no totals: count from the producer's. */
			found = perfring_count_before(ring, tail, before);
			if (found < 0)
				return found;
		} else {
			found = perfring_newest_totals(ring, totals);
			if (found < 0)
				return found;
			*pos = totals[PERFRING_PRODUCER_TOTALS_POS];
			*before = perfring_count_at(totals, PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS);
			found = *pos >= tail;
		}
		head = perfring_head(ring);
		if (head > PERFRING_POS_MAX || tail % 8)
			break;
		if (found && *pos <= head)
			return PERFRING_OK;
	}
	return perfring_corrupt(ring, tail);
}

/* Sets what a reader that continues at the cursor has returned of losses. `saved`: by its last release. Damage is left
 * for the reader to find. */
static inline void perfring_resume_told(struct perfring_observer *at, struct perfring_refused saved)
{
	struct perfring *ring = &at->ring;
	struct perfring_refused reported, none;
	struct perfring_count before;
	int walks, found;
	uint64_t pos;

	memset(&none, 0, sizeof(none));
	for (walks = 0; walks < PERFRING_WALKS; walks++) {
		found = perfring_reported_before(ring, at->cursor, &reported);
		/* In an overwrite ring the records there may be gone, and their markers with them. */
		if (found == 0 && ring->shape.policy == PERFRING_POLICY_OVERWRITE &&
		    (at->cursor == 0 || !perfring_is_same_refused(&saved, &none))) {
			reported = none;
			found = 1;
		}
		if (found > 0) {
			perfring_told_from(&at->told, saved, reported);
			return;
		}
		/* The last reader saved nothing: the markers that are gone were read. */
		if (found == 0 && perfring_oldest(ring, &pos, &before) == PERFRING_OK)
			found = perfring_reported_before(ring, pos, &reported);
		if (found > 0) {
			perfring_told_from(&at->told, reported, reported);
			return;
		}
		if (found < 0)
			break;
	}
	perfring_told_from(&at->told, saved, saved);
	ring->why[0] = 0;
}

/* Opens and maps; if `lock` is not 0, locks that byte. */
static inline int perfring_reader_open(struct perfring_observer *at, const char *path, int role,
				       uint64_t lock)
{
	int error;

	memset(at, 0, sizeof(*at));
	perfring_hold_off_forks();
	error = perfring_open_checked(&at->ring, path, role);
	if (!error)
		error = perfring_map(&at->ring, role);
	if (!error) {
		at->copy_bytes = at->ring.data_size < PERFRING_SIZE_MAX ? at->ring.data_size : PERFRING_SIZE_MAX;
		if (role == PERFRING_OBSERVER || at->ring.shape.policy == PERFRING_POLICY_OVERWRITE)
			at->copy = (uint64_t *)malloc((size_t)at->copy_bytes);
		if (!at->copy && (role == PERFRING_OBSERVER || at->ring.shape.policy))
			error = perfring_io(&at->ring, "finding memory for copies");
	}
	if (!error)
		/* Before the lock is taken: a child forked in between would keep it. */
		perfring_register_handle(&at->ring);
	perfring_allow_forks();
	if (!error && lock)
		error = perfring_lock_seat(&at->ring, path, lock);
	return error;
}

static inline void perfring_observer_close(struct perfring_observer *at)
{
	free(at->copy);
	at->copy = NULL;
	perfring_close(&at->ring);
}

/* Opens an observer at the oldest present record. The ring's producer may be dead or alive. */
static inline int perfring_observer_open(struct perfring_observer *at, const char *path)
{
	int error = perfring_reader_open(at, path, PERFRING_OBSERVER, 0);
	struct perfring_refused none;

	memset(&none, 0, sizeof(none));
	if (!error)
		error = perfring_oldest(&at->ring, &at->cursor, &at->passed);
	if (!error)
		perfring_resume_told(at, none);
	at->head = at->from = at->upto = at->cursor;
	if (error)
		perfring_observer_close(at);
	return error;
}

/* After being lapped: continues from the oldest valid record, and counts the lost ones. */
static inline int perfring_resync(struct perfring_observer *at, struct perfring_item *item)
{
	uint64_t totals[PERFRING_PRODUCER_TOTALS_WORDS], pos;
	struct perfring_count before;
	int error = perfring_oldest(&at->ring, &pos, &before);

	if (error)
		return error;
	if (++at->laps_in_a_row > PERFRING_LAPS_MAX) {
		error = perfring_newest_totals(&at->ring, totals);
		if (error)
			return error;
		if (totals[PERFRING_PRODUCER_TOTALS_POS] > pos) {
			pos = totals[PERFRING_PRODUCER_TOTALS_POS];
			before = perfring_count_at(totals, PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS);
		}
	}
	if (pos <= at->cursor || pos % 8)
		return perfring_corrupt(&at->ring, at->cursor);
	memset(item, 0, sizeof(*item));
	item->kind = PERFRING_ITEM_LOST;
	item->pos = at->cursor;
	item->cause = PERFRING_CAUSE_LAPPED;
	item->lost = perfring_since(before, at->passed);
	at->cursor = pos;
	if (at->head < pos)
		at->head = pos;
	at->passed = before;
	at->lapped = perfring_plus(at->lapped, item->lost);
	return PERFRING_OK;
}

/* Copies from the cursor on, and checks the copy. 1: copied, or lapped, which is then in `item`; 0: there
 * is nothing. */
static inline int perfring_refill(struct perfring_observer *at, struct perfring_item *item)
{
	struct perfring *ring = &at->ring;
	uint64_t head, bytes, copied, offset;
	int error;

	item->kind = 0;
	if (at->cursor == at->head) {
		head = perfring_head(ring);
		if (head == at->cursor)
			return 0;
		if (head < at->cursor || head > PERFRING_POS_MAX || head % 8)
			return perfring_corrupt(ring, at->cursor);
		at->head = head;
	}
	bytes = at->head - at->cursor < at->copy_bytes ? at->head - at->cursor : at->copy_bytes;
	at->from = at->upto = at->cursor;
	copied = at->cursor + bytes;
	/* Relaxed, word by word: a producer may be writing over them. */
	for (offset = 0; offset < bytes; offset += 8)
		at->copy[offset / 8] = PERFRING_LOAD(perfring_word(ring, at->cursor + offset));
	if (perfring_tail(ring) > at->cursor) { /* F */
		error = perfring_resync(at, item);
		if (error)
			return error;
		/* Records copied beyond the new cursor were intact at the check. */
		if (at->cursor < copied)
			at->upto = copied;
		else
			at->from = at->upto = at->cursor;
		return 1;
	}
	/* Not lapped, so the head that was acquired is less than a ring away. */
	if (at->head - at->cursor >= ring->data_size)
		return perfring_corrupt(ring, at->cursor);
	at->upto = copied;
	return 1;
}

/* Fills in a record of `size` bytes at `pos` whose body is at `body`. */
static inline int perfring_fill_item(struct perfring *ring, struct perfring_record word, uint64_t pos,
				const uint64_t *body, struct perfring_item *item)
{
	memset(item, 0, sizeof(*item));
	item->pos = pos;
	item->type = word.type;
	if (word.type == PERFRING_TYPE_LOST) {
		item->kind = PERFRING_ITEM_LOST;
		return perfring_lost_body(body, word.size, &item->cause, &item->lost)
			       ? 1 : perfring_corrupt(ring, pos);
	}
	item->kind = PERFRING_ITEM_RECORD;
	item->len = (uint32_t)word.size - PERFRING_HEADER_LEN - (word.misc & PERFRING_MISC_PAD);
	item->bytes = body;
	if (ring->timed) {
		if (item->len < PERFRING_TIMESTAMP_LEN)
			return perfring_corrupt(ring, pos);
		item->time = PERFRING_LOAD(&body[0]);
		item->len -= PERFRING_TIMESTAMP_LEN;
		item->bytes = body + 1;
	}
	if (ring->sample_id) {
		uint64_t writer;

		if (item->len < PERFRING_WRITER_LEN)
			return perfring_corrupt(ring, pos);
		writer = PERFRING_LOAD(&body[1]);
		item->pid = (uint32_t)writer;
		item->tid = (uint32_t)(writer >> 32);
		item->len -= PERFRING_WRITER_LEN;
		item->bytes = body + 2;
	}
	return 1;
}

/* Once everything was read: a loss that no marker in the stream reports. 0 if there is none. */
static inline int perfring_lost_at_end(struct perfring_observer *at, struct perfring_item *item)
{
	struct perfring_count lost;
	uint32_t cause;

	if (!perfring_told_end(&at->ring, &at->told, at->cursor, &cause, &lost))
		return 0;
	memset(item, 0, sizeof(*item));
	item->kind = PERFRING_ITEM_LOST;
	item->pos = at->cursor;
	item->cause = cause;
	item->lost = lost;
	item->at_end = 1;
	return 1;
}

/* Whether that is what comes next. */
static inline int perfring_has_lost(struct perfring_observer *at)
{
	struct perfring_told told = at->told;
	struct perfring_count lost;
	uint32_t cause;

	if (at->cursor != at->head)
		return 0;
	if (perfring_told_end(&at->ring, &told, at->cursor, &cause, &lost)) {
		at->told.due = 1;
		return 1;
	}
	at->told = told;
	return 0;
}

/* The next item: 1, or 0 if there is none now. */
static inline int perfring_next_copied(struct perfring_observer *at, struct perfring_item *item)
{
	uint64_t turns, ready;
	struct perfring_record word = { 0, 0, 0 };
	const uint64_t *words;
	int got;

	if (perfring_is_forked(&at->ring))
		return PERFRING_E_FORKED;
	/* Each turn passes a hole, or copies again, or returns; a ring has no more holes than words. */
	for (turns = 0; turns <= at->ring.data_size / 4; turns++) {
		ready = at->upto - at->cursor;
		words = at->copy + (at->cursor - at->from) / 8;
		if (ready)
			memcpy(&word, words, sizeof(word));
		if (ready && !perfring_is_record(word, ready) &&
		    (!perfring_is_record(word, at->head - at->cursor) || at->cursor == at->from))
			return perfring_corrupt(&at->ring, at->cursor);
		if (!ready || word.size > ready) {
			/* Nothing, or truncated by the end of the copy: a copy that begins here has all of it. */
			got = perfring_refill(at, item);
			if (got <= 0)
				return got < 0 ? got : perfring_lost_at_end(at, item);
			if (item->kind && item->lost.records)
				return 1;
			continue;
		}
		if (word.type == PERFRING_TYPE_NOP) {
			at->cursor += word.size;
			continue;
		}
		got = perfring_fill_item(&at->ring, word, at->cursor, words + 1, item);
		if (got < 0)
			return got;
		at->cursor += word.size;
		if (item->kind == PERFRING_ITEM_RECORD) {
			at->laps_in_a_row = 0;
			at->passed.records++;
			at->passed.bytes += word.size;
		} else if (!perfring_told_marker(&at->told, item->cause, &item->lost)) {
			continue;
		}
		return 1;
	}
	return 0;
}

/* The next item: 1, or 0 if there is none now. PERFRING_E_UNLINKED once all of a ring has been read that was
 * removed or replaced; an observer that polls finds that out within a second. */
static inline int perfring_observe(struct perfring_observer *at, struct perfring_item *item)
{
	int got = perfring_next_copied(at, item);

	if (got == 0 && perfring_is_removed(&at->ring)) {
		/* Records published before the removal was found come first. */
		got = perfring_next_copied(at, item);
		if (got == 0)
			return perfring_unlinked(&at->ring);
	}
	return got;
}

/* The wall-clock time of a timestamp, ns since 1970: 1, or 0 if no anchor applies to it. */
static inline int perfring_wall(const struct perfring *ring, uint64_t pos, uint64_t time, uint64_t *wall)
{
	struct perfring_header *header = ring->header;
	uint64_t anchors[PERFRING_ANCHORS][PERFRING_ANCHOR_WORDS], *anchor, before, after, number;
	unsigned at;

	before = PERFRING_LOAD(&header->anchors_written);
	PERFRING_FENCE_ACQUIRE(); /* Q */
	for (number = 0; number < PERFRING_ANCHORS; number++)
		for (at = 0; at < PERFRING_ANCHOR_WORDS; at++)
			anchors[number][at] = PERFRING_LOAD(&header->anchors[number][at]);
	PERFRING_FENCE_ACQUIRE(); /* Q */
	/* Those that the first count includes, and that were not being overwritten at the second. */
	after = PERFRING_LOAD(&header->anchors_written);
	after = after > PERFRING_ANCHORS - 1 ? after - (PERFRING_ANCHORS - 1) : 0;
	if (before > after + PERFRING_ANCHORS - 1) /* a count that decreases is invalid */
		before = after;
	for (number = before; ring->timed && number > after; number--) {
		anchor = anchors[(number - 1) % PERFRING_ANCHORS];
		if (anchor[PERFRING_ANCHOR_POS] <= pos) {
			*wall = anchor[PERFRING_ANCHOR_REALTIME_NS] + (time - anchor[PERFRING_ANCHOR_CLOCK_NS]);
			return 1;
		}
	}
	return 0;
}

#endif /* PERFRING_OBSERVER_H */
