/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_time.h: the clock of timestamps, and what a ring with timestamps keeps of it in its header page, for
 * perfring_create.h and perfring_producer.h. See "Time" of ABI.md.
 *
 * A timestamp is a clock_gettime, some 20 ns. perf's fields convert the processor's counter, which this code
 * does not use: it clears those of another boot, and leaves those of this one as they are.
 */
#ifndef PERFRING_TIME_H
#define PERFRING_TIME_H

#include "perfring_attach.h"

/* ns: a reading of one clock around another that took no longer is accepted; a shorter one at once. */
#define PERFRING_WIDTH_NS 1000
#define PERFRING_NARROW_NS 64
/* The number of readings, of which the narrowest counts, and the most if all were disturbed. */
#define PERFRING_READINGS 3
#define PERFRING_READINGS_MOST 20
/* ns: how often the ring gets a reading of the clocks. */
#define PERFRING_KEEP_NS 100000000
/* ns: a difference up to this, and the errors of two readings, does not count as the wall clock being set. */
#define PERFRING_STEP_NS 20000
/* ns: no clock is behind a timestamp by so much: such a timestamp is another boot's, or damage. */
#define PERFRING_FUTURE_NS 1000000000
/* The initial time namespace's inode: PROC_TIME_INIT_INO in Linux. */
#define PERFRING_TIME_NAMESPACE "time:[4026531834]"

/* The clock of timestamps, as seen from this process. */
struct perfring_clock {
	int64_t ahead;	  /* how far this process's boot clock is ahead of the initial one, ns */
	uint64_t boot;	  /* the first 8 bytes of the boot id */
	uint64_t newest;  /* the newest timestamp: no later one is less */
	uint64_t keep_at; /* when the ring gets the next reading */
};

/* Reads a short file as a string; an empty one if there is none. */
static inline void perfring_read_text(const char *path, char *text, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, len - 1);

	text[got < 0 ? 0 : got] = '\0';
	if (fd >= 0)
		close(fd);
}

/* The kernel's id of this boot, or zeros if it is not available. */
static inline void perfring_boot_id(uint8_t id[16])
{
	char text[64];
	unsigned at = 0, digits = 0, digit;

	memset(id, 0, 16);
	perfring_read_text("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	for (; text[at] && text[at] != '\n' && digits <= 32; at++) {
		if (text[at] == '-')
			continue;
		digit = text[at] >= '0' && text[at] <= '9'   ? (unsigned)(text[at] - '0')
			: text[at] >= 'a' && text[at] <= 'f' ? (unsigned)(text[at] - 'a') + 10
			: text[at] >= 'A' && text[at] <= 'F' ? (unsigned)(text[at] - 'A') + 10
							     : 16;
		if (digit == 16 || digits == 32)
			break;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit);
		digits++;
	}
	if (digits != 32 || (text[at] && text[at] != '\n'))
		memset(id, 0, 16);
}

/* How far this process's CLOCK_BOOTTIME is ahead of the initial time namespace's, ns. Returns NULL, or why that
 * is unknown. */
static inline const char *perfring_clock_ahead(int64_t *ahead)
{
	char here[64], children[64], text[512], *line, *next;
	ssize_t here_len = readlink("/proc/self/ns/time", here, sizeof(here) - 1);
	ssize_t children_len = readlink("/proc/self/ns/time_for_children", children, sizeof(children) - 1);
	long long seconds, nanos;
	char word[16];

	*ahead = 0;
	if (here_len < 0 || children_len < 0)
		return NULL; /* a kernel without time namespaces */
	here[here_len] = '\0';
	children[children_len] = '\0';
	if (strcmp(here, PERFRING_TIME_NAMESPACE) == 0)
		return NULL;
	/* The offsets are those of the namespace that children are born into. */
	if (strcmp(here, children) != 0)
		return "this process made a time namespace for its children (unshare), and the kernel does not show the offset of its own: attach before that, or in a child";
	perfring_read_text("/proc/self/timens_offsets", text, sizeof(text));
	for (line = text; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (sscanf(line, "%15s %lld %lld", word, &seconds, &nanos) == 3 &&
		    (strcmp(word, "boottime") == 0 || strcmp(word, "7") == 0) &&
		    !__builtin_mul_overflow((int64_t)seconds, INT64_C(1000000000), ahead) &&
		    !__builtin_add_overflow(*ahead, (int64_t)nanos, ahead))
			return NULL;
	}
	return "/proc/self/timens_offsets does not say how far the boot clock is shifted here";
}

/* Finds the clock. Returns NULL, or why this process cannot take timestamps. */
static inline const char *perfring_find_clock(struct perfring_clock *clock)
{
	uint8_t id[16];

	memset(clock, 0, sizeof(*clock));
	perfring_boot_id(id);
	memcpy(&clock->boot, id, sizeof(clock->boot));
	return perfring_clock_ahead(&clock->ahead);
}

static inline uint64_t perfring_read_clock(clockid_t which)
{
	struct timespec now;

	clock_gettime(which, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The timestamp of a record made now, ns. */
static inline uint64_t perfring_clock_now(const struct perfring_clock *clock)
{
	return perfring_read_clock(CLOCK_BOOTTIME) - (uint64_t)clock->ahead;
}

/* Reads both clocks at one moment: the anchor for records from this position on. The narrowest of some
 * readings counts. */
static inline void perfring_read_anchor(const struct perfring_clock *clock, uint64_t pos,
					uint64_t anchor[PERFRING_ANCHOR_WORDS])
{
	uint64_t before, realtime, width, narrowest = UINT64_MAX;
	int readings = 0;

	anchor[PERFRING_ANCHOR_POS] = pos;
	do {
		before = perfring_clock_now(clock);
		realtime = perfring_read_clock(CLOCK_REALTIME);
		width = perfring_clock_now(clock) - before;
		if (width < narrowest || readings == 0) {
			narrowest = width;
			anchor[PERFRING_ANCHOR_CLOCK_NS] = before + width / 2;
			anchor[PERFRING_ANCHOR_REALTIME_NS] = realtime;
			anchor[PERFRING_ANCHOR_ERROR_NS] = width / 2 + 1;
		}
		readings++;
		/* An anchor stays in the ring, so a disturbed reading is not good enough. */
	} while (width > PERFRING_NARROW_NS && readings < PERFRING_READINGS_MOST &&
		 (readings < PERFRING_READINGS || narrowest > PERFRING_WIDTH_NS));
}

/* Whether the wall clock was set between two anchors. A page may hold any values. */
static inline int perfring_was_set(const uint64_t *last, const uint64_t *now)
{
	uint64_t apart = (last[PERFRING_ANCHOR_REALTIME_NS] - last[PERFRING_ANCHOR_CLOCK_NS]) -
			 (now[PERFRING_ANCHOR_REALTIME_NS] - now[PERFRING_ANCHOR_CLOCK_NS]);
	uint64_t noise = last[PERFRING_ANCHOR_ERROR_NS] < PERFRING_FUTURE_NS ? last[PERFRING_ANCHOR_ERROR_NS]
									     : PERFRING_FUTURE_NS;

	noise += now[PERFRING_ANCHOR_ERROR_NS];
	if (noise > PERFRING_FUTURE_NS)
		noise = PERFRING_FUTURE_NS;
	if (apart > UINT64_MAX / 2) /* modulo 2^64 */
		apart = 0 - apart;
	return apart > PERFRING_STEP_NS + noise;
}

/* Updates the anchors, from time to time: records from `pos` on get this one if the wall clock was set. Relaxed
 * unless it says otherwise: one producer writes at a time. */
static inline void perfring_keep_time(struct perfring_header *header, struct perfring_clock *clock, uint64_t pos)
{
	uint64_t anchor[PERFRING_ANCHOR_WORDS], last[PERFRING_ANCHOR_WORDS] = { 0 };
	uint64_t written = PERFRING_LOAD(&header->anchors_written), *to;
	unsigned at;

	perfring_read_anchor(clock, pos, anchor);
	clock->keep_at = anchor[PERFRING_ANCHOR_CLOCK_NS] + PERFRING_KEEP_NS;
	for (at = 0; written && at < PERFRING_ANCHOR_WORDS; at++)
		last[at] = PERFRING_LOAD(&header->anchors[(written - 1) % PERFRING_ANCHORS][at]);
	if (written && !perfring_was_set(last, anchor))
		return;
	PERFRING_FENCE_RELEASE(); /* Q, pairs with Q: a reader that sees a new word sees the count before it */
	to = header->anchors[written % PERFRING_ANCHORS];
	for (at = 0; at < PERFRING_ANCHOR_WORDS; at++)
		PERFRING_STORE(&to[at], anchor[at]);
	PERFRING_STORE_RELEASE(&header->anchors_written, written + 1); /* Q, pairs with Q */
}

/* Starts timekeeping for a producer that has just attached, before its first record, which begins at `pos`.
 * `clock->newest` is the greatest timestamp so far. */
static inline void perfring_begin_time(struct perfring_header *header, struct perfring_clock *clock, uint64_t pos)
{
	uint32_t seq = PERFRING_LOAD(&header->lock);
	uint64_t now = perfring_clock_now(clock);

	if (clock->newest > now && clock->newest - now > PERFRING_FUTURE_NS) {
		/* Earlier timestamps are another boot's, or damage: they begin again. */
		clock->newest = 0;
		PERFRING_STORE(&header->newest_timestamp, 0);
	}
	if (PERFRING_LOAD(&header->time_boot) != clock->boot || (seq & 1)) {
		/* perf's fields are another boot's, or half written by a producer that died. */
		seq |= 1;
		PERFRING_STORE(&header->lock, seq);
		PERFRING_FENCE_RELEASE(); /* R, pairs with R */
		PERFRING_STORE(&header->time_shift, 0);
		PERFRING_STORE(&header->time_mult, 0);
		PERFRING_STORE(&header->time_zero, 0);
		PERFRING_STORE(&header->capabilities, PERFRING_PERF_CAPABILITIES);
		PERFRING_STORE_RELEASE(&header->lock, seq + 1); /* R, pairs with R */
		PERFRING_STORE_RELEASE(&header->time_boot, clock->boot);
	}
	perfring_keep_time(header, clock, pos);
}

#endif /* PERFRING_TIME_H */
