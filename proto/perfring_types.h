/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_types.h: registers record types from C11 or C++17, so that readers in any language show their
 * records by field names. See "Types" of ABI.md, and examples/typed_producer.c for a whole program.
 *
 *     struct tick {
 *             uint64_t id;
 *             double price;
 *     };
 *     static const struct perfring_field tick_fields[] = {
 *             PERFRING_FIELD(struct tick, id, "u64"),
 *             PERFRING_FIELD_UNIT(struct tick, price, "f64", "EUR", "the last price paid"),
 *     };
 *     static const struct perfring_schema tick_schema =
 *             PERFRING_POD("demo.Tick", struct tick, tick_fields);
 *
 *     if (perfring_register_type(&producer, &tick_schema) < 0)
 *             die(producer.ring.why);
 *     perfring_publish(&producer, perfring_schema_id(&tick_schema), &tick, sizeof(tick));
 *
 * The entry in the table is byte for byte the one that Rust writes for the same schema.
 */
#ifndef PERFRING_TYPES_H
#define PERFRING_TYPES_H

#include "perfring_producer.h"
#include "perfring_schema.h"

#include <stdlib.h>

/* Bytes of the longest entry that readers accept. */
#define PERFRING_ENTRY_MAX (1u << 20)
/* Attempts to take the table's lock, 0.1 ms apart. */
#define PERFRING_TABLE_TRIES 1000

/* An entry of the type table. `bytes` is NULL before the first use; free() it after the last. */
struct perfring_entry {
	char *bytes; /* struct perfring_type, JSON, zeros */
	size_t len;
	size_t room;
	char why[128]; /* not empty: the schema cannot be written, and why */
};

static inline void perfring_put(struct perfring_entry *entry, const void *bytes, size_t len)
{
	size_t room = entry->room ? entry->room : 1024;
	char *grown;

	while (room - entry->len < len)
		room *= 2;
	if (room != entry->room) {
		grown = (char *)realloc(entry->bytes, room);
		if (!grown) {
			snprintf(entry->why, sizeof(entry->why), "there is no memory for the entry");
			return;
		}
		entry->bytes = grown;
		entry->room = room;
	}
	memcpy(entry->bytes + entry->len, bytes, len);
	entry->len += len;
}

static inline void perfring_put_text(struct perfring_entry *entry, const char *text)
{
	perfring_put(entry, text, strlen(text));
}

/* Bytes of the UTF-8 character that begins here; 0 if none does. */
static inline size_t perfring_utf8_len(const uint8_t *at, const uint8_t *end)
{
	size_t len = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : *at < 0xf5 ? 4 : 0, next;

	if (len == 0 || (size_t)(end - at) < len)
		return 0;
	for (next = 1; next < len; next++)
		if ((at[next] & 0xc0) != 0x80)
			return 0;
	/* No overlong form, no surrogate, nothing beyond U+10FFFF. */
	if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] >= 0xa0) || (*at == 0xf0 && at[1] < 0x90) ||
	    (*at == 0xf4 && at[1] >= 0x90))
		return 0;
	return len;
}

static inline int perfring_is_utf8(const void *text, size_t len)
{
	const uint8_t *at = (const uint8_t *)text, *end = at + len;
	size_t step = 1;

	for (; at < end && step; at += step)
		step = perfring_utf8_len(at, end);
	return step != 0;
}

/* A JSON string (RFC 8259, section 7). */
static inline void perfring_put_quoted(struct perfring_entry *entry, const char *text)
{
	const char *at;
	char code[8];

	if (!perfring_is_utf8(text, strlen(text)))
		snprintf(entry->why, sizeof(entry->why), "a text of the schema is not UTF-8");
	perfring_put_text(entry, "\"");
	for (at = text; *at; at++) {
		if (*at == '"' || *at == '\\')
			snprintf(code, sizeof(code), "\\%c", *at);
		else if (*at == '\n' || *at == '\t')
			snprintf(code, sizeof(code), "\\%c", *at == '\n' ? 'n' : 't');
		else if ((unsigned char)*at < ' ')
			snprintf(code, sizeof(code), "\\u%04x", (unsigned)(unsigned char)*at);
		else
			code[0] = 0;
		perfring_put(entry, *code ? code : at, *code ? strlen(code) : 1);
	}
	perfring_put_text(entry, "\"");
}

/* The key of the next member: a comma before it unless it is the object's first. */
static inline void perfring_put_key(struct perfring_entry *entry, const char *key)
{
	if (entry->len && entry->bytes[entry->len - 1] != '{')
		perfring_put_text(entry, ",");
	perfring_put_quoted(entry, key);
	perfring_put_text(entry, ":");
}

static inline void perfring_put_member(struct perfring_entry *entry, const char *key, const char *text)
{
	if (!text || !*text)
		return;
	perfring_put_key(entry, key);
	perfring_put_quoted(entry, text);
}

static inline void perfring_put_number(struct perfring_entry *entry, const char *key, uint32_t number)
{
	char digits[16];

	if (!number)
		return;
	snprintf(digits, sizeof(digits), "%u", (unsigned)number);
	perfring_put_key(entry, key);
	perfring_put_text(entry, digits);
}

/* The shortest digits that are this number, as Rust writes them: 1.0, 0.1, 1e16, 2.5e-7. */
static inline void perfring_put_float(struct perfring_entry *entry, double value)
{
	char raw[40], digits[20], out[64];
	int precision = 0, count = 0, exponent, at, len = 0;
	const char *from;

	if (value - value != 0) { /* infinite, or no number */
		perfring_put_text(entry, "null");
		return;
	}
	do
		snprintf(raw, sizeof(raw), "%.*e", precision, value);
	while (strtod(raw, NULL) != value && ++precision < 17);
	for (from = raw; *from != 'e'; from++) /* without the sign and the locale's point */
		if (*from >= '0' && *from <= '9')
			digits[count++] = *from;
	exponent = (int)strtol(from + 1, NULL, 10);
	if (raw[0] == '-')
		out[len++] = '-';
	if (exponent < -4 || exponent >= 16) {
		out[len++] = digits[0];
		if (count > 1)
			out[len++] = '.';
		memcpy(out + len, digits + 1, (size_t)count - 1);
		snprintf(out + len + count - 1, 8, "e%d", exponent);
	} else {
		for (at = exponent < 0 ? exponent : 0; at < count || at <= exponent + 1; at++) {
			if (at == exponent + 1)
				out[len++] = '.';
			out[len++] = at >= 0 && at < count ? digits[at] : '0';
		}
		out[len] = 0;
	}
	perfring_put_text(entry, out);
}

static inline void perfring_put_constant(struct perfring_entry *entry, const struct perfring_constant *constant)
{
	char digits[24] = "null";

	perfring_put_key(entry, "constant");
	if (constant->is == PERFRING_CONSTANT_TEXT) {
		perfring_put_quoted(entry, perfring_text(constant->text));
		return;
	}
	if (constant->is == PERFRING_CONSTANT_F64) {
		perfring_put_float(entry, constant->f64);
		return;
	}
	if (constant->is == PERFRING_CONSTANT_BOOL)
		snprintf(digits, sizeof(digits), "%s", constant->i64 ? "true" : "false");
	else if (constant->is == PERFRING_CONSTANT_I64)
		snprintf(digits, sizeof(digits), "%lld", (long long)constant->i64);
	else if (constant->is == PERFRING_CONSTANT_U64)
		snprintf(digits, sizeof(digits), "%llu", (unsigned long long)constant->u64);
	else
		snprintf(entry->why, sizeof(entry->why), "a constant of the schema is of no known type");
	perfring_put_text(entry, digits);
}

static inline void perfring_put_fields(struct perfring_entry *entry, const struct perfring_field *fields,
				       uint32_t count);

static inline void perfring_put_shape(struct perfring_entry *entry, const struct perfring_shape *shape)
{
	int fixed = perfring_kind_size(shape->kind);
	char digits[24];
	uint32_t at;

	if (fixed < 0 || (fixed > 0 && shape->size && shape->size != (uint32_t)fixed))
		snprintf(entry->why, sizeof(entry->why), "a field has %u bytes, and its kind is %.40s", (unsigned)shape->size,
			 perfring_text(shape->kind));
	perfring_put_member(entry, "kind", shape->kind);
	if (fixed == 0 && strchr("tbso", shape->kind[0]) && strcmp(shape->kind, "string"))
		perfring_put_number(entry, "size", shape->size); /* text, bytes, struct, option */
	perfring_put_number(entry, "count", shape->count);
	perfring_put_number(entry, "value_at", shape->value_at);
	if (shape->of) {
		perfring_put_key(entry, "of");
		perfring_put_text(entry, "{");
		perfring_put_shape(entry, shape->of);
		perfring_put_text(entry, "}");
	}
	for (at = 0; at < shape->label_count; at++) {
		if (at == 0)
			perfring_put_key(entry, "labels");
		snprintf(digits, sizeof(digits), "%lld", (long long)shape->labels[at].value);
		perfring_put_text(entry, at == 0 ? "[{\"value\":" : ",{\"value\":");
		perfring_put_text(entry, digits);
		perfring_put_member(entry, "name", shape->labels[at].name);
		perfring_put_text(entry, at + 1 == shape->label_count ? "}]" : "}");
	}
	perfring_put_fields(entry, shape->fields, shape->field_count);
}

static inline void perfring_put_fields(struct perfring_entry *entry, const struct perfring_field *fields,
				       uint32_t count)
{
	uint32_t at;

	for (at = 0; at < count; at++) {
		if (at == 0)
			perfring_put_key(entry, "fields");
		perfring_put_text(entry, at == 0 ? "[{" : ",{");
		perfring_put_member(entry, "name", fields[at].name);
		perfring_put_number(entry, "at", fields[at].at);
		if (fields[at].constant)
			perfring_put_constant(entry, fields[at].constant);
		else
			perfring_put_shape(entry, &fields[at].shape);
		perfring_put_member(entry, "unit", fields[at].unit);
		perfring_put_member(entry, "help", fields[at].help);
		perfring_put_text(entry, at + 1 == count ? "}]" : "}");
	}
}

static inline uint32_t perfring_entry_check(const void *text, size_t len)
{
	const uint8_t *at = (const uint8_t *)text, *end = at + len;
	uint32_t hash = 0x811c9dc5;

	for (; at < end; at++)
		hash = (hash ^ *at) * 0x01000193;
	return hash;
}

/* Writes the schema's entry. `entry` is zeroed before the first use; its memory is used again. */
static inline int perfring_make_entry(struct perfring_entry *entry, const struct perfring_schema *schema)
{
	struct perfring_type head;
	static const char zeros[8] = { 0 };

	memset(&head, 0, sizeof(head));
	entry->len = 0;
	entry->why[0] = 0;
	perfring_put(entry, &head, sizeof(head));
	perfring_put_text(entry, "{");
	perfring_put_member(entry, "name", schema->name);
	perfring_put_number(entry, "version", schema->version);
	perfring_put_member(entry, "encoding", schema->encoding);
	if (schema->signal && strcmp(schema->signal, "plain"))
		perfring_put_member(entry, "class", schema->signal);
	perfring_put_number(entry, "size", schema->size);
	perfring_put_member(entry, "format", schema->format);
	perfring_put_member(entry, "help", schema->help);
	perfring_put_fields(entry, schema->fields, schema->field_count);
	perfring_put_text(entry, "}");
	if (entry->why[0])
		return PERFRING_E_SCHEMA;
	head.len = (uint32_t)(entry->len - sizeof(head));
	head.check = perfring_entry_check(entry->bytes + sizeof(head), head.len);
	perfring_put(entry, zeros, (8 - entry->len % 8) % 8);
	head.size = (uint32_t)entry->len;
	head.id = perfring_schema_id(schema);
	head.layout = perfring_schema_layout(schema);
	if (entry->why[0])
		return PERFRING_E_SCHEMA;
	memcpy(entry->bytes, &head, sizeof(head));
	return PERFRING_OK;
}

/* The words of the type table, and how many there are. */
static inline uint64_t *perfring_table(const struct perfring *ring)
{
	return (uint64_t *)(void *)((uint8_t *)ring->slots + ring->shape.control_size);
}

/* End of the last entry, in words, within the table. */
static inline uint64_t perfring_table_used(const struct perfring *ring)
{
	uint64_t used = PERFRING_LOAD(perfring_table(ring)) / 8, all = ring->shape.types_size / 8;

	PERFRING_FENCE_ACQUIRE(); /* P, pairs with P */
	if (used < PERFRING_TYPES_FIRST / 8)
		return PERFRING_TYPES_FIRST / 8;
	return used < all ? used : all;
}

/* Whether the bytes can be an entry that ends within `room`. */
static inline int perfring_is_entry(const char *at, size_t room, struct perfring_type *head)
{
	if (room < sizeof(*head))
		return 0;
	memcpy(head, at, sizeof(*head));
	return head->size % 8 == 0 && head->size <= room && head->size <= PERFRING_ENTRY_MAX &&
	       head->len <= PERFRING_ENTRY_MAX && ((sizeof(*head) + head->len + 7) & ~(size_t)7) == head->size &&
	       head->check == perfring_entry_check(at + sizeof(*head), head->len) &&
	       perfring_type_is_free(head->id) && perfring_is_utf8(at + sizeof(*head), head->len);
}

/* 1: the table has the type, 0: it does not, or an error: another has its id. */
static inline int perfring_find_type(struct perfring *ring, uint32_t id, uint64_t layout)
{
	uint64_t first = PERFRING_TYPES_FIRST / 8, words = perfring_table_used(ring) - first, at;
	uint64_t *copy = (uint64_t *)malloc(words ? words * 8 : 8);
	struct perfring_type head = { 0, 0, 0, 0, 0 };
	int found = 0;

	if (!copy)
		return perfring_io(ring, "finding memory for the type table");
	/* Relaxed: P orders them, and no entry before the end ever changes. */
	for (at = 0; at < words; at++)
		copy[at] = PERFRING_LOAD(perfring_table(ring) + first + at);
	for (at = 0; at < words && !found; at += head.size / 8) {
		if (!perfring_is_entry((const char *)(copy + at), (size_t)(words - at) * 8, &head)) {
			snprintf(ring->why, sizeof(ring->why), "the type table is damaged %llu bytes after its first entry: nothing can be added",
				 (unsigned long long)at * 8);
			found = PERFRING_E_CORRUPT;
		} else if (head.id == id && head.layout == layout) {
			found = 1;
		} else if (head.id == id) {
			snprintf(ring->why, sizeof(ring->why), "record type %u is taken in this ring by a type with another name or layout: give one of them another id, or raise its version",
				 (unsigned)id);
			found = PERFRING_E_TAKEN;
		}
	}
	free(copy);
	return found;
}

static inline int perfring_lock_table(struct perfring *ring)
{
	const struct timespec nap = { 0, 100000 };
	int tries, taken;

	for (tries = 0; tries < PERFRING_TABLE_TRIES; tries++) {
		taken = perfring_lock_byte(ring, ring->shape.types_offset);
		if (taken)
			return taken < 0 ? taken : PERFRING_OK;
		nanosleep(&nap, NULL);
	}
	snprintf(ring->why, sizeof(ring->why), "%s", perfring_error(PERFRING_E_TABLE_BUSY));
	return PERFRING_E_TABLE_BUSY;
}

/* Adds the entry, which the caller has not found. A process that dies in here has added all of it or
 * nothing. The caller holds the table's lock. */
static inline int perfring_append_type(struct perfring *ring, const struct perfring_entry *entry)
{
	uint64_t used = perfring_table_used(ring), left = ring->shape.types_size / 8 - used, word;
	size_t at;

	if (entry->len > PERFRING_ENTRY_MAX || entry->len / 8 > left) {
		if (entry->len > PERFRING_ENTRY_MAX)
			snprintf(ring->why, sizeof(ring->why), "the type's entry takes %llu bytes, and at most %u can be: shorten its help",
				 (unsigned long long)entry->len, PERFRING_ENTRY_MAX);
		else
			snprintf(ring->why, sizeof(ring->why), "the type table is full: the entry takes %llu bytes and %llu are left; make the ring with a larger one (`perfring create --types-size`)",
				 (unsigned long long)entry->len, (unsigned long long)left * 8);
		return PERFRING_E_TABLE_FULL;
	}
	for (at = 0; at < entry->len; at += 8) {
		memcpy(&word, entry->bytes + at, sizeof(word));
		PERFRING_STORE(perfring_table(ring) + used + at / 8, word); /* P publishes it */
	}
	PERFRING_STORE_RELEASE(perfring_table(ring), 8 * used + entry->len); /* P, pairs with P */
	return PERFRING_OK;
}

/* Registers a type: makes sure that the ring's type table describes it. Returns 0 as well if it did
 * before. To be called once after each attach; may wait up to 0.1 s for another process that registers. */
static inline int perfring_register_type(struct perfring_producer *producer, const struct perfring_schema *schema)
{
	struct perfring *ring = &producer->ring;
	struct perfring_entry entry;
	int error;

	memset(&entry, 0, sizeof(entry));
	error = perfring_is_forked(ring) ? PERFRING_E_FORKED
		: !perfring_type_is_free(perfring_schema_id(schema)) ? PERFRING_E_TYPE
		: !ring->shape.types_size ? PERFRING_E_NO_TABLE : PERFRING_OK;
	if (error) {
		snprintf(ring->why, sizeof(ring->why), "%s", perfring_error(error));
		return error;
	}
	error = perfring_make_entry(&entry, schema);
	if (error) {
		snprintf(ring->why, sizeof(ring->why), "the type %.80s cannot be registered: %s", perfring_text(schema->name),
			 entry.why);
	} else {
		/* Most often the producer before this one has registered it. */
		error = perfring_find_type(ring, perfring_schema_id(schema), perfring_schema_layout(schema));
		if (error == 0 && (error = perfring_lock_table(ring)) == 0) {
			error = perfring_find_type(ring, perfring_schema_id(schema), perfring_schema_layout(schema));
			if (error == 0)
				error = perfring_append_type(ring, &entry);
			perfring_unlock_byte(ring, ring->shape.types_offset);
		}
	}
	free(entry.bytes);
	return error > 0 ? PERFRING_OK : error;
}

#endif /* PERFRING_TYPES_H */
