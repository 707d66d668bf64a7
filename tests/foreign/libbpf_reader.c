/* A reader that none of us wrote: bpf_perf_event_read_simple of libbpf 0.8, which believes to read a
 * kernel ring. `read_simple.inc` is that function, cut by the test from libbpf.c as it stands there; the
 * barriers and declarations that it needs are from libbpf's own headers.
 *
 * libbpf_reader RING PAGES RECORDS: reads RING (PAGES data pages, a power of two) until the record
 * numbered RECORDS - 1 has come, then prints what it counted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "libbpf_internal.h"
#include <linux/ring_buffer.h>

#include "read_simple.inc"

static uint64_t next, records, lost_told, gaps, torn, markers;

static enum bpf_perf_event_ret on_event(struct perf_event_header *header, void *data)
{
	const unsigned char *bytes = (const unsigned char *)header + 12;
	uint64_t number, lost;
	uint32_t size, at;

	(void)data;
	if (header->type == PERF_RECORD_LOST) {
		/* A loss tells how many numbers are missing before the next record. */
		memcpy(&lost, (const char *)header + 16, sizeof(lost));
		next += lost;
		lost_told += lost;
		markers++;
	} else if (header->type == PERF_RECORD_SAMPLE) {
		memcpy(&size, (const char *)header + 8, sizeof(size));
		memcpy(&number, bytes, sizeof(number));
		gaps += number != next;
		torn += size + 12 != header->size;
		for (at = 8; at < size; at++)
			torn += bytes[at] != (unsigned char)(number * 31 + at);
		next = number + 1;
		records++;
	}
	return LIBBPF_PERF_EVENT_CONT;
}

int main(int argc, char **argv)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size, copied = 0;
	void *ring, *copy = NULL;
	uint64_t last;
	int fd;

	if (argc != 4)
		return 2;
	size = page * strtoull(argv[2], NULL, 10);
	last = strtoull(argv[3], NULL, 10);
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	ring = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return 1;
	printf("ready\n");
	fflush(stdout);
	while (next < last)
		bpf_perf_event_read_simple(ring, size, page, &copy, &copied, on_event, NULL);
	printf("records %" PRIu64 " lost %" PRIu64 " markers %" PRIu64 " gaps %" PRIu64
	       " torn %" PRIu64 "\n", records, lost_told, markers, gaps, torn);
	return 0;
}
