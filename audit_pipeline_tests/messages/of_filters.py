"""Filters with columns in braces that cannot be filled from a row. Filters that LanceDB refuses: of_index.py."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from audit_pipeline.index.row_filter import parse_filter
from audit_pipeline_tests.messages.case import Case, World

SCHEMA = pa.schema(
    {"a": pa.string(), "b": pa.string(), "lists": pa.list_(pa.int8()), "elsewhere": pa.timestamp("s", "Asia/Tokyo")}
)
BRACE = (
    "index.filter: a brace without its partner or without a column: write {column} for the row's own value, "
    "and {{ or }} for a brace that is meant as it is"
)
NAME_ONE = (
    "name a column or a struct's field in braces (a, b, lists, elsewhere), "
    "or write {{ and }} for braces meant as they are"
)


def template(text: str) -> Callable[[World], object]:
    """The cause that is this filter over a table of the schema above."""
    return lambda world: parse_filter(text, SCHEMA)


CASES = [
    Case("a brace that is not closed", template("a = {b"), BRACE),
    Case("a brace that is not opened", template("a = b}"), BRACE),
    Case("braces around nothing", template("a = {}"), BRACE),
    Case(
        "a quote that is not closed",
        template("a = 'x{b}"),
        "index.filter: a quote is never closed: write '' for a quote within a string",
    ),
    Case(
        "an unknown column",
        template("a = {bb}"),
        f"index.filter: the table has no column 'bb' (did you mean 'b'?): {NAME_ONE}",
    ),
    Case(
        "a key of a JSON string",
        template("a = {b$.c}"),
        f"index.filter: the table has no column 'b$.c': {NAME_ONE}",
    ),
    Case(
        "a column of lists",
        template("a = {lists}"),
        "index.filter: column 'lists' is of type list<…: int8>, which cannot be filled in: "
        "name one of strings, numbers, booleans, dates, or timestamps in UTC",
    ),
    Case(
        "times of another zone",
        template("a = {elsewhere}"),
        "index.filter: column 'elsewhere' is of type timestamp[s, tz=Asia/Tokyo], which cannot be filled in: "
        "name one of strings, numbers, booleans, dates, or timestamps in UTC",
    ),
]
