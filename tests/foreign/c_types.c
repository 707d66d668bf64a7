/* The schemas in schemas.h, which a test writes, by nothing but proto/perfring_types.h.
 *
 * c_types entries         a line for each schema: its id, its layout, its entry in hexadecimal
 * c_types register RING   registers each in turn, twice; a line for each: the code, and the sentence
 * c_types wrong RING      registers what is no schema; a line for each
 */
#include "perfring_types.h"
#include "schemas.h"

#include <inttypes.h>

#define COUNT (sizeof(schemas) / sizeof(schemas[0]))

static void entries(void)
{
	struct perfring_entry entry;
	size_t at, byte;

	memset(&entry, 0, sizeof(entry));
	for (at = 0; at < COUNT; at++) {
		if (perfring_make_entry(&entry, &schemas[at]))
			fprintf(stderr, "%s\n", entry.why);
		printf("%u %" PRIu64 " ", (unsigned)perfring_schema_id(&schemas[at]),
		       perfring_schema_layout(&schemas[at]));
		for (byte = 0; byte < entry.len; byte++)
			printf("%02x", (unsigned)(unsigned char)entry.bytes[byte]);
		printf("\n");
	}
	free(entry.bytes);
}

static void try_register(struct perfring_producer *producer, const struct perfring_schema *schema)
{
	int error = perfring_register_type(producer, schema);

	printf("%d %s\n", error, error ? producer->ring.why : "");
	fflush(stdout);
}

static void register_wrong(struct perfring_producer *producer)
{
	static const struct perfring_field kind[] = { { "f", 0, PERFRING_PLAIN("u65", 8), NULL, NULL, NULL } };
	static const struct perfring_field size[] = { { "f", 0, PERFRING_PLAIN("u64", 4), NULL, NULL, NULL } };
	struct perfring_schema schema = { 7, "wrong.Type", 1, "json", NULL, 0, NULL, NULL, NULL, 0 };

	try_register(producer, &schema); /* an id of the kernel's */
	schema.id = 0;
	schema.help = "\xff";
	try_register(producer, &schema);
	schema.help = "\xed\xa0\x80";
	try_register(producer, &schema);
	schema.help = NULL;
	schema.field_count = 1;
	schema.fields = kind;
	try_register(producer, &schema);
	schema.fields = size;
	try_register(producer, &schema);
}

int main(int argc, char **argv)
{
	struct perfring_producer producer;
	size_t at;

	if (argc == 2 && !strcmp(argv[1], "entries")) {
		entries();
		return 0;
	}
	if (argc != 3 || perfring_producer_attach(&producer, argv[2], "c_types"))
		return 1;
	if (!strcmp(argv[1], "wrong"))
		register_wrong(&producer);
	for (at = 0; !strcmp(argv[1], "register") && at < 2 * COUNT; at++)
		try_register(&producer, &schemas[at % COUNT]);
	perfring_producer_detach(&producer);
	return 0;
}
