/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A flight recorder in C: a ring that always holds the newest events, each with its time. The events are in the
 * file, so they are there after a crash, too.
 *
 *     cc -std=c11 -O2 -I.. flight_recorder.c -o flight_recorder
 *     ./flight_recorder /dev/shm/flight 100000
 *     perfring tail /dev/shm/flight
 *
 * With the rings of other programs, in any language, `perfring tail` shows all events in the order of time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "perfring_create.h"
#include "perfring_producer.h"

int main(int argc, char **argv)
{
	struct perfring_options options = PERFRING_OPTIONS;
	struct perfring_producer producer;
	unsigned long event, events = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	char why[512], line[64];
	int error, len;

	if (events == 0) {
		fprintf(stderr, "usage: flight_recorder RING EVENTS\n");
		return 2;
	}
	options.size = 1 << 16;
	options.policy = PERFRING_POLICY_OVERWRITE; /* a full ring forgets its oldest records */
	options.time = 1;
	error = perfring_create(argv[1], &options, why, sizeof(why));
	/* A ring that is there already has what the last flight recorded: this one continues. */
	if (error && error != PERFRING_E_EXISTS) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	if (perfring_producer_attach(&producer, argv[1], "flight_recorder") < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], producer.ring.why);
		return 1;
	}
	error = 0;
	for (event = 1; !error && event <= events; event++) {
		len = snprintf(line, sizeof(line), "event %lu", event);
		error = perfring_publish(&producer, PERFRING_TYPE_BYTES, line, (uint64_t)len);
	}
	if (error)
		fprintf(stderr, "%s: %s\n", argv[1], perfring_error(error));
	perfring_producer_detach(&producer);
	return error != 0;
}
