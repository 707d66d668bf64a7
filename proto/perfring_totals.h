/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_totals.h: sequence latches, totals and the walk from totals to a position, for perfring_reader.h
 * and perfring_producer.h. See "Sequence latches" and "Totals" of ABI.md.
 */
#ifndef PERFRING_TOTALS_H
#define PERFRING_TOTALS_H

#include "perfring_attach.h"

/* How often a live SeqLatch, or a moving position, is read again. */
#define PERFRING_TRIES 1000
/* How often the walk from the totals to the head is repeated because the producer was faster. */
#define PERFRING_WALKS 100
/* The tail mark is at most this many records, holes and markers ahead of the tail. */
#define PERFRING_MARK_AHEAD 64

static inline uint64_t *perfring_word(const struct perfring *ring, uint64_t pos)
{
	return &ring->data[(pos & (ring->data_size - 1)) / 8];
}

/* The word at a position: a relaxed load, in 64 bits as it was stored. */
static inline struct perfring_record perfring_header_at(const struct perfring *ring, uint64_t pos)
{
	uint64_t raw = PERFRING_LOAD(perfring_word(ring, pos));
	struct perfring_record word;

	memcpy(&word, &raw, sizeof(word));
	return word;
}

static inline uint64_t perfring_header_word(uint32_t type, uint16_t misc, uint64_t size)
{
	struct perfring_record word;
	uint64_t raw;

	word.type = type;
	word.misc = misc;
	word.size = (uint16_t)size;
	memcpy(&raw, &word, sizeof(raw));
	return raw;
}

/* Whether the word can be a record's that ends within `room` bytes. */
static inline int perfring_is_record(struct perfring_record word, uint64_t room)
{
	uint32_t taken = PERFRING_HEADER_LEN + (word.misc & PERFRING_MISC_PAD);

	return word.size % PERFRING_RECORD_ALIGN == 0 && word.size >= taken && word.size <= room;
}

/* Not a hole and not a loss. Of words before data_head, where nothing is open. */
static inline int perfring_is_data(struct perfring_record word)
{
	return word.type != PERFRING_TYPE_NOP && word.type != PERFRING_TYPE_LOST;
}

static inline int perfring_is_sane(const struct perfring *ring, uint64_t head, uint64_t tail)
{
	return head % 8 == 0 && tail % 8 == 0 && head <= PERFRING_POS_MAX && tail <= head &&
	       head - tail < ring->data_size;
}

static inline struct perfring_count perfring_since(struct perfring_count now, struct perfring_count then)
{
	/* A hostile page may hold less than before. */
	now.records = now.records > then.records ? now.records - then.records : 0;
	now.bytes = now.bytes > then.bytes ? now.bytes - then.bytes : 0;
	return now;
}

static inline struct perfring_count perfring_plus(struct perfring_count a, struct perfring_count b)
{
	/* A hostile page may hold any value: the most that there is, and not less than before. */
	a.records = b.records > UINT64_MAX - a.records ? UINT64_MAX : a.records + b.records;
	a.bytes = b.bytes > UINT64_MAX - a.bytes ? UINT64_MAX : a.bytes + b.bytes;
	return a;
}

static inline struct perfring_count perfring_count_at(const uint64_t *words, unsigned records)
{
	struct perfring_count count;

	count.records = words[records];
	count.bytes = words[records + 1];
	return count;
}

/* data_head as a reader sees it, on pages that may be read-only. */
static inline uint64_t perfring_head(const struct perfring *ring)
{
	uint64_t head = PERFRING_LOAD(&ring->header->data_head);

	PERFRING_FENCE_ACQUIRE(); /* B, pairs with A */
	return head;
}

/* data_tail, read after all that was read before it. */
static inline uint64_t perfring_tail(const struct perfring *ring)
{
	PERFRING_FENCE_ACQUIRE(); /* F, pairs with E */
	return PERFRING_LOAD(&ring->header->data_tail);
}

/* Reads one copy of a SeqLatch; whether it is whole. */
static inline int perfring_read_copy(const uint64_t *copy, unsigned words, uint64_t *out)
{
	unsigned at;

	out[words - 1] = PERFRING_LOAD(&copy[words - 1]);
	PERFRING_FENCE_ACQUIRE(); /* H, pairs with G */
	for (at = 1; at < words - 1; at++)
		out[at] = PERFRING_LOAD(&copy[at]);
	PERFRING_FENCE_ACQUIRE(); /* H, pairs with G */
	out[0] = PERFRING_LOAD(&copy[0]);
	return out[0] == out[words - 1];
}

/* The newest whole copy, into `out`. Returns its index, or -1 if both are invalid. */
static inline int perfring_seq_latch_newest(const uint64_t *seq_latch, unsigned words, uint64_t *out)
{
	uint64_t copy[2][PERFRING_PRODUCER_TOTALS_WORDS];
	int tries, whole[2], last = -1, one;

	for (tries = 0; tries < PERFRING_TRIES; tries++) {
		whole[0] = perfring_read_copy(seq_latch, words, copy[0]);
		whole[1] = perfring_read_copy(seq_latch + words, words, copy[1]);
		if (!whole[0] && !whole[1])
			continue;
		if (whole[0] && whole[1])
			one = copy[1][0] > copy[0][0];
		else
			one = whole[1];
		memcpy(out, copy[one], words * sizeof(uint64_t));
		/* The other is being written as the next: this is the newest. If it is further on, this was
		 * replaced while the other was read. */
		if ((whole[0] && whole[1]) || copy[1 - one][0] <= copy[one][0] + 1)
			return one;
		last = one;
	}
	return last;
}

/* The whole copy whose word `at` is `value`, the newest; -1 if there is none. */
static inline int perfring_seq_latch_where(const uint64_t *seq_latch, unsigned words, unsigned at, uint64_t value,
				       uint64_t *out)
{
	uint64_t copy[PERFRING_PRODUCER_TOTALS_WORDS];
	int which, found = -1;

	for (which = 0; which < 2; which++) {
		if (!perfring_read_copy(seq_latch + (unsigned)which * words, words, copy) || copy[at] != value)
			continue;
		if (found < 0 || copy[0] >= out[0]) {
			memcpy(out, copy, words * sizeof(uint64_t));
			found = which;
		}
	}
	return found;
}

/* The whole copy with the least number that is not below `least`; -1 if there is none. */
static inline int perfring_seq_latch_least(const uint64_t *seq_latch, unsigned words, uint64_t least, uint64_t *out)
{
	uint64_t copy[PERFRING_PRODUCER_TOTALS_WORDS];
	int which, found = -1;

	for (which = 0; which < 2; which++) {
		if (!perfring_read_copy(seq_latch + (unsigned)which * words, words, copy) || copy[0] < least)
			continue;
		if (found < 0 || copy[0] < out[0]) {
			memcpy(out, copy, words * sizeof(uint64_t));
			found = which;
		}
	}
	return found;
}

/* The owner's side of a SeqLatch. */
struct perfring_seq_latch_writer {
	uint64_t seq;
	unsigned next;
};

/* Goes on after the copy that counts, with a number above both. */
static inline void perfring_seq_latch_after(struct perfring_seq_latch_writer *writer, const uint64_t *seq_latch,
					unsigned words, int kept)
{
	uint64_t first = PERFRING_LOAD(&seq_latch[0]), second = PERFRING_LOAD(&seq_latch[words]);

	writer->seq = first > second ? first : second;
	writer->next = kept < 0 ? 0 : 1 - (unsigned)kept;
}

static inline void perfring_seq_latch_write_as(struct perfring_seq_latch_writer *writer, uint64_t *seq_latch,
					   unsigned words, uint64_t seq, const uint64_t *body)
{
	uint64_t *copy = seq_latch + writer->next * words;
	unsigned at;

	PERFRING_STORE(&copy[0], seq);
	PERFRING_FENCE_RELEASE(); /* G, pairs with H */
	for (at = 1; at < words - 1; at++)
		PERFRING_STORE(&copy[at], body[at]);
	PERFRING_STORE_RELEASE(&copy[words - 1], seq); /* G, pairs with H */
	writer->seq = seq;
	writer->next = 1 - writer->next;
}

static inline void perfring_seq_latch_write(struct perfring_seq_latch_writer *writer, uint64_t *seq_latch,
					unsigned words, const uint64_t *body)
{
	perfring_seq_latch_write_as(writer, seq_latch, words, writer->seq + 1, body);
}

static inline int perfring_producer_totals(const struct perfring *ring, uint64_t *totals)
{
	return perfring_seq_latch_newest(&ring->header->producer_totals.copies[0][0],
				     PERFRING_PRODUCER_TOTALS_WORDS, totals);
}

static inline uint64_t perfring_totals_interval(const struct perfring *ring)
{
	return ring->data_size / 4 < 65536 ? ring->data_size / 4 : 65536;
}

/* How far beyond its totals a producer can have written. */
static inline uint64_t perfring_reach(const struct perfring *ring)
{
	uint64_t reach = perfring_totals_interval(ring) + PERFRING_SIZE_MAX + 2 * PERFRING_LOST_SIZE;

	/* In a shared ring that has had a record, an open reservation holds the totals back. */
	if (PERFRING_LOAD(&ring->header->producer_pos) != 0 || reach > ring->data_size - 1)
		return ring->data_size - 1;
	return reach;
}

/* id, lost and bytes of a PERF_RECORD_LOST that is `size` long, from the words of its body. */
static inline int perfring_lost_body(const uint64_t *body, uint64_t size, uint32_t *cause,
				     struct perfring_count *lost)
{
	if (size < 24)
		return 0;
	/* A producer's cause, or a reader's own; any other is another writer's. */
	*cause = body[0] <= PERFRING_CAUSE_PENDING ? (uint32_t)body[0] : PERFRING_CAUSE_FOREIGN;
	lost->records = body[1];
	lost->bytes = size >= 32 ? body[2] : 0;
	return 1;
}

static inline int perfring_lost_at(const struct perfring *ring, uint64_t pos, uint64_t size,
				   uint32_t *cause, struct perfring_count *lost)
{
	uint64_t body[3];
	unsigned at;

	for (at = 0; at < 3; at++)
		body[at] = PERFRING_LOAD(perfring_word(ring, pos + 8 * (at + 1)));
	return perfring_lost_body(body, size, cause, lost);
}

/* Advances the totals to `head` by counting the records since. 0 if the records are invalid. On a live ring the
 * caller checks afterwards that they were intact. */
static inline int perfring_advance_totals(const struct perfring *ring, uint64_t *totals, uint64_t head)
{
	uint64_t *pos = &totals[PERFRING_PRODUCER_TOTALS_POS];
	struct perfring_count lost;
	uint32_t cause;
	unsigned at;

	if (*pos % 8 || *pos > head || head - *pos > ring->data_size)
		return 0;
	while (*pos != head) {
		struct perfring_record word = perfring_header_at(ring, *pos);

		if (!perfring_is_record(word, head - *pos))
			return 0;
		at = PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS;
		if (word.type == PERFRING_TYPE_NOP) {
			at = PERFRING_PRODUCER_TOTALS_DISCARDED_RECORDS;
			if (word.misc & PERFRING_HOLE_RECLAIMED)
				at = PERFRING_PRODUCER_TOTALS_RECLAIMED_RECORDS;
			else if (word.misc & PERFRING_HOLE_REST)
				totals[at]--; /* its bytes alone */
		}
		if (word.type == PERFRING_TYPE_LOST) {
			if (!perfring_lost_at(ring, *pos, word.size, &cause, &lost))
				return 0;
			at = PERFRING_PRODUCER_TOTALS_REPORTED_FULL_RECORDS;
			if (cause == PERFRING_CAUSE_TOO_LARGE)
				at = PERFRING_PRODUCER_TOTALS_REPORTED_TOO_LARGE_RECORDS;
			else if (cause == PERFRING_CAUSE_CONTENDED)
				at = PERFRING_PRODUCER_TOTALS_REPORTED_CONTENDED_RECORDS;
			else if (cause == PERFRING_CAUSE_PENDING)
				at = PERFRING_PRODUCER_TOTALS_REPORTED_PENDING_RECORDS;
			totals[at] += lost.records;
			totals[at + 1] += lost.bytes;
			totals[PERFRING_PRODUCER_TOTALS_LOST_MARKERS]++;
		} else {
			totals[at]++;
			totals[at + 1] += word.size;
		}
		*pos += word.size;
	}
	return 1;
}

/* The records, holes and markers between a tail and its mark. */
struct perfring_to_mark {
	uint64_t starts[PERFRING_MARK_AHEAD + 1]; /* of each of them, and the mark */
	uint8_t is_data[PERFRING_MARK_AHEAD];
	unsigned count;
	int complete; /* the walk reached the mark */
};

static inline void perfring_walk_to_mark(const struct perfring *ring, uint64_t tail, uint64_t mark,
					 struct perfring_to_mark *path)
{
	struct perfring_record word;

	path->count = 0;
	path->complete = 0;
	for (path->starts[0] = tail; path->starts[path->count] != mark; path->count++) {
		if (path->count == PERFRING_MARK_AHEAD)
			return;
		word = perfring_header_at(ring, path->starts[path->count]);
		if (!perfring_is_record(word, mark - path->starts[path->count]))
			return;
		path->is_data[path->count] = (uint8_t)perfring_is_data(word);
		path->starts[path->count + 1] = path->starts[path->count] + word.size;
	}
	path->complete = 1;
}

/* Records from `tail` to the mark; 0 if nothing begins there. */
static inline int perfring_count_from(const struct perfring_to_mark *path, uint64_t tail,
				      struct perfring_count *count)
{
	unsigned at = 0;

	memset(count, 0, sizeof(*count));
	while (at <= path->count && path->starts[at] != tail)
		at++;
	if (!path->complete || at > path->count)
		return 0;
	for (; at < path->count; at++) {
		count->records += path->is_data[at];
		count->bytes += path->is_data[at] ? path->starts[at + 1] - path->starts[at] : 0;
	}
	return 1;
}

/* Whether what has just been read from `from` on was intact: a producer publishes its tail and its totals
 * before it overwrites what was before them (E). */
static inline int perfring_is_intact(const struct perfring *ring, uint64_t from)
{
	uint64_t totals[PERFRING_PRODUCER_TOTALS_WORDS];

	if (perfring_tail(ring) <= from) /* F */
		return 1;
	return perfring_producer_totals(ring, totals) >= 0 &&
	       totals[PERFRING_PRODUCER_TOTALS_POS] + perfring_reach(ring) <= from + ring->data_size;
}

/* The producer totals, advanced to the newest head at which that is possible. */
static inline int perfring_newest_totals(struct perfring *ring, uint64_t *totals)
{
	int walks, complete;

	for (walks = 0; walks < PERFRING_WALKS; walks++) {
		uint64_t head = perfring_head(ring), from;

		if (perfring_producer_totals(ring, totals) < 0)
			return perfring_corrupt(ring, head);
		from = totals[PERFRING_PRODUCER_TOTALS_POS];
		if (from > head) {
			/* They are true at a later head, or invalid. */
			if (from > perfring_head(ring) || from > PERFRING_POS_MAX || from % 8)
				return perfring_corrupt(ring, from);
			return PERFRING_OK;
		}
		complete = head - from <= perfring_reach(ring) && perfring_advance_totals(ring, totals, head);
		if (perfring_is_intact(ring, from))
			return complete ? PERFRING_OK : perfring_corrupt(ring, totals[PERFRING_PRODUCER_TOTALS_POS]);
	}
	/* The producer overtakes every walk: its totals alone are true too, and not far behind. */
	return perfring_producer_totals(ring, totals) < 0 ? perfring_corrupt(ring, 0) : PERFRING_OK;
}

#endif /* PERFRING_TOTALS_H */
