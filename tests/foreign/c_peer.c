/* The other end of a ring. Uses only proto/perfring_poll.h and proto/perfring_types.h.
 *
 * c_peer items RING          what an observer finds, a line for each item
 * c_peer unread RING         the same for the consumer, which leaves it read
 * c_peer try                 opens what the lines of its input name, in their role, and uses it
 * c_peer write COUNT RING    publishes numbered records, waiting for space; 0: until it is killed
 * c_peer offer COUNT RING    the same without waiting, so that a full ring refuses
 * c_peer read COUNT RING     reads until so many records have come or were lost
 * c_peer poll COUNT RING     the same as `read`, waiting in epoll for the ring's descriptor
 * c_peer observe COUNT RING  the same, as an observer
 * c_peer outlive HOW RING    reads until the ring is removed: as `read`, `poll` or `observe` would
 * c_peer script RING         does what the lines of its input say
 * c_peer endure ROUNDS RING  reads a ring that another process damages meanwhile
 * c_peer kill SCENARIO RING  stops itself, does one thing, stops itself again
 * c_peer close RING          prints, for each step of closing a producer and a consumer, which seats are held
 *
 * A numbered record is as tests/src/lib.rs has it: the number, and bytes that follow from it. Anything
 * unexpected ends the program.
 */
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

static int unmap(void *at, size_t len);
static int check(int fd, struct stat *meta);
#define munmap unmap
#define fstat check
#include "perfring_types.h"
#include "perfring_poll.h"
#undef munmap
#undef fstat

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>

#define NUMBERED 7001
#define PATIENCE_MS 300000

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

static void number_payload(uint8_t *to, uint64_t number, uint64_t len)
{
	uint64_t at;

	for (at = 0; at < len; at++)
		to[at] = at < 8 ? (uint8_t)(number >> (8 * at)) : (uint8_t)(number * 31 + at);
}

static uint64_t number_of(const struct perfring_item *item)
{
	const uint8_t *bytes = (const uint8_t *)item->bytes;
	uint64_t number = 0, at;

	if (item->len < 8 || item->type != NUMBERED)
		fail("record", "it is no numbered one");
	for (at = 0; at < 8; at++)
		number |= (uint64_t)bytes[at] << (8 * at);
	for (at = 8; at < item->len; at++)
		if (bytes[at] != (uint8_t)(number * 31 + at))
			fail("record", "a torn or foreign payload");
	return number;
}

static void print_item(const struct perfring *ring, const struct perfring_item *item)
{
	const uint8_t *bytes = (const uint8_t *)item->bytes;
	uint64_t wall;
	uint32_t at;

	if (item->kind == PERFRING_ITEM_LOST) {
		printf("lost %" PRIu64 " %u %" PRIu64 " %" PRIu64 "\n", item->pos, item->cause,
		       item->lost.records, item->lost.bytes);
		return;
	}
	printf("record %" PRIu64 " %u ", item->pos, item->type);
	if (!ring->timed)
		printf("- - ");
	else if (perfring_wall(ring, item->pos, item->time, &wall))
		printf("%" PRIu64 " %" PRIu64 " ", item->time, wall);
	else
		printf("%" PRIu64 " - ", item->time);
	if (ring->sample_id)
		printf("%" PRIu32 " %" PRIu32 " ", item->pid, item->tid);
	else
		printf("- - ");
	for (at = 0; at < item->len; at++)
		printf("%02x", bytes[at]);
	printf("\n");
}

static void print_count(const char *name, struct perfring_count count)
{
	printf("%s %" PRIu64 " %" PRIu64 "\n", name, count.records, count.bytes);
}

/* The items, and the totals that an observer needs anyway. */
static void items(const char *path)
{
	uint64_t totals[PERFRING_PRODUCER_TOTALS_WORDS];
	struct perfring_observer observer;
	struct perfring_item item;
	int got;

	if (perfring_observer_open(&observer, path))
		fail("open", observer.ring.why);
	printf("from %" PRIu64 "\n", observer.cursor);
	print_count("before", observer.passed);
	while ((got = perfring_observe(&observer, &item)) > 0)
		print_item(&observer.ring, &item);
	if (got < 0)
		fail("observe", observer.ring.why);
	printf("to %" PRIu64 "\n", observer.cursor);
	print_count("lapped", observer.lapped);
	if (perfring_newest_totals(&observer.ring, totals))
		fail("book", observer.ring.why);
	print_count("written", perfring_count_at(totals, PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS));
	print_count("discarded", perfring_count_at(totals, PERFRING_PRODUCER_TOTALS_DISCARDED_RECORDS));
	print_count("reclaimed", perfring_count_at(totals, PERFRING_PRODUCER_TOTALS_RECLAIMED_RECORDS));
	print_count("reported_full", perfring_count_at(totals, PERFRING_PRODUCER_TOTALS_REPORTED_FULL_RECORDS));
	print_count("reported_too_large", perfring_count_at(totals, PERFRING_PRODUCER_TOTALS_REPORTED_TOO_LARGE_RECORDS));
	perfring_observer_close(&observer);
}

static void unread(const char *path)
{
	struct perfring_consumer consumer;
	struct perfring_item item;
	int got;

	if (perfring_consumer_attach(&consumer, path, "c_peer"))
		fail("attach", consumer.at.ring.why);
	while ((got = perfring_read(&consumer, &item)) > 0)
		print_item(&consumer.at.ring, &item);
	if (got < 0)
		fail("read", consumer.at.ring.why);
	perfring_consumer_detach(&consumer);
}

/* Publishes, discards and is refused where possible. */
static int try_publish(struct perfring_producer *producer)
{
	static uint8_t bytes[65536];
	uint64_t lens[] = { 0, 1, 100, producer->max_len / 3, producer->max_len, producer->max_len + 1, 8 };
	void *payload;
	unsigned at;

	for (at = 0; at < sizeof(lens) / sizeof(lens[0]); at++) {
		perfring_publish(producer, NUMBERED, bytes, lens[at]);
		if (!perfring_reserve(producer, NUMBERED, 60, &payload)) {
			memset(payload, 'y', 60);
			perfring_discard(producer);
		}
		if (!perfring_reserve(producer, NUMBERED, 61, &payload))
			perfring_commit(producer, at);
	}
	perfring_wait_for_space(producer, 100, 0);
	return PERFRING_OK;
}

/* `ROLE PATH`: opens the ring, and does everything that the role can do. Prints the code, the number of
 * records and losses, the sum of all their bytes, and the sentence. */
static void try_all(void)
{
	struct perfring_producer producer;
	struct perfring_consumer consumer;
	struct perfring_observer *at = &consumer.at;
	char line[4096], *path;
	struct perfring_item item;
	uint64_t most, found, sum;
	uint32_t byte;
	int got;

	while (fgets(line, sizeof(line), stdin)) {
		const char *why = at->ring.why;

		line[strcspn(line, "\n")] = 0;
		path = strchr(line, ' ');
		if (!path)
			break;
		path++;
		found = sum = 0;
		if (line[0] == 'p') {
			why = producer.ring.why;
			got = perfring_producer_attach(&producer, path, "c_peer");
			if (!got) {
				got = try_publish(&producer);
				perfring_producer_detach(&producer);
			}
		} else {
			got = line[0] == 'c' ? perfring_consumer_attach(&consumer, path, "c_peer")
					     : perfring_observer_open(at, path);
			most = got ? 0 : at->ring.data_size / 8 + 16;
			while (!got) {
				got = line[0] == 'c' ? perfring_read(&consumer, &item) : perfring_observe(at, &item);
				if (got <= 0)
					break;
				if (++found > most)
					fail("read", "more items than a ring can hold");
				for (byte = 0; item.kind == PERFRING_ITEM_RECORD && byte < item.len; byte++)
					sum += ((const uint8_t *)item.bytes)[byte];
				got = 0;
			}
			if (most && line[0] == 'c') {
				perfring_wait(&consumer, 0);
				perfring_consumer_detach(&consumer);
			} else if (most) {
				perfring_observer_close(at);
			}
		}
		printf("%d %" PRIu64 " %" PRIu64 " %s\n", got, found, sum, why);
		fflush(stdout);
	}
}

/* Reads a ring that another process damages meanwhile, every byte of it. Any outcome but a crash is right. */
static void endure(uint64_t rounds, const char *path)
{
	static struct perfring_consumer consumer;
	static struct perfring_observer observer;
	uint64_t items = 0, errors = 0, sum = 0;
	struct perfring_item item;
	uint32_t byte;
	int turn, got;

	while (rounds--) {
		got = rounds % 2 ? perfring_consumer_attach(&consumer, path, "c_peer")
				 : perfring_observer_open(&observer, path);
		if (got) {
			errors++;
			continue;
		}
		for (turn = 0; turn < 200; turn++) {
			got = rounds % 2 ? perfring_read(&consumer, &item) : perfring_observe(&observer, &item);
			errors += got < 0;
			items += got > 0;
			for (byte = 0; got > 0 && item.kind == PERFRING_ITEM_RECORD && byte < item.len; byte++)
				sum += ((const volatile uint8_t *)item.bytes)[byte];
		}
		perfring_observer_close(rounds % 2 ? &consumer.at : &observer);
	}
	printf("items %" PRIu64 " errors %" PRIu64 "%s\n", items, errors, sum ? "" : " of nothing");
}

static void publish(struct perfring_producer *producer, uint64_t number, uint64_t len, int waits)
{
	void *payload;
	int error;

	for (;;) {
		error = waits ? perfring_try_reserve(producer, NUMBERED, len, &payload)
			      : perfring_reserve(producer, NUMBERED, len, &payload);
		if (!error)
			break;
		if (error != PERFRING_E_FULL)
			fail("reserve", perfring_error(error));
		if (!waits)
			return;
		if (!perfring_wait_for_space(producer, len, PATIENCE_MS))
			fail("wait", "nobody read");
	}
	number_payload((uint8_t *)payload, number, len);
	perfring_commit(producer, len);
}

/* `asked`: begins when it gets a line. */
static void do_write(uint64_t count, const char *path, int waits, int asked)
{
	struct perfring_producer producer;
	uint64_t number;
	char line[8];

	if (perfring_producer_attach(&producer, path, "c_peer"))
		fail("attach", producer.ring.why);
	number = producer.totals[PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS];
	count = count ? number + count : UINT64_MAX;
	say("ready");
	if (asked && !fgets(line, sizeof(line), stdin))
		fail("write", "nobody asked");
	for (; number < count; number++) {
		publish(&producer, number, 8 + number * 7 % 90, waits);
		if (number % 1000 == 0 && !perfring_try_reserve(&producer, NUMBERED, 50, (void **)&path))
			perfring_discard(&producer);
	}
	/* The last one reports what was lost before it. */
	if (!waits)
		publish(&producer, number, 100, 1);
	printf("written %" PRIu64 " full %" PRIu64 "\n",
	       producer.totals[PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS],
	       producer.totals[PERFRING_PRODUCER_TOTALS_FULL_RECORDS]);
	perfring_producer_detach(&producer);
}

/* What a reader has read. */
struct tally {
	uint64_t next, read, lost;
};

static void take(struct tally *tally, const struct perfring_item *item)
{
	if (item->kind == PERFRING_ITEM_LOST) {
		tally->next += item->lost.records;
		tally->lost += item->lost.records;
		return;
	}
	if (number_of(item) != tally->next)
		fail("record", "not the one whose turn it is");
	tally->next++;
	tally->read++;
}

/* Waits in epoll. Now and then it polls by itself a while later, as a program with other work does, and arms
 * it once more. */
static int poll_for(struct perfring_pollable *pollable, int epoll)
{
	static unsigned turn;
	struct epoll_event event;
	int more = perfring_pollable_arm(pollable);

	if (more < 0)
		fail("arm", perfring_error(more));
	if (more || (++turn % 4 && usleep(turn % 97) == 0))
		return 1;
	return epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1;
}

static void do_read(uint64_t count, const char *path, char how)
{
	static struct perfring_consumer consumer;
	static struct perfring_pollable pollable;
	struct perfring_observer *at = &consumer.at;
	struct epoll_event event = { EPOLLIN, { NULL } };
	struct tally tally = { 0, 0, 0 };
	struct perfring_item item;
	int observes = how == 'o', epoll = -1;
	int got = observes ? perfring_observer_open(at, path)
			   : perfring_consumer_attach(&consumer, path, "c_peer");

	if (got)
		fail("attach", at->ring.why);
	tally.next = at->passed.records;
	if (how == 'p') {
		if (perfring_pollable_open(&pollable, &consumer))
			fail("poll", at->ring.why);
		epoll = epoll_create1(EPOLL_CLOEXEC);
		if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, pollable.fd, &event))
			fail("epoll", strerror(errno));
	}
	say("ready");
	while (tally.next < count) {
		got = observes ? perfring_observe(at, &item) : perfring_read(&consumer, &item);
		if (got < 0)
			fail("read", at->ring.why);
		/* A loss reported in the stream is not a missing number: the producer of `observe` loses none. */
		if (got > 0 && !(observes && item.kind == PERFRING_ITEM_LOST && item.cause != PERFRING_CAUSE_LAPPED))
			take(&tally, &item);
		else if (got == 0 && how == 'p' && !poll_for(&pollable, epoll))
			fail("poll", "nothing came");
		else if (got == 0 && how == 'r' && !perfring_wait(&consumer, PATIENCE_MS))
			fail("wait", "nothing came");
	}
	if (how == 'p') {
		/* Armed, and with nothing to come: it ends all the same. */
		if (perfring_pollable_arm(&pollable))
			fail("arm", "there is more than was asked for");
		close(epoll);
		perfring_pollable_close(&pollable);
	}
	printf("read %" PRIu64 " lost %" PRIu64 " lapped %" PRIu64 "\n", tally.read, tally.lost,
	       at->lapped.records);
	if (observes)
		perfring_observer_close(at);
	else
		perfring_consumer_detach(&consumer);
}

/* Whether `outlive` has read a record. */
static int reads;

static int check(int fd, struct stat *meta)
{
	if (PERFRING_LOAD(&reads))
		say("checked");
	return fstat(fd, meta);
}

/* Prints when it has the first record, each check for the ring's file after that, and at the end how many records
 * there were and what the last call returned. */
static void outlive(char how, const char *path)
{
	static struct perfring_consumer consumer;
	static struct perfring_pollable pollable;
	struct perfring_observer *at = &consumer.at;
	struct pollfd ready;
	struct perfring_item item;
	uint64_t found = 0;
	int got = how == 'o' ? perfring_observer_open(at, path) : perfring_consumer_attach(&consumer, path, "c_peer");

	if (got || (how == 'p' && perfring_pollable_open(&pollable, &consumer)))
		fail("attach", at->ring.why);
	ready.fd = pollable.fd;
	ready.events = POLLIN;
	say("ready");
	for (;;) {
		while ((got = how == 'o' ? perfring_observe(at, &item) : perfring_read(&consumer, &item)) > 0)
			if (item.kind == PERFRING_ITEM_RECORD && ++found == 1) {
				say("reads");
				PERFRING_STORE(&reads, 1);
			}
		if (got == 0 && how == 'p')
			got = perfring_pollable_arm(&pollable);
		if (got < 0)
			break;
		if (how == 'o')
			usleep(1000);
		else if (how == 'r' && perfring_wait(&consumer, PATIENCE_MS) <= 0)
			fail("wait", "nothing came");
		else if (how == 'p' && got == 0 && poll(&ready, 1, PATIENCE_MS) != 1)
			fail("poll", "nothing came");
	}
	printf("%" PRIu64 " %d %s\n", found, got, at->ring.why);
	if (how == 'p')
		perfring_pollable_close(&pollable);
	if (how == 'o')
		perfring_observer_close(at);
	else
		perfring_consumer_detach(&consumer);
}

/* `publish LEN`, `commit LEN KEPT`, `discard LEN`, `read COUNT`, `detach` (attaches anew): one line of
 * answer for each. */
static void script(const char *path)
{
	struct perfring_producer producer;
	struct perfring_consumer consumer;
	struct perfring_item item;
	uint64_t number = 0, len, kept;
	unsigned long long first, second;
	char line[128], word[16];
	void *payload;
	int error, fields;

	if (perfring_producer_attach(&producer, path, "script"))
		fail("attach", producer.ring.why);
	if (perfring_consumer_attach(&consumer, path, "script"))
		fail("attach", consumer.at.ring.why);
	while (fgets(line, sizeof(line), stdin)) {
		first = second = 0;
		fields = sscanf(line, "%15s %llu %llu", word, &first, &second);
		len = first;
		kept = fields == 3 ? second : len;
		error = 0;
		if (fields < 1)
			break;
		if (!strcmp(word, "read")) {
			while (len-- && (error = perfring_read(&consumer, &item)) > 0)
				error = 0;
			perfring_release(&consumer);
		} else if (!strcmp(word, "detach")) {
			perfring_producer_detach(&producer);
			error = perfring_producer_attach(&producer, path, "script");
		} else if (!(error = perfring_reserve(&producer, NUMBERED, len, &payload))) {
			number_payload((uint8_t *)payload, number, len);
			error = strcmp(word, "discard") ? perfring_commit(&producer, kept)
							: perfring_discard(&producer);
		}
		number++;
		printf("%d\n", error);
		fflush(stdout);
	}
	perfring_producer_detach(&producer);
	perfring_consumer_detach(&consumer);
}

/* OTHER_TYPE of tests/src/lib.rs. */
struct other {
	uint64_t number;
};
static const struct perfring_field other_fields[] = { PERFRING_FIELD(struct other, number, "u64") };
static const struct perfring_schema other_type = PERFRING_POD("tests.Other", struct other, other_fields);

/* One thing between two stops. The numbers published go on after those in the ring. */
static void die_in(const char *scenario, const char *path)
{
	static struct perfring_producer producer;
	static struct perfring_consumer consumer;
	static struct perfring_entry entry;
	struct perfring_item item;
	static uint8_t bytes[100];
	void *payload;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		fail("ptrace", strerror(errno));
	if (!strcmp(scenario, "attach")) {
		raise(SIGSTOP);
		if (perfring_producer_attach(&producer, path, "c_peer"))
			fail("attach", producer.ring.why);
		raise(SIGSTOP);
		exit(0);
	}
	if (!strcmp(scenario, "consume") || !strcmp(scenario, "hand out")) {
		if (perfring_consumer_attach(&consumer, path, "c_peer"))
			fail("attach", consumer.at.ring.why);
		raise(SIGSTOP);
		while (perfring_read(&consumer, &item) > 0 && item.kind == PERFRING_ITEM_RECORD)
			number_of(&item);
		if (!strcmp(scenario, "consume"))
			perfring_release(&consumer);
		raise(SIGSTOP);
		exit(0);
	}
	if (perfring_producer_attach(&producer, path, "c_peer"))
		fail("attach", producer.ring.why);
	if (!strcmp(scenario, "register")) {
		/* As perfring_register_type does; the steps before this change nothing. */
		if (perfring_make_entry(&entry, &other_type) || perfring_lock_table(&producer.ring))
			fail("register", producer.ring.why);
		raise(SIGSTOP);
		perfring_append_type(&producer.ring, &entry);
		perfring_unlock_byte(&producer.ring, producer.ring.shape.types_offset);
		raise(SIGSTOP);
		exit(0);
	}
	/* Made before the first stop: only the ring's own steps count. */
	number_payload(bytes, producer.totals[PERFRING_PRODUCER_TOTALS_WRITTEN_RECORDS], sizeof(bytes));
	if (!strcmp(scenario, "refused again")) {
		scenario = "publish";
		for (int refused = 0; refused < 3; refused++) {
			perfring_publish(&producer, NUMBERED, bytes, sizeof(bytes));
		}
	}
	raise(SIGSTOP);
	if (!strcmp(scenario, "publish")) {
		perfring_publish(&producer, NUMBERED, bytes, sizeof(bytes));
	} else if (!strcmp(scenario, "reserve")) {
		if (!perfring_reserve(&producer, NUMBERED, 200, &payload)) {
			memcpy(payload, bytes, sizeof(bytes));
			perfring_commit(&producer, sizeof(bytes));
		}
	} else if (!strcmp(scenario, "discard")) {
		if (!perfring_reserve(&producer, NUMBERED, sizeof(bytes), &payload)) {
			memcpy(payload, bytes, sizeof(bytes));
			perfring_discard(&producer);
		}
	} else if (!strcmp(scenario, "detach")) {
		perfring_producer_detach(&producer);
	} else {
		fail("kill", "unknown scenario");
	}
	raise(SIGSTOP);
	exit(0);
}

/* A child of fork has nothing of its parent's ring, and the parent's death is seen although it lives. */
static void fork_with_ring(const char *path)
{
	struct perfring_producer producer;
	char line[16];
	int error;
	pid_t child;

	if (perfring_producer_attach(&producer, path, "c_peer"))
		fail("attach", producer.ring.why);
	child = fork();
	if (child == 0) {
		error = perfring_publish(&producer, NUMBERED, "12345678", 8);
		printf("child %d %d\n", error, perfring_wait_for_space(&producer, 8, 0));
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			exit(0);
		exit(0);
	}
	printf("parent %d\n", perfring_publish(&producer, NUMBERED, "12345678", 8));
	fflush(stdout);
	raise(SIGKILL);
}

static void *fork_on(void *unused)
{
	char byte;
	int children;

	(void)unused;
	for (children = 0; children < 500; children++)
		if (fork() == 0) {
			while (read(0, &byte, 1) > 0)
				;
			_exit(0);
		}
	return NULL;
}

/* Attaches to the rings 0 to count of a directory while another thread forks children that live on. */
static void storm(uint64_t count, const char *dir)
{
	static struct perfring_producer producers[64];
	static struct perfring_consumer consumers[64];
	char path[512];
	pthread_t thread;
	uint64_t at;

	if (pthread_create(&thread, NULL, fork_on, NULL))
		fail("pthread_create", "no thread");
	for (at = 0; at < count && at < 64; at++) {
		snprintf(path, sizeof(path), "%s/%llu", dir, (unsigned long long)at);
		if (perfring_producer_attach(&producers[at], path, "c_peer"))
			fail("attach", producers[at].ring.why);
		if (perfring_consumer_attach(&consumers[at], path, "c_peer"))
			fail("attach", consumers[at].at.ring.why);
	}
	printf("%llu\n", (unsigned long long)(2 * count));
	fflush(stdout);
	/* The children that are forked until then live on. */
	raise(SIGKILL);
}

/* The file whose seats are examined before anything is unmapped. */
static struct perfring looked_at;

static int unmap(void *at, size_t len)
{
	if (looked_at.base)
		printf("%d %d\n", perfring_is_held(&looked_at, looked_at.shape.control_offset),
		       perfring_is_held(&looked_at, PERFRING_CONSUMER_LOCK_BYTE));
	return munmap(at, len);
}

/* A child that another thread forks at that moment inherits what is not unmapped yet. */
static void close_both(const char *path)
{
	struct perfring_producer producer;
	struct perfring_consumer consumer;
	struct perfring_observer observer;

	if (perfring_producer_attach(&producer, path, "c_peer"))
		fail("attach", producer.ring.why);
	if (perfring_consumer_attach(&consumer, path, "c_peer"))
		fail("attach", consumer.at.ring.why);
	if (perfring_observer_open(&observer, path))
		fail("open", observer.ring.why);
	looked_at = observer.ring;
	say("closing");
	perfring_consumer_detach(&consumer);
	perfring_producer_detach(&producer);
	say("closed");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *ring = argc > 2 ? argv[argc - 1] : "";
	uint64_t count = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;

	if (!strcmp(what, "items") && argc == 3)
		items(ring);
	else if (!strcmp(what, "unread") && argc == 3)
		unread(ring);
	else if (!strcmp(what, "script") && argc == 3)
		script(ring);
	else if (!strcmp(what, "fork") && argc == 3)
		fork_with_ring(ring);
	else if (!strcmp(what, "close") && argc == 3)
		close_both(ring);
	else if (!strcmp(what, "storm") && argc == 4)
		storm(count, ring);
	else if (!strcmp(what, "endure") && argc == 4)
		endure(count, ring);
	else if (!strcmp(what, "try"))
		try_all();
	else if (!strcmp(what, "outlive") && argc == 4)
		outlive(argv[2][0], ring);
	else if (!strcmp(what, "kill") && argc == 4)
		die_in(argv[2], ring);
	else if ((!strcmp(what, "write") || !strcmp(what, "offer")) && argc == 4)
		do_write(count, ring, what[0] == 'w', 0);
	else if (!strcmp(what, "asked") && argc == 4)
		do_write(count, ring, 1, 1);
	else if ((!strcmp(what, "read") || !strcmp(what, "poll") || !strcmp(what, "observe")) && argc == 4)
		do_read(count, ring, what[0]);
	else
		return 2;
	return 0;
}
