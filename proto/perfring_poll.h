/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_poll.h: a consumer's descriptor for poll, epoll and event loops based on them. Link with
 * -pthread: a thread sleeps on the ring's futex for it.
 *
 *     struct perfring_pollable pollable;
 *     int more;
 *
 *     if (perfring_pollable_open(&pollable, &consumer) < 0)
 *             die(consumer.at.ring.why);
 *     add_to_the_loop(pollable.fd);            readable: there may be a record or a loss
 *
 *     on_readable():                           and once before the loop
 *             do
 *                     while ((got = perfring_read(&consumer, &item)) > 0)
 *                             use(&item);
 *             while ((more = perfring_pollable_arm(&pollable)) > 0);
 *
 * Arming it lasts for one wake: read until there is nothing, and arm it again. Do not call perfring_wait
 * meanwhile.
 */
#ifndef PERFRING_POLL_H
#define PERFRING_POLL_H

#include "perfring_reader.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

struct perfring_pollable {
	struct perfring_consumer *consumer;
	int fd;
	uint64_t target; /* the data_head that is waited for; 0: none */
	uint64_t writes; /* of the counters of refused records, when it was armed */
	uint32_t asked;	 /* rises when there is something to do */
	uint32_t ends;
	uint32_t ended;
	pthread_t thread;
};

/* Waits on the ring for a while. Whether the target was reached, or the counters of refused records were written,
 * or the ring was removed. */
static inline int perfring_pollable_wait(struct perfring_pollable *pollable, uint64_t target)
{
	struct perfring_header *header = pollable->consumer->at.ring.header;
	uint32_t seq = PERFRING_LOAD_ACQUIRE(&header->wait_seq);
	int64_t longest;

	PERFRING_STORE(&header->wait_wake_pos, target);
	PERFRING_STORE(&header->wait_wake_records, UINT64_MAX);
	PERFRING_STORE_RELEASE(&header->wait_armed, 1); /* J, pairs with I; the targets before it */
	longest = perfring_heavy_fence();		/* J */
	longest = longest < PERFRING_REMOVED_NS ? longest : PERFRING_REMOVED_NS;
	if (PERFRING_LOAD_ACQUIRE(&header->data_head) < target && !PERFRING_LOAD_ACQUIRE(&pollable->ends))
		perfring_sleep(&header->wait_seq, seq, longest);
	PERFRING_STORE(&header->wait_armed, 0); /* relaxed, as in perfring_wait */
	return PERFRING_LOAD_ACQUIRE(&header->data_head) >= target ||
	       perfring_counter_writes(&pollable->consumer->at.ring) != PERFRING_LOAD(&pollable->writes) ||
	       perfring_is_removed(&pollable->consumer->at.ring);
}

static inline void *perfring_pollable_main(void *arg)
{
	struct perfring_pollable *pollable = (struct perfring_pollable *)arg;
	const uint64_t one = 1;
	uint64_t target;
	uint32_t asked;

	for (;;) {
		asked = PERFRING_LOAD_ACQUIRE(&pollable->asked);
		if (PERFRING_LOAD_ACQUIRE(&pollable->ends))
			break;
		target = PERFRING_LOAD_ACQUIRE(&pollable->target);
		if (!target) {
			perfring_sleep(&pollable->asked, asked, INT64_C(60000000000));
		} else if (perfring_pollable_wait(pollable, target)) {
			/* A program that arms it at this very moment is woken early, and arms it again. */
			PERFRING_STORE_RELEASE(&pollable->target, 0);
			if (write(pollable->fd, &one, sizeof(one)) < 0)
				break; /* the program has closed it */
		}
	}
	PERFRING_STORE_RELEASE(&pollable->ended, 1);
	return NULL;
}

/* A descriptor for a consumer, which must outlive it. It is not armed yet. */
static inline int perfring_pollable_open(struct perfring_pollable *pollable, struct perfring_consumer *consumer)
{
	struct perfring *ring = &consumer->at.ring;
	sigset_t all, before;

	memset(pollable, 0, sizeof(*pollable));
	pollable->consumer = consumer;
	pollable->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pollable->fd < 0)
		return perfring_io(ring, "making a descriptor to poll");
	/* This thread handles none of the program's signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&pollable->thread, NULL, perfring_pollable_main, pollable);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (errno == 0)
		return PERFRING_OK;
	perfring_io(ring, "starting a thread that polls");
	close(pollable->fd);
	pollable->fd = -1;
	return PERFRING_E_IO;
}

static inline void perfring_pollable_ask(struct perfring_pollable *pollable)
{
	__atomic_fetch_add(&pollable->asked, 1, __ATOMIC_RELEASE);
	perfring_wake(&pollable->asked);
}

/* Releases what was read. 1 if there may be more to read: then read on. 0: the descriptor becomes readable
 * at the next record, or within a second after a loss. PERFRING_E_UNLINKED once all of a removed ring has been read. */
static inline int perfring_pollable_arm(struct perfring_pollable *pollable)
{
	struct perfring_consumer *consumer = pollable->consumer;
	uint64_t target = consumer->at.cursor + 8, count;

	if (perfring_is_forked(&consumer->at.ring))
		return PERFRING_E_FORKED;
	perfring_release(consumer);
	while (read(pollable->fd, &count, sizeof(count)) > 0)
		;
	PERFRING_STORE(&pollable->writes, perfring_counter_writes(&consumer->at.ring));
	PERFRING_FENCE_ACQUIRE(); /* a loss that is counted after that is found by the thread */
	if (PERFRING_LOAD_ACQUIRE(&consumer->at.ring.header->data_head) >= target ||
	    perfring_has_lost(&consumer->at))
		return 1;
	if (PERFRING_LOAD(&consumer->at.ring.removed))
		return perfring_unlinked(&consumer->at.ring);
	PERFRING_STORE_RELEASE(&pollable->target, target);
	perfring_pollable_ask(pollable);
	return 0;
}

/* Ends the thread, and closes the descriptor. In a forked child, which has no such thread, that alone. */
static inline void perfring_pollable_close(struct perfring_pollable *pollable)
{
	struct perfring *ring = &pollable->consumer->at.ring;
	const struct timespec nap = { 0, 1000000 };

	if (!perfring_is_forked(ring)) {
		PERFRING_STORE_RELEASE(&pollable->ends, 1);
		perfring_pollable_ask(pollable);
		/* It may be about to sleep on the ring's word, which only producers change. */
		while (!PERFRING_LOAD_ACQUIRE(&pollable->ended)) {
			perfring_wake(&ring->header->wait_seq);
			nanosleep(&nap, NULL);
		}
		pthread_join(pollable->thread, NULL);
	}
	close(pollable->fd);
	pollable->fd = -1;
}

#endif /* PERFRING_POLL_H */
