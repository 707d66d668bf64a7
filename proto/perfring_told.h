/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_told.h: the refused records that a reader has returned as losses, at the markers in the stream and at its
 * end, for perfring_observer.h. See "Losses at the end of the stream" in ABI.md.
 *
 * A producer writes the marker of its losses before its next record that fits. That record may never come. So a reader
 * at the end of the stream compares the producers' counters with the losses that it has returned, and returns the rest.
 * Of a later marker it returns only what is more than that.
 */
#ifndef PERFRING_TOLD_H
#define PERFRING_TOLD_H

#include "perfring_totals.h"

/* Causes for which a producer refuses a record. */
#define PERFRING_REFUSALS 4
/* A long walk checks after so many records that nothing was overwritten before it was read. */
#define PERFRING_CHECK_EVERY 64

/* Refused records by cause, in the order of the totals. */
struct perfring_refused {
	struct perfring_count by[PERFRING_REFUSALS];
};

struct perfring_told {
	struct perfring_refused refused; /* since the ring was created */
	struct perfring_refused marked;	 /* what the markers before the cursor report; after a lap perhaps less */
	struct perfring_refused counted; /* when the counters were last read */
	uint64_t writes;		 /* of the counters, by then */
	int due;			 /* 1: they are to be read again, written or not; 2: `counted` is to be returned */
};

static inline uint32_t perfring_refusal_cause(unsigned at)
{
	return at == 0 ? PERFRING_CAUSE_FULL : at == 1 ? PERFRING_CAUSE_TOO_LARGE
		: at == 2 ? PERFRING_CAUSE_CONTENDED : PERFRING_CAUSE_PENDING;
}

/* The place of a cause among them, or PERFRING_REFUSALS if no producer refuses a record for it. */
static inline unsigned perfring_refusal_at(uint32_t cause)
{
	unsigned at = 0;

	while (at < PERFRING_REFUSALS && perfring_refusal_cause(at) != cause)
		at++;
	return at;
}

static inline struct perfring_refused perfring_refused_at(const uint64_t *words, unsigned first)
{
	struct perfring_refused refused;
	unsigned at;

	for (at = 0; at < PERFRING_REFUSALS; at++)
		refused.by[at] = perfring_count_at(words, first + 2 * at);
	return refused;
}

static inline int perfring_is_same_refused(const struct perfring_refused *a, const struct perfring_refused *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* How often the counters of refused records were written: the sum of the numbers of all their copies. */
static inline uint64_t perfring_counter_writes(const struct perfring *ring)
{
	const uint64_t *totals = &ring->header->producer_totals.copies[0][0], *losses;
	uint64_t sum = 0;
	uint32_t slot;

	/* Relaxed: of a whole copy, the last word says so; the counters are read after a fence. */
	if (ring->shape.producers == PERFRING_PRODUCERS_ONE)
		return PERFRING_LOAD(&totals[PERFRING_PRODUCER_TOTALS_WORDS - 1]) +
		       PERFRING_LOAD(&totals[2 * PERFRING_PRODUCER_TOTALS_WORDS - 1]);
	for (slot = 0; slot < ring->shape.slot_count; slot++) {
		losses = &ring->slots[slot].losses.copies[0][0];
		sum += PERFRING_LOAD(&losses[PERFRING_SLOT_LOSSES_WORDS - 1]) +
		       PERFRING_LOAD(&losses[2 * PERFRING_SLOT_LOSSES_WORDS - 1]);
	}
	return sum;
}

/* All records that producers have refused: 1, and the producer totals; 0 if those are invalid. */
static inline int perfring_all_refused(const struct perfring *ring, uint64_t *totals, struct perfring_refused *refused)
{
	uint64_t losses[PERFRING_SLOT_LOSSES_WORDS];
	struct perfring_refused more;
	uint32_t slot;
	unsigned at;

	if (perfring_producer_totals(ring, totals) < 0)
		return 0;
	*refused = perfring_refused_at(totals, PERFRING_PRODUCER_TOTALS_FULL_RECORDS);
	/* The one slot of an exclusive ring has none. */
	for (slot = 0; slot < ring->shape.slot_count; slot++) {
		if (perfring_seq_latch_newest(&ring->slots[slot].losses.copies[0][0], PERFRING_SLOT_LOSSES_WORDS,
					      losses) < 0)
			continue;
		more = perfring_refused_at(losses, PERFRING_SLOT_LOSSES_FULL_RECORDS);
		for (at = 0; at < PERFRING_REFUSALS; at++)
			refused->by[at] = perfring_plus(refused->by[at], more.by[at]);
	}
	return 1;
}

/* What the markers before a position report, which is a record boundary: 1, or 0 if the tail passed the position
 * meanwhile. */
static inline int perfring_reported_before(struct perfring *ring, uint64_t pos, struct perfring_refused *reported)
{
	static const struct perfring_refused none = { { { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 } } };
	uint64_t totals[PERFRING_PRODUCER_TOTALS_WORDS], walk, from, to, checked, nth;
	struct perfring_refused between = none;
	struct perfring_count lost;
	uint32_t cause;
	unsigned at;

	if (perfring_producer_totals(ring, totals) < 0)
		return perfring_corrupt(ring, pos);
	*reported = perfring_refused_at(totals, PERFRING_PRODUCER_TOTALS_REPORTED_FULL_RECORDS);
	from = totals[PERFRING_PRODUCER_TOTALS_POS];
	if (pos <= from && perfring_is_same_refused(reported, &none))
		return 1;
	to = from > pos ? from : pos;
	from = from > pos ? pos : from;
	if (to - from > ring->data_size)
		return 0;
	/* Checked on the way: a reader that walks on is faster than a producer that overwrites behind it. */
	for (walk = checked = from, nth = 0; walk < to; nth++) {
		struct perfring_record word = perfring_header_at(ring, walk);
		int valid = perfring_is_record(word, to - walk), marker = valid && word.type == PERFRING_TYPE_LOST;

		if (marker)
			valid = perfring_lost_at(ring, walk, word.size, &cause, &lost);
		if (!valid || nth % PERFRING_CHECK_EVERY == 0) {
			if (!perfring_is_intact(ring, checked))
				return 0;
			if (!valid)
				return perfring_corrupt(ring, walk);
			checked = walk;
		}
		at = marker ? perfring_refusal_at(cause) : PERFRING_REFUSALS;
		if (at < PERFRING_REFUSALS)
			between.by[at] = perfring_plus(between.by[at], lost);
		walk += word.size;
	}
	if (!perfring_is_intact(ring, checked))
		return 0;
	for (at = 0; at < PERFRING_REFUSALS; at++)
		reported->by[at] = to == pos ? perfring_plus(reported->by[at], between.by[at])
					     : perfring_since(reported->by[at], between.by[at]);
	return 1;
}

/* For each cause the count with more records. */
static inline struct perfring_refused perfring_later(struct perfring_refused one, struct perfring_refused other)
{
	unsigned at;

	for (at = 0; at < PERFRING_REFUSALS; at++)
		if (one.by[at].records < other.by[at].records)
			one.by[at] = other.by[at];
	return one;
}

/* A reader continues at a position. `reported`: by the markers before it. `saved`: returned to the last reader. */
static inline void perfring_told_from(struct perfring_told *told, struct perfring_refused saved,
				      struct perfring_refused reported)
{
	told->refused = perfring_later(saved, reported);
	told->marked = reported;
	told->due = 1;
}

/* Passes a marker: leaves of `lost` what the reader was not told before. Whether there is anything to return. */
static inline int perfring_told_marker(struct perfring_told *told, uint32_t cause, struct perfring_count *lost)
{
	unsigned at = perfring_refusal_at(cause);

	/* A marker of no records is another writer's. */
	if (at == PERFRING_REFUSALS || lost->records == 0)
		return 1;
	told->marked.by[at] = perfring_plus(told->marked.by[at], *lost);
	*lost = perfring_since(told->marked.by[at], told->refused.by[at]);
	if (lost->records == 0)
		return 0;
	told->refused.by[at] = perfring_plus(told->refused.by[at], *lost);
	return 1;
}

/* At the end of the stream, which is `pos`: one cause of what the producers have refused beyond all that the
 * reader was told. 0 if there is none. */
static inline int perfring_told_end(const struct perfring *ring, struct perfring_told *told, uint64_t pos,
				    uint32_t *cause, struct perfring_count *lost)
{
	uint64_t totals[PERFRING_PRODUCER_TOTALS_WORDS], writes = perfring_counter_writes(ring);
	struct perfring_refused refused, reported;
	unsigned at;

	if (!told->due && writes == told->writes)
		return 0;
	/* A reader that reads until there is nothing comes to an end, also if producers continue to refuse. */
	if (told->due != 2) {
		PERFRING_FENCE_ACQUIRE(); /* what is counted after `writes` is found the next time */
		told->writes = writes;
		told->due = 0;
		if (!perfring_all_refused(ring, totals, &refused))
			return 0;
		reported = perfring_refused_at(totals, PERFRING_PRODUCER_TOTALS_REPORTED_FULL_RECORDS);
		told->counted = perfring_later(refused, reported);
		refused = perfring_later(told->refused, told->counted);
		/* All is returned, so the markers that a lap skipped are, too. */
		if (perfring_is_same_refused(&refused, &told->refused) && totals[PERFRING_PRODUCER_TOTALS_POS] <= pos)
			told->marked = perfring_later(told->marked, reported);
	}
	for (at = 0; at < PERFRING_REFUSALS; at++) {
		*lost = perfring_since(told->counted.by[at], told->refused.by[at]);
		if (lost->records == 0)
			continue;
		told->refused.by[at] = perfring_plus(told->refused.by[at], *lost);
		told->due = 2;
		*cause = perfring_refusal_cause(at);
		return 1;
	}
	told->due = 0;
	return 0;
}

#endif /* PERFRING_TOLD_H */
