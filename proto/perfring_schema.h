/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_schema.h: what a record type is made of, its layout hash and its id, in C11 or C++17. See
 * "Types" of ABI.md; perfring_types.h registers schemas and has an example.
 */
#ifndef PERFRING_SCHEMA_H
#define PERFRING_SCHEMA_H

#include "perfring.h"

#include <string.h>

/* A value of an enumeration and its name. */
struct perfring_label {
	int64_t value;
	const char *name;
};

struct perfring_field;

/* The content of a field. `kind` is a word of ABI.md: "u8" to "i128", "f32", "f64", "bool", "char", "text",
 * "bytes", "array", "struct", "enum", "string", "vec", "option", "any". */
struct perfring_shape {
	const char *kind;
	uint32_t size;	   /* bytes; 0 where it follows from the kind, from `of` and from `count` */
	uint32_t count;	   /* array: how many elements */
	uint32_t value_at; /* option: the offset of its value */
	const struct perfring_shape *of;     /* array, vec, option: the element; enum: the integer */
	const struct perfring_field *fields; /* struct: its fields */
	uint32_t field_count;
	const struct perfring_label *labels; /* enum: the names of its values */
	uint32_t label_count;
};

#define PERFRING_CONSTANT_BOOL 1
#define PERFRING_CONSTANT_I64 2
#define PERFRING_CONSTANT_U64 3
#define PERFRING_CONSTANT_F64 4
#define PERFRING_CONSTANT_TEXT 5

/* A value that every record of a type has and that no record holds. */
struct perfring_constant {
	int is; /* PERFRING_CONSTANT_*: which of the following members counts */
	int64_t i64; /* of a BOOL 0 or 1 */
	uint64_t u64;
	double f64;
	const char *text;
};

/* One field. Texts that are NULL are empty. */
struct perfring_field {
	const char *name;
	uint32_t at; /* offset in its struct; 0 in a tagged record and for a constant */
	struct perfring_shape shape;
	const char *unit; /* as UCUM has it: "ms", "By" */
	const char *help;
	const struct perfring_constant *constant; /* or NULL; then `shape` does not count */
};

/* A record type. Texts that are NULL are empty. */
struct perfring_schema {
	uint32_t id; /* the record type; 0: the one that follows from the rest, see perfring_schema_id */
	const char *name;
	uint32_t version;      /* up to 65535; raise it when the meaning changes */
	const char *encoding;  /* "bytes", "utf-8", "json", "pod", "rkyv", "tagged" */
	const char *signal;    /* NULL: "plain"; else "log", "gauge" and so on: `class` of ABI.md */
	uint32_t size;	       /* "pod": bytes of a payload */
	const char *format;    /* "rkyv": its version and format features */
	const char *help;
	const struct perfring_field *fields;
	uint32_t field_count;
};

/* Constants. */
#define PERFRING_BOOL(value) { PERFRING_CONSTANT_BOOL, (value) ? 1 : 0, 0, 0, NULL }
#define PERFRING_I64(value) { PERFRING_CONSTANT_I64, value, 0, 0, NULL }
#define PERFRING_U64(value) { PERFRING_CONSTANT_U64, 0, value, 0, NULL }
#define PERFRING_F64(value) { PERFRING_CONSTANT_F64, 0, 0, value, NULL }
#define PERFRING_TEXT(value) { PERFRING_CONSTANT_TEXT, 0, 0, 0, value }

/* Shapes. */
#define PERFRING_PLAIN(kind, size) { kind, size, 0, 0, NULL, NULL, 0, NULL, 0 }
#define PERFRING_ARRAY(of, count) { "array", 0, count, 0, of, NULL, 0, NULL, 0 }
#define PERFRING_ENUM(of, labels) \
	{ "enum", 0, 0, 0, of, NULL, 0, labels, (uint32_t)(sizeof(labels) / sizeof((labels)[0])) }
#define PERFRING_STRUCT(size, fields) \
	{ "struct", size, 0, 0, NULL, fields, (uint32_t)(sizeof(fields) / sizeof((fields)[0])), NULL, 0 }

/* A field that is a member of a C struct, of a kind that needs no more than its size: a number, "bool",
 * "char", "text", "bytes". */
#define PERFRING_FIELD_UNIT(type, member, kind, unit, help) \
	{ #member, (uint32_t)offsetof(type, member), \
	  PERFRING_PLAIN(kind, (uint32_t)sizeof(((type *)0)->member)), unit, help, NULL }
#define PERFRING_FIELD(type, member, kind) PERFRING_FIELD_UNIT(type, member, kind, NULL, NULL)
/* One of any shape: PERFRING_MEMBER(struct tick, side, PERFRING_ENUM(&u8, side_labels)). */
#define PERFRING_MEMBER(type, member, ...) \
	{ #member, (uint32_t)offsetof(type, member), __VA_ARGS__, NULL, NULL, NULL }

/* A schema whose payload is a C struct. */
#define PERFRING_POD(name, type, fields) \
	{ 0, name, 1, "pod", NULL, (uint32_t)sizeof(type), NULL, NULL, fields, \
	  (uint32_t)(sizeof(fields) / sizeof((fields)[0])) }

static inline const char *perfring_text(const char *text)
{
	return text ? text : "";
}

/* Bytes of a kind that always has the same; 0 for the others, -1 for none. */
static inline int perfring_kind_size(const char *kind)
{
	static const struct {
		const char *name;
		int size;
	} kinds[] = { { "u8", 1 }, { "u16", 2 }, { "u32", 4 }, { "u64", 8 }, { "u128", 16 }, { "i8", 1 },
		      { "i16", 2 }, { "i32", 4 }, { "i64", 8 }, { "i128", 16 }, { "f32", 4 }, { "f64", 8 },
		      { "bool", 1 }, { "char", 4 }, { "text", 0 }, { "bytes", 0 }, { "array", 0 },
		      { "struct", 0 }, { "enum", 0 }, { "string", 0 }, { "vec", 0 }, { "option", 0 },
		      { "any", 0 } };
	size_t at;

	for (at = 0; at < sizeof(kinds) / sizeof(kinds[0]); at++)
		if (!strcmp(perfring_text(kind), kinds[at].name))
			return kinds[at].size;
	return -1;
}

/* Bytes that a field of this shape takes. */
static inline uint32_t perfring_shape_size(const struct perfring_shape *shape)
{
	int size = perfring_kind_size(shape->kind);

	if (shape->size || size > 0)
		return shape->size ? shape->size : (uint32_t)size;
	if (shape->of && !strcmp(shape->kind, "array"))
		return shape->count * perfring_shape_size(shape->of);
	if (shape->of && !strcmp(shape->kind, "enum"))
		return perfring_shape_size(shape->of);
	return 0;
}

/* The layout hash: FNV-1a, 64 bits. */
static inline void perfring_hash_bytes(uint64_t *hash, const void *bytes, size_t len)
{
	const uint8_t *at = (const uint8_t *)bytes, *end = at + len;

	for (; at < end; at++)
		*hash = (*hash ^ *at) * UINT64_C(0x100000001b3);
}

static inline void perfring_hash_text(uint64_t *hash, const char *text)
{
	perfring_hash_bytes(hash, perfring_text(text), strlen(perfring_text(text)));
	perfring_hash_bytes(hash, "\xff", 1);
}

static inline void perfring_hash_number(uint64_t *hash, uint64_t number)
{
	uint8_t bytes[8];
	unsigned at;

	for (at = 0; at < 8; at++)
		bytes[at] = (uint8_t)(number >> (8 * at));
	perfring_hash_bytes(hash, bytes, sizeof(bytes));
}

static inline void perfring_hash_constant(uint64_t *hash, const struct perfring_constant *constant)
{
	static const char *const names[] = { "", "bool", "i64", "u64", "f64", "str" };
	int is = constant->is > 0 && constant->is <= PERFRING_CONSTANT_TEXT ? constant->is : 0;
	uint64_t bits;

	perfring_hash_text(hash, names[is]);
	memcpy(&bits, &constant->f64, sizeof(bits));
	if (constant->is == PERFRING_CONSTANT_TEXT)
		perfring_hash_text(hash, constant->text);
	else if (constant->is == PERFRING_CONSTANT_F64)
		perfring_hash_number(hash, bits);
	else
		perfring_hash_number(hash, constant->is == PERFRING_CONSTANT_U64 ? constant->u64
										 : (uint64_t)constant->i64);
}

static inline void perfring_hash_fields(uint64_t *hash, const struct perfring_field *fields, uint32_t count);

static inline void perfring_hash_shape(uint64_t *hash, const struct perfring_shape *shape)
{
	uint32_t at;

	perfring_hash_text(hash, shape->kind);
	perfring_hash_number(hash, perfring_shape_size(shape));
	perfring_hash_number(hash, shape->count);
	perfring_hash_number(hash, shape->value_at);
	if (shape->of)
		perfring_hash_shape(hash, shape->of);
	for (at = 0; at < shape->label_count; at++) {
		perfring_hash_number(hash, (uint64_t)shape->labels[at].value);
		perfring_hash_text(hash, shape->labels[at].name);
	}
	perfring_hash_fields(hash, shape->fields, shape->field_count);
}

static inline void perfring_hash_fields(uint64_t *hash, const struct perfring_field *fields, uint32_t count)
{
	const struct perfring_shape any = PERFRING_PLAIN("any", 0);
	uint32_t at;

	for (at = 0; at < count; at++) {
		perfring_hash_text(hash, fields[at].name);
		perfring_hash_number(hash, fields[at].at);
		perfring_hash_shape(hash, fields[at].constant ? &any : &fields[at].shape);
		if (fields[at].constant)
			perfring_hash_constant(hash, fields[at].constant);
	}
}

/* Returns a number for everything that a reader of payloads must know: equal for equal types in every
 * program and language. Units and help do not count. */
static inline uint64_t perfring_schema_layout(const struct perfring_schema *schema)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	perfring_hash_text(&hash, schema->name);
	perfring_hash_number(&hash, schema->version);
	perfring_hash_text(&hash, schema->encoding);
	perfring_hash_text(&hash, schema->format);
	perfring_hash_text(&hash, schema->signal ? schema->signal : "plain");
	perfring_hash_number(&hash, schema->size);
	perfring_hash_fields(&hash, schema->fields, schema->field_count);
	return hash;
}

/* Returns the type to publish records with: `id`, or the one that follows from the layout. */
static inline uint32_t perfring_schema_id(const struct perfring_schema *schema)
{
	uint64_t hash;

	if (schema->id)
		return schema->id;
	hash = perfring_schema_layout(schema);
	return (uint32_t)(hash ^ (hash >> 32)) | UINT32_C(1) << 31;
}

#endif /* PERFRING_SCHEMA_H */
