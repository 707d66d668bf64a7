/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_reader.h: reads a ring from C11 or C++17: as its one consumer, or as an observer that leaves
 * no trace. See perfring_attach.h for its requirements.
 *
 *     struct perfring_consumer consumer;
 *     struct perfring_item item;
 *
 *     if (perfring_consumer_attach(&consumer, "/dev/shm/ticks", "my reader") < 0)
 *             die(consumer.at.ring.why);
 *     for (;;) {
 *             int got = perfring_read(&consumer, &item);
 *             if (got < 0)
 *                     die(consumer.at.ring.why);
 *             else if (got == 0)
 *                     perfring_wait(&consumer, 1000);
 *             else if (item.kind == PERFRING_ITEM_RECORD)
 *                     use(item.type, item.bytes, item.len);
 *             else
 *                     complain(item.lost.records, item.cause, item.at_end);
 *     }
 *
 * In a drop ring `item.bytes` points into the ring and is valid until the next perfring_read; in an
 * overwrite ring, and for an observer, it is a copy that is valid as long. A record of a type below 64
 * other than PERFRING_TYPE_SAMPLE is the kernel's, or a descriptor of a layout to come: skip it.
 *
 * Each loss is returned once. The producers' markers in the stream report the losses before them. Losses that
 * they have counted without a marker are returned after the last record, before perfring_read returns 0: `at_end` is 1.
 * A loss counts as read like a record, and the next consumer continues after it.
 *
 * The Rust consumer also recovers a shared ring whose producer died with a reservation open. This one
 * waits until a producer or `perfring recover` has done so.
 */
#ifndef PERFRING_READER_H
#define PERFRING_READER_H

#include "perfring_observer.h"

/* Empty polls after which a consumer releases what it has read. */
#define PERFRING_IDLE_POLLS 64

/* The one consumer. Of an overwrite ring it is an observer that saves its position. */
struct perfring_consumer {
	struct perfring_observer at;
	uint64_t released; /* drop: what data_tail holds; overwrite: the saved position */
	struct perfring_refused released_told; /* losses returned by then */
	unsigned idle;
	struct perfring_seq_latch_writer writer;
	struct perfring_seq_latch_writer told_writer;
};

/* Finds where the consumer of a drop ring continues, and what was read before. `kept`: the copy that counts. */
static inline int perfring_resume_drop(struct perfring_observer *at, int *kept)
{
	struct perfring *ring = &at->ring;
	const uint64_t *seq_latch = &ring->header->consumer_totals.copies[0][0];
	uint64_t totals[PERFRING_CONSUMER_TOTALS_WORDS], tail, head;
	int walks, found = 0;

	tail = PERFRING_LOAD_ACQUIRE(&ring->header->data_tail); /* pairs with C of the last one */
	head = PERFRING_LOAD_ACQUIRE(&ring->header->data_head); /* B, pairs with A */
	if (!perfring_is_sane(ring, head, tail))
		return perfring_corrupt(ring, tail);
	at->cursor = tail;
	/* After a death between the totals and the tail, the copy that matches the tail counts. */
	*kept = perfring_seq_latch_where(seq_latch, PERFRING_CONSUMER_TOTALS_WORDS, PERFRING_CONSUMER_TOTALS_POS, tail, totals);
	if (*kept >= 0) {
		at->passed = perfring_plus(perfring_count_at(totals, PERFRING_CONSUMER_TOTALS_READ_RECORDS),
					   perfring_count_at(totals, PERFRING_CONSUMER_TOTALS_LAPPED_RECORDS));
		return PERFRING_OK;
	}
	/* After a perf reader none matches: it read what was written and is no longer present. */
	*kept = perfring_seq_latch_newest(seq_latch, PERFRING_CONSUMER_TOTALS_WORDS, totals);
	for (walks = 0; walks < PERFRING_WALKS && !found; walks++)
		found = perfring_count_before(ring, tail, &at->passed);
	return found > 0 ? PERFRING_OK : found < 0 ? found : perfring_corrupt(ring, tail);
}

/* Finds where the consumer of an overwrite ring saved its position. */
static inline int perfring_resume_overwrite(struct perfring_observer *at, int *kept)
{
	uint64_t totals[PERFRING_CONSUMER_TOTALS_WORDS] = { 0 };

	*kept = perfring_seq_latch_newest(&at->ring.header->consumer_totals.copies[0][0],
				      PERFRING_CONSUMER_TOTALS_WORDS, totals);
	if (*kept < 0 || totals[PERFRING_CONSUMER_TOTALS_POS] % 8)
		return perfring_corrupt(&at->ring, 0);
	at->cursor = totals[PERFRING_CONSUMER_TOTALS_POS];
	at->lapped = perfring_count_at(totals, PERFRING_CONSUMER_TOTALS_LAPPED_RECORDS);
	at->passed = perfring_plus(perfring_count_at(totals, PERFRING_CONSUMER_TOTALS_READ_RECORDS), at->lapped);
	return PERFRING_OK;
}

/* Attaches as the one consumer, where the last one released or saved its position. */
static inline int perfring_consumer_attach(struct perfring_consumer *consumer, const char *path,
					   const char *name)
{
	struct perfring_observer *at = &consumer->at;
	uint64_t told[PERFRING_CONSUMER_TOLD_WORDS] = { 0 };
	struct perfring_header *header;
	int error, kept = -1, kept_told = -1;

	memset(consumer, 0, sizeof(*consumer));
	error = perfring_reader_open(at, path, PERFRING_CONSUMER, PERFRING_CONSUMER_LOCK_BYTE);
	if (!error)
		error = at->ring.shape.policy == PERFRING_POLICY_DROP ? perfring_resume_drop(at, &kept)
								     : perfring_resume_overwrite(at, &kept);
	if (!error) {
		kept_told = perfring_seq_latch_newest(&at->ring.header->consumer_told.copies[0][0],
						      PERFRING_CONSUMER_TOLD_WORDS, told);
		perfring_resume_told(at, perfring_refused_at(told, PERFRING_CONSUMER_TOLD_REFUSED));
	}
	if (error) {
		perfring_observer_close(at);
		return error;
	}
	header = at->ring.header;
	perfring_seq_latch_after(&consumer->writer, &header->consumer_totals.copies[0][0],
			     PERFRING_CONSUMER_TOTALS_WORDS, kept);
	perfring_seq_latch_after(&consumer->told_writer, &header->consumer_told.copies[0][0],
			     PERFRING_CONSUMER_TOLD_WORDS, kept_told);
	consumer->released_told = at->told.refused;
	at->head = at->from = at->upto = consumer->released = at->cursor;
	perfring_register_fences(&at->ring);
	perfring_write_owner_info((struct perfring_holder *)(void *)&header->consumer_epoch, name);
	return PERFRING_OK;
}

/* Saves the losses that the consumer has returned, if there are more than before. */
static inline void perfring_save_told(struct perfring_consumer *consumer)
{
	const struct perfring_refused *refused = &consumer->at.told.refused;
	uint64_t told[PERFRING_CONSUMER_TOLD_WORDS];
	unsigned at;

	if (perfring_is_same_refused(refused, &consumer->released_told))
		return;
	memset(told, 0, sizeof(told));
	for (at = 0; at < PERFRING_REFUSALS; at++) {
		told[PERFRING_CONSUMER_TOLD_REFUSED + 2 * at] = refused->by[at].records;
		told[PERFRING_CONSUMER_TOLD_REFUSED + 2 * at + 1] = refused->by[at].bytes;
	}
	perfring_seq_latch_write(&consumer->told_writer, &consumer->at.ring.header->consumer_told.copies[0][0],
			     PERFRING_CONSUMER_TOLD_WORDS, told);
	consumer->released_told = *refused;
}

/* Releases (drop) or saves (overwrite) everything that perfring_read returned before. */
static inline void perfring_release(struct perfring_consumer *consumer)
{
	struct perfring_observer *at = &consumer->at;
	struct perfring_header *header = at->ring.header;
	uint64_t totals[PERFRING_CONSUMER_TOTALS_WORDS];
	struct perfring_count read = perfring_since(at->passed, at->lapped);

	if ((at->cursor == consumer->released &&
	     perfring_is_same_refused(&at->told.refused, &consumer->released_told)) ||
	    perfring_is_forked(&at->ring))
		return;
	memset(totals, 0, sizeof(totals));
	totals[PERFRING_CONSUMER_TOTALS_POS] = at->cursor;
	totals[PERFRING_CONSUMER_TOTALS_READ_RECORDS] = read.records;
	totals[PERFRING_CONSUMER_TOTALS_READ_BYTES] = read.bytes;
	totals[PERFRING_CONSUMER_TOTALS_LAPPED_RECORDS] = at->lapped.records;
	totals[PERFRING_CONSUMER_TOTALS_LAPPED_BYTES] = at->lapped.bytes;
	/* Before the totals: after a death between the two, markers that come again report nothing new. */
	perfring_save_told(consumer);
	/* The totals before the tail: after a death between the two stores, the older copy matches the tail. */
	perfring_seq_latch_write(&consumer->writer, &header->consumer_totals.copies[0][0],
			     PERFRING_CONSUMER_TOTALS_WORDS, totals);
	consumer->released = at->cursor;
	if (at->ring.shape.policy == PERFRING_POLICY_OVERWRITE)
		return;
	PERFRING_STORE_RELEASE(&header->data_tail, at->cursor); /* C, pairs with D */
	perfring_light_fence(&at->ring);			/* K, pairs with L */
	if (PERFRING_LOAD(&header->space_armed) == 0 || at->cursor < PERFRING_LOAD(&header->space_wake_pos))
		return;
	/* The targets before the flag: one that is erased belongs to a sleeper that this wakes. */
	__atomic_exchange_n(&header->space_wake_pos, UINT64_MAX, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&header->space_armed, 0, __ATOMIC_SEQ_CST) == 0)
		return;
	__atomic_fetch_add(&header->space_seq, 1, __ATOMIC_RELEASE);
	perfring_wake(&header->space_seq);
}

/* The next item of a drop ring, borrowed in place. */
static inline int perfring_read_pinned(struct perfring_consumer *consumer, struct perfring_item *item)
{
	struct perfring_observer *at = &consumer->at;
	struct perfring *ring = &at->ring;
	struct perfring_record word;
	uint64_t head;
	int got;

	if (at->cursor - consumer->released >= ring->data_size / 8)
		perfring_release(consumer);
	for (;;) {
		if (at->cursor == at->head) {
			head = PERFRING_LOAD_ACQUIRE(&ring->header->data_head); /* B, pairs with A */
			if (head == at->head) {
				/* Relaxed: a hint; a producer that waits polls again by itself. */
				if (++consumer->idle >= PERFRING_IDLE_POLLS ||
				    PERFRING_LOAD(&ring->header->space_armed))
					perfring_release(consumer);
				if (perfring_lost_at_end(at, item))
					return 1;
				return PERFRING_LOAD(&ring->removed) ? perfring_unlinked(ring) : 0;
			}
			if (head < at->head || !perfring_is_sane(ring, head, consumer->released))
				return perfring_corrupt(ring, at->cursor);
			consumer->idle = 0;
			at->head = head;
		}
		word = perfring_header_at(ring, at->cursor); /* relaxed: B ordered it */
		if (!perfring_is_record(word, at->head - at->cursor))
			return perfring_corrupt(ring, at->cursor);
		if (word.type == PERFRING_TYPE_NOP) {
			at->cursor += word.size;
			continue;
		}
		/* In one piece: the data is mapped twice in a row. */
		got = perfring_fill_item(ring, word, at->cursor, perfring_word(ring, at->cursor) + 1, item);
		if (got < 0)
			return got;
		at->cursor += word.size;
		if (item->kind == PERFRING_ITEM_RECORD) {
			at->passed.records++;
			at->passed.bytes += word.size;
		} else if (!perfring_told_marker(&at->told, item->cause, &item->lost)) {
			continue;
		}
		return 1;
	}
}

/* The next item: 1, or 0 if there is none now. The one before it counts as read. PERFRING_E_UNLINKED once all
 * of a ring has been read that perfring_wait found removed. */
static inline int perfring_read(struct perfring_consumer *consumer, struct perfring_item *item)
{
	struct perfring_observer *at = &consumer->at;
	int got;

	if (perfring_is_forked(&at->ring))
		return PERFRING_E_FORKED;
	if (at->ring.shape.policy == PERFRING_POLICY_DROP)
		return perfring_read_pinned(consumer, item);
	if (at->cursor - consumer->released >= at->ring.data_size / 8)
		perfring_release(consumer);
	got = perfring_next_copied(at, item);
	return got == 0 && PERFRING_LOAD(&at->ring.removed) ? perfring_unlinked(&at->ring) : got;
}

/* Waits for a record or a loss after those read, for at most `ms`: 1 if there may be one, 0 if there is none. A
 * loss without a record is found within a second. The removal or replacement of the ring is found as soon; the result is
 * then 1, and perfring_read returns the error. */
static inline int perfring_wait(struct perfring_consumer *consumer, int ms)
{
	struct perfring_header *header = consumer->at.ring.header;
	int64_t end = perfring_now() + (int64_t)ms * 1000000, left, longest;
	uint64_t target = consumer->at.cursor + 8;
	uint32_t seq;

	if (perfring_is_forked(&consumer->at.ring))
		return PERFRING_E_FORKED;
	perfring_release(consumer);
	if (perfring_has_lost(&consumer->at))
		return 1;
	for (;;) {
		seq = PERFRING_LOAD_ACQUIRE(&header->wait_seq);
		PERFRING_STORE(&header->wait_wake_pos, target);
		PERFRING_STORE(&header->wait_wake_records, UINT64_MAX);
		PERFRING_STORE_RELEASE(&header->wait_armed, 1); /* J, pairs with I; the targets before it */
		longest = perfring_heavy_fence();		/* J */
		if (PERFRING_LOAD_ACQUIRE(&header->data_head) >= target) { /* J, and B */
			PERFRING_STORE(&header->wait_armed, 0);
			return 1;
		}
		left = end - perfring_now();
		longest = longest < PERFRING_REMOVED_NS ? longest : PERFRING_REMOVED_NS;
		if (left > 0)
			perfring_sleep(&header->wait_seq, seq, left < longest ? left : longest);
		/* Relaxed: a producer that still sees 1 makes one wake too many, which is harmless. */
		PERFRING_STORE(&header->wait_armed, 0);
		if (PERFRING_LOAD_ACQUIRE(&header->data_head) >= target ||
		    perfring_is_removed(&consumer->at.ring) || perfring_has_lost(&consumer->at))
			return 1;
		if (left <= 0)
			return 0;
	}
}

/* Releases what was read, and leaves the seat. A program that exits without this call is shown as dead. */
static inline void perfring_consumer_detach(struct perfring_consumer *consumer)
{
	perfring_release(consumer);
	if (!perfring_is_forked(&consumer->at.ring))
		perfring_sign_off((struct perfring_holder *)(void *)&consumer->at.ring.header->consumer_epoch);
	perfring_observer_close(&consumer->at);
}

#endif /* PERFRING_READER_H */
