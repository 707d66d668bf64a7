/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A typed producer in C: publishes orders that every reader shows by field names.
 *
 *     perfring create /dev/shm/orders
 *     cc -std=c11 -O2 -I.. typed_producer.c -o typed_producer
 *     ./typed_producer /dev/shm/orders
 *     perfring dump /dev/shm/orders
 *
 *     demo.Order id=1 age=0.5 s side=buy venue=XETRA prices=[12.5 12.25]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "perfring_types.h"

enum side { BUY, SELL };

struct order {
	uint64_t id;
	double age;
	double prices[2];
	char venue[7];
	uint8_t side;
};

static const struct perfring_shape u8 = PERFRING_PLAIN("u8", 1);
static const struct perfring_shape f64 = PERFRING_PLAIN("f64", 8);
static const struct perfring_label sides[] = { { BUY, "buy" }, { SELL, "sell" } };
static const struct perfring_field fields[] = {
	PERFRING_FIELD(struct order, id, "u64"),
	PERFRING_FIELD_UNIT(struct order, age, "f64", "s", "since the order was placed"),
	PERFRING_MEMBER(struct order, side, PERFRING_ENUM(&u8, sides)),
	PERFRING_FIELD(struct order, venue, "text"),
	PERFRING_MEMBER(struct order, prices, PERFRING_ARRAY(&f64, 2)),
};
static const struct perfring_schema schema = PERFRING_POD("demo.Order", struct order, fields);

int main(int argc, char **argv)
{
	const struct order orders[] = {
		{ 1, 0.5, { 12.5, 12.25 }, "XETRA", BUY },
		{ 2, 0.25, { 99.0, 98.5 }, "Bourse", SELL },
	};
	struct perfring_producer producer;
	size_t at;
	int error;

	if (argc != 2) {
		fprintf(stderr, "usage: typed_producer RING\n");
		return 2;
	}
	if (perfring_producer_attach(&producer, argv[1], "typed_producer") < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], producer.ring.why);
		return 1;
	}
	/* Once after each attach: from now on the ring itself says what an order is. */
	error = perfring_register_type(&producer, &schema);
	if (error)
		fprintf(stderr, "%s: %s\n", argv[1], producer.ring.why);
	for (at = 0; !error && at < sizeof(orders) / sizeof(orders[0]); at++) {
		error = perfring_publish(&producer, perfring_schema_id(&schema), &orders[at], sizeof(orders[at]));
		if (error)
			fprintf(stderr, "order %d: %s\n", (int)orders[at].id, perfring_error(error));
	}
	perfring_producer_detach(&producer);
	return error != 0;
}
