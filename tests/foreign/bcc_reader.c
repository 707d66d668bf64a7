/* A reader that none of us wrote: libbcc's perf_reader, which believes to read a kernel ring.
 *
 * bcc_reader RING PAGES RECORDS: reads RING (PAGES data pages, a power of two) until the record
 * numbered RECORDS - 1 has come, then prints what it counted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From libbcc.so.0 (Debian's libbpfcc); its header is in a package that this needs not. */
struct perf_reader;
typedef void (*raw_cb)(void *cookie, void *raw, int size);
typedef void (*lost_cb)(void *cookie, uint64_t lost);
struct perf_reader *perf_reader_new(raw_cb raw, lost_cb lost, void *cookie, int pages);
void perf_reader_set_fd(struct perf_reader *reader, int fd);
int perf_reader_mmap(struct perf_reader *reader);
void perf_reader_event_read(struct perf_reader *reader);

static uint64_t next, records, lost_told, gaps, torn, markers;

static void on_raw(void *cookie, void *raw, int size)
{
	uint64_t number;
	const unsigned char *bytes = raw;
	int at;

	(void)cookie;
	memcpy(&number, raw, sizeof(number));
	if (number != next)
		gaps++;
	for (at = 8; at < size; at++)
		torn += bytes[at] != (unsigned char)(number * 31 + (uint64_t)at);
	next = number + 1;
	records++;
}

/* A loss tells how many numbers are missing before the next record. */
static void on_lost(void *cookie, uint64_t lost)
{
	(void)cookie;
	next += lost;
	lost_told += lost;
	markers++;
}

int main(int argc, char **argv)
{
	uint64_t last;
	int fd, error;
	struct perf_reader *reader;

	if (argc != 4)
		return 2;
	last = strtoull(argv[3], NULL, 10);
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	reader = perf_reader_new(on_raw, on_lost, NULL, atoi(argv[2]));
	if (fd < 0 || !reader)
		return 1;
	perf_reader_set_fd(reader, fd);
	error = perf_reader_mmap(reader);
	if (error) {
		fprintf(stderr, "perf_reader_mmap: %d\n", error);
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	while (next < last)
		perf_reader_event_read(reader);
	printf("records %" PRIu64 " lost %" PRIu64 " markers %" PRIu64 " gaps %" PRIu64
	       " torn %" PRIu64 "\n", records, lost_told, markers, gaps, torn);
	return 0;
}
