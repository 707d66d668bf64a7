"""Prints Parquet files as JSON: for each its name, its columns' types, and its rows."""

import json
import math
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def shown(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


for path in sorted(Path(sys.argv[1]).iterdir()):
    table = pq.read_table(path)
    types = {field.name: str(field.type) for field in table.schema}
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
    rows = [{name: shown(value) for name, value in row.items()} for row in table.to_pylist()]
    groups = pq.ParquetFile(path).num_row_groups
    print(json.dumps({"file": path.name, "types": types, "rows": rows, "groups": groups}))
