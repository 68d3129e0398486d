"""Tables as Parquet, by pyarrow where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfdoctor.errors import PerfdoctorError
from perfdoctor.render import text
from perfdoctor.render.exports.tables import Cell, ExportTable

LARGEST = 2**63


def parquet(table: ExportTable) -> bytes:
    """The whole file. Raises PerfdoctorError where there is no pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise PerfdoctorError(
            "Parquet is written by pyarrow, which is not installed beside perfdoctor",
            "install it with: pip install pyarrow; or take --format csv",
        ) from None
    kinds: dict[type, Callable[[], Any]] = {
        int: pyarrow.int64,
        float: pyarrow.float64,
        str: pyarrow.string,
    }
    schema = pyarrow.schema([(name, kinds[kind]()) for name, kind in table.columns.items()])
    columns = [
        pyarrow.array([_value(row[place]) for row in table.rows], field.type)
        for place, field in enumerate(schema)
    ]
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, schema=schema), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _value(value: Cell) -> Cell:
    """What a column can hold: no text that is no Unicode, and no number beyond its 64 bits."""
    if isinstance(value, str):
        return text.escape_control(value)
    return None if isinstance(value, int) and value >= LARGEST else value
