/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_metrics.h: samples of a ring's metrics area, in C11 or C++17. See "The metrics area" of ABI.md. Only loads: a file
 * that is mapped read-only will do, of a live ring or of a dead one.
 *
 *	uint64_t size, at = 0;
 *	const void *area = perfring_metrics_area(file, file_len, &size);
 *	struct perfring_metric metric;
 *	while (perfring_metrics_next(area, size, &at, &metric) > 0) // then perfring_metric_is_same
 *		printf("type %u of process %u: %llu\n", metric.type, metric.pid, perfring_metric_u64(&metric));
 *
 * The ring's type table has an instrument's name, unit and attributes, under its type.
 */
#ifndef PERFRING_METRICS_H
#define PERFRING_METRICS_H

#include "perfring.h"

#include <math.h>
#include <string.h>

#define PERFRING_METRIC_LINE 8 /* words */
#define PERFRING_METRIC_STRIPES_MAX 128
#define PERFRING_METRIC_BUCKETS_MAX 4096

/* A block: the values of one instrument in one process. */
struct perfring_metric {
	uint64_t at;	   /* bytes from the area's beginning on */
	uint32_t type;	   /* in the type table */
	uint32_t kind;	   /* PERFRING_METRIC_* */
	uint32_t stripes;
	uint32_t slot;	   /* of its process; with `epoch` 0 there is none */
	uint64_t epoch;	   /* the low 48 bits */
	uint32_t pid;
	uint32_t scale;	   /* of a histogram, like the next two */
	int32_t first;	   /* the index of its first bucket */
	uint32_t buckets;
	uint64_t start_ns; /* since 1970 */
	uint64_t refused;  /* measurements that a histogram did not count */
	const uint64_t *values; /* of the first stripe */
	uint64_t stripe;	/* words of each */
};

static inline uint64_t perfring_metric_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline double perfring_metric_double(uint64_t bits)
{
	double value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Returns the metrics area of a mapped file that has been checked to be a ring; NULL if it has none, or is too short. */
static inline const void *perfring_metrics_area(const void *file, uint64_t file_len, uint64_t *size)
{
	const struct perfring_header *page = (const struct perfring_header *)file;
	*size = 0;
	if (file_len < PERFRING_HEADER_PAGE_LEN || !(page->features_required & PERFRING_FEATURE_METRICS))
		return NULL;
	if (page->metrics_offset % 4096 || page->metrics_offset > file_len ||
	    page->metrics_size > file_len - page->metrics_offset)
		return NULL;
	*size = page->metrics_size;
	return (const char *)file + page->metrics_offset;
}

/* Returns the words of a stripe; 0 for what no block has. */
static inline uint64_t perfring_metric_stripe(const struct perfring_metric *metric, uint64_t shape)
{
	uint64_t words;
	switch (metric->kind) {
	case PERFRING_METRIC_HISTOGRAM:
		words = PERFRING_METRIC_LINE + metric->buckets;
		break;
	case PERFRING_METRIC_RECORD:
		words = (shape + 7) / 8;
		break;
	default:
		words = PERFRING_METRIC_LINE;
	}
	return (words + PERFRING_METRIC_LINE - 1) / PERFRING_METRIC_LINE * PERFRING_METRIC_LINE;
}

/* Returns whether a histogram can have these buckets: from one power of two to another that a normal double can be. */
static inline int perfring_metric_buckets_fit(const struct perfring_metric *metric, uint64_t shape)
{
	int64_t end = (int64_t)metric->first + metric->buckets, width;
	if (metric->scale > 4 || (shape >> 8 & 0xff) || !metric->buckets ||
	    metric->buckets > PERFRING_METRIC_BUCKETS_MAX)
		return 0;
	width = (int64_t)1 << metric->scale;
	return metric->first % width == 0 && end % width == 0 && metric->first >= -1022 * width && end <= 1024 * width;
}

/* Takes the block at `*at` (0 for the first), and moves on. Returns 1; 0 at the end; -1 at words that no process writes. A
 * block of an unknown kind is passed over. */
static inline int perfring_metrics_next(const void *area, uint64_t size, uint64_t *at, struct perfring_metric *metric)
{
	const uint64_t *words = (const uint64_t *)area;
	uint64_t end, used, len, shape, head, owner;
	if (!words || size < 64)
		return 0;
	end = perfring_metric_load(words);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* U */
	used = (end < size ? end : size) / 64 * 64;
	if (*at < 64)
		*at = 64;
	while (*at + 64 <= used) {
		const uint64_t *block = words + *at / 8;
		metric->at = *at;
		head = perfring_metric_load(block);
		len = perfring_metric_load(block + 1);
		if (len % 64 || len < 64 || len > used - *at)
			return -1;
		*at += len;
		metric->type = (uint32_t)head;
		metric->kind = (uint32_t)(head >> 32) & 0xff;
		metric->stripes = (uint32_t)(head >> 40);
		if (metric->kind < PERFRING_METRIC_COUNTER_U64 || metric->kind > PERFRING_METRIC_RECORD)
			continue;
		/* A type that no application may have. */
		if (metric->type != PERFRING_TYPE_SAMPLE &&
		    (metric->type < 64 || metric->type >> 16 == PERFRING_TYPE_NOP >> 16))
			return -1;
		owner = perfring_metric_load(block + 2);
		__atomic_thread_fence(__ATOMIC_ACQUIRE); /* W */
		metric->slot = (uint32_t)(owner >> 48);
		metric->epoch = owner & 0xffffffffffffULL;
		metric->pid = (uint32_t)perfring_metric_load(block + 3);
		metric->start_ns = perfring_metric_load(block + 4);
		shape = perfring_metric_load(block + 5);
		metric->refused = perfring_metric_load(block + 6);
		metric->scale = metric->buckets = 0;
		metric->first = 0;
		if (metric->kind == PERFRING_METRIC_HISTOGRAM) {
			metric->scale = (uint32_t)(shape & 0xff);
			metric->buckets = (uint32_t)(shape >> 16) & 0xffff;
			metric->first = (int32_t)(uint32_t)(shape >> 32);
			if (!perfring_metric_buckets_fit(metric, shape))
				return -1;
		}
		if (metric->kind == PERFRING_METRIC_RECORD && shape > UINT32_MAX)
			return -1;
		metric->stripe = perfring_metric_stripe(metric, shape);
		if (!metric->stripes || metric->stripes > PERFRING_METRIC_STRIPES_MAX ||
		    (metric->stripes & (metric->stripes - 1)) ||
		    len / 8 - PERFRING_METRIC_LINE != metric->stripes * metric->stripe)
			return -1;
		if (!owner)
			continue; /* one process takes it over from another, or has died then */
		metric->values = block + PERFRING_METRIC_LINE;
		return 1;
	}
	return end > size || end % 64 ? -1 : 0; /* the blocks before it are good */
}

/* Returns whether a block still has the owner that it was taken with: call it after its values were loaded. If not, they may be
 * another process's. */
static inline int perfring_metric_is_same(const struct perfring_metric *metric)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* W */
	return perfring_metric_load(metric->values - PERFRING_METRIC_LINE + 2) ==
	       ((uint64_t)metric->slot << 48 | metric->epoch);
}

/* Returns a sum or a gauge of whole numbers; of a signed one, its two's complement. */
static inline uint64_t perfring_metric_u64(const struct perfring_metric *metric)
{
	uint64_t sum = 0;
	uint32_t stripe;
	for (stripe = 0; stripe < metric->stripes; stripe++)
		sum += perfring_metric_load(metric->values + stripe * metric->stripe);
	return sum;
}

/* Returns a sum or a gauge of doubles. */
static inline double perfring_metric_f64(const struct perfring_metric *metric)
{
	double sum = 0;
	uint32_t stripe;
	for (stripe = 0; stripe < metric->stripes; stripe++)
		sum += perfring_metric_double(perfring_metric_load(metric->values + stripe * metric->stripe));
	return sum;
}

/* Returns whether a gauge was ever set. */
static inline int perfring_metric_is_set(const struct perfring_metric *metric)
{
	return __atomic_load_n(metric->values + 1, __ATOMIC_ACQUIRE) != 0;
}

/* A histogram's figures beside its buckets. `least` > `greatest` before the first measurement. */
struct perfring_measured {
	uint64_t count, zeros;
	double sum, least, greatest;
};

/* Samples a histogram. `counts` has room for `metric->buckets` counts, or is NULL. */
static inline void perfring_metric_histogram(const struct perfring_metric *metric, uint64_t *counts,
					     struct perfring_measured *measured)
{
	uint32_t stripe, bucket;
	if (counts)
		memset(counts, 0, metric->buckets * sizeof *counts);
	measured->count = measured->zeros = 0;
	measured->sum = 0;
	measured->least = INFINITY;
	measured->greatest = -INFINITY;
	for (stripe = 0; stripe < metric->stripes; stripe++) {
		const uint64_t *line = metric->values + stripe * metric->stripe;
		double least, greatest;
		for (bucket = 0; bucket < metric->buckets; bucket++) {
			uint64_t count = perfring_metric_load(line + PERFRING_METRIC_LINE + bucket);
			measured->count += count;
			if (counts)
				counts[bucket] += count;
		}
		measured->zeros += perfring_metric_load(line + 3);
		__atomic_thread_fence(__ATOMIC_ACQUIRE); /* V */
		measured->sum += perfring_metric_double(perfring_metric_load(line));
		least = perfring_metric_double(perfring_metric_load(line + 1));
		greatest = perfring_metric_double(perfring_metric_load(line + 2));
		if (least < measured->least)
			measured->least = least;
		if (greatest > measured->greatest)
			measured->greatest = greatest;
	}
	measured->count += measured->zeros;
}

#endif /* PERFRING_METRICS_H */
