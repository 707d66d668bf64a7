/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_check.h: the errors of the C headers, and what a reader checks before it maps a file. No system
 * call, no allocation.
 */
#ifndef PERFRING_CHECK_H
#define PERFRING_CHECK_H

#include "perfring.h"

#include <stdio.h>
#include <string.h>

#define PERFRING_OK 0
#define PERFRING_E_IO -1
#define PERFRING_E_NOT_A_RING -2
#define PERFRING_E_ENDIAN -3
#define PERFRING_E_NEWER -4
#define PERFRING_E_FEATURES -5
#define PERFRING_E_DAMAGED -6
#define PERFRING_E_TRUNCATED -7
#define PERFRING_E_PAGE_SIZE -8
#define PERFRING_E_KIND -9
#define PERFRING_E_BUSY -10
#define PERFRING_E_REMOVED -11
#define PERFRING_E_CORRUPT -12
#define PERFRING_E_FULL -13
#define PERFRING_E_TOO_LARGE -14
#define PERFRING_E_TYPE -15
#define PERFRING_E_FORKED -16
#define PERFRING_E_MISUSE -17
#define PERFRING_E_UNLINKED -18
#define PERFRING_E_SCHEMA -19
#define PERFRING_E_NO_TABLE -20
#define PERFRING_E_TABLE_FULL -21
#define PERFRING_E_TAKEN -22
#define PERFRING_E_TABLE_BUSY -23
#define PERFRING_E_READ_LOCKED -24
#define PERFRING_E_REPLACED -25
#define PERFRING_E_CLOCK -26
#define PERFRING_E_EXISTS -27
#define PERFRING_E_OPTIONS -28
#define PERFRING_E_NO_SPACE -29
#define PERFRING_E_FILE_SIZE -30

/* Features that this code reads. Not PERFRING_FEATURES_REQUIRED_KNOWN: this code refuses a feature that is
 * new in the layout until it implements it. */
#define PERFRING_C_FEATURES (PERFRING_FEATURE_TIME | PERFRING_FEATURE_CPU | PERFRING_FEATURE_SAMPLE_ID)

static inline const char *perfring_error(int code)
{
	switch (code) {
	case PERFRING_OK: return "nothing is wrong";
	case PERFRING_E_IO: return "the system refused: see errno, or the handle's sentence";
	case PERFRING_E_NOT_A_RING: return "not a perfring file: give the path of a ring";
	case PERFRING_E_ENDIAN: return "the ring was made on a machine of the other byte order: read it on such a machine";
	case PERFRING_E_NEWER: return "the ring has a newer layout: update perfring";
	case PERFRING_E_FEATURES: return "the ring needs features that this code does not know: update perfring, or make the ring without them";
	case PERFRING_E_DAMAGED: return "the ring's header is damaged: make the ring again";
	case PERFRING_E_TRUNCATED: return "the ring file is truncated: copy it again; if it is no copy, remove it and create it again";
	case PERFRING_E_PAGE_SIZE: return "the ring's pages are smaller than this machine's: copy its records with an observer";
	case PERFRING_E_KIND: return "this code publishes only into rings with one producer";
	case PERFRING_E_BUSY: return "another process owns the seat: wait until it detaches";
	case PERFRING_E_REMOVED: return "the ring was removed while this process attached: create it again";
	case PERFRING_E_CORRUPT: return "the ring holds what no producer writes: read what is left with perfring dump";
	case PERFRING_E_FULL: return "the ring is full: the loss is counted; read faster or make the ring larger";
	case PERFRING_E_TOO_LARGE: return "the record is longer than the ring takes: the loss is counted";
	case PERFRING_E_TYPE: return "the record type is the kernel's or perfring's: use another number";
	case PERFRING_E_FORKED: return "the handle is the parent's: attach again after fork";
	case PERFRING_E_MISUSE: return "a reservation is open already, or none is: end one before the next";
	case PERFRING_E_UNLINKED: return "the ring's file was removed or replaced, and all that it held has been read: attach to the new one";
	case PERFRING_E_SCHEMA: return "the schema cannot be written into a type table: see the handle's sentence";
	case PERFRING_E_NO_TABLE: return "this ring has no type table: make it with types_size above 0 (`perfring create --types-size`)";
	case PERFRING_E_TABLE_FULL: return "the type table is full: make the ring with a larger one (`perfring create --types-size`)";
	case PERFRING_E_TAKEN: return "the record type is taken in this ring by another type: give one of them another id, or raise its version";
	case PERFRING_E_READ_LOCKED: return "the ring has a read lock on it, which prevents every attach: `perfring doctor` names the process that has it; end that process, and let only the ring's readers open it";
	case PERFRING_E_REPLACED: return "another producer has attached to this ring beside this one, which stops: the file is opened through two paths, of an overlay, or on a file system whose locks do not reach the other; `perfring doctor` says";
	case PERFRING_E_CLOCK: return "the ring has timestamps, and this process cannot take them: see the sentence that comes with this";
	case PERFRING_E_EXISTS: return "the ring exists already: remove it first, or attach to it";
	case PERFRING_E_OPTIONS: return "a ring cannot have these options: see the sentence that comes with this";
	case PERFRING_E_NO_SPACE: return "the file system has no room for the ring: free some (for /dev/shm in a container: raise its size)";
	case PERFRING_E_FILE_SIZE: return "the ring is larger than a file can be here: raise that limit (`ulimit -f`), or make a smaller ring";
	case PERFRING_E_TABLE_BUSY: return "another process holds the type table's lock and does not release it: try again";
	}
	return "unknown error";
}

/* Whether an application may publish this type. */
static inline int perfring_type_is_free(uint32_t type)
{
	return type == PERFRING_TYPE_SAMPLE || (type >= 64 && type >> 16 != PERFRING_TYPE_NOP >> 16);
}

static inline int perfring_bad_field(char *why, size_t len, const char *name, uint64_t value)
{
	snprintf(why, len, "the ring's header is damaged: %s is %llu", name, (unsigned long long)value);
	return PERFRING_E_DAMAGED;
}

static inline int perfring_is_power(uint64_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

/* "What a reader checks" of ABI.md, in its order. */
static inline int perfring_check(const struct perfring_header *page, uint64_t file_len, char *why,
				 size_t len)
{
	uint64_t magic, unknown, control, slots, types;
	int per_cpu;

	memcpy(&magic, PERFRING_MAGIC_BYTES, sizeof(magic));
	if (page->magic != magic && page->magic != __builtin_bswap64(magic)) {
		snprintf(why, len, "not a perfring file: its magic is 0x%016llx",
			 (unsigned long long)page->magic);
		return PERFRING_E_NOT_A_RING;
	}
	if (page->magic != magic || page->endian != PERFRING_ENDIAN_MARK) {
		snprintf(why, len, "%s", perfring_error(PERFRING_E_ENDIAN));
		return PERFRING_E_ENDIAN;
	}
	if (page->abi_compat > PERFRING_ABI_VERSION) {
		snprintf(why, len, "the ring has layout version %u, which needs a reader of version %u or later, and this is version %u: update perfring",
			 page->abi_version, page->abi_compat, PERFRING_ABI_VERSION);
		return PERFRING_E_NEWER;
	}
	unknown = page->features_required & ~(uint64_t)PERFRING_C_FEATURES;
	if (unknown) {
		snprintf(why, len, "the ring needs features that this code does not know (bits %#llx): update perfring, or make the ring without them",
			 (unsigned long long)unknown);
		return PERFRING_E_FEATURES;
	}
#define PERFRING_MUST(field, holds) \
	if (!(holds)) \
		return perfring_bad_field(why, len, #field, page->field)
	PERFRING_MUST(abi_version, page->abi_version != 0 && page->abi_compat <= page->abi_version);
	PERFRING_MUST(page_size, perfring_is_power(page->page_size) && page->page_size >= 4096 &&
					 page->page_size <= 1u << 20);
	PERFRING_MUST(data_size, perfring_is_power(page->data_size) &&
					 page->data_size <= PERFRING_DATA_SIZE_MAX &&
					 page->data_size >= PERFRING_DATA_SIZE_MIN &&
					 page->data_size >= page->page_size);
	PERFRING_MUST(policy, page->policy <= PERFRING_POLICY_OVERWRITE);
	PERFRING_MUST(evict, page->evict <= PERFRING_EVICT_HALF);
	PERFRING_MUST(report, page->report <= PERFRING_REPORT_COUNTERS_ONLY);
	per_cpu = page->producers == PERFRING_PRODUCERS_CPU;
	PERFRING_MUST(producers, page->producers >= PERFRING_PRODUCERS_ONE &&
					 page->producers <= PERFRING_PRODUCERS_CPU &&
					 per_cpu == ((page->features_required & PERFRING_FEATURE_CPU) != 0));
	PERFRING_MUST(cpu_number, !per_cpu || page->cpu_number < PERFRING_CPUS_MAX);
	PERFRING_MUST(slot_count, page->slot_count >= 1 &&
					  page->slot_count <= (page->producers == PERFRING_PRODUCERS_ONE
								       ? 1u : PERFRING_SLOTS_MAX));
	PERFRING_MUST(slot_size, page->slot_size == PERFRING_SLOT_SIZE);
	PERFRING_MUST(types_size, page->types_size % page->page_size == 0 &&
					  page->types_size <= PERFRING_TYPES_SIZE_MAX);
	PERFRING_MUST(time_clock, page->time_clock == (page->features_required & PERFRING_FEATURE_TIME
							       ? (uint32_t)PERFRING_TIME_CLOCK : 0));
	PERFRING_MUST(features_required, !(page->features_required & PERFRING_FEATURE_SAMPLE_ID) ||
						 (per_cpu && (page->features_required & PERFRING_FEATURE_TIME)));
	/* An AUX area is a required feature, which was refused above. */
	PERFRING_MUST(aux_size, page->aux_size == 0);
	control = page->page_size + page->data_size;
	slots = (uint64_t)page->slot_count * PERFRING_SLOT_SIZE;
	slots = (slots + page->page_size - 1) & ~(uint64_t)(page->page_size - 1);
	types = page->types_size ? control + slots : 0;
	PERFRING_MUST(data_offset, page->data_offset == page->page_size);
	PERFRING_MUST(control_offset, page->control_offset == control);
	PERFRING_MUST(control_size, page->control_size == slots);
	PERFRING_MUST(types_offset, page->types_offset == types);
	PERFRING_MUST(aux_offset, page->aux_offset == 0);
	PERFRING_MUST(file_size, page->file_size == control + slots + page->types_size);
#undef PERFRING_MUST
	if (file_len < page->file_size) {
		snprintf(why, len, "the ring file is cut short: %llu bytes where its header says %llu: copy it again; if it is no copy, remove it and create it again",
			 (unsigned long long)file_len, (unsigned long long)page->file_size);
		return PERFRING_E_TRUNCATED;
	}
	return PERFRING_OK;
}

#endif /* PERFRING_CHECK_H */
