import pyarrow as pa

from audit_pipeline.corpus.see_also import entries, see_also_queries

DOC = """Join frames.

See Also
--------
DataFrame.merge : Merge two frames
    column by column.
concat, :func:`append` : Stack frames on top.
helper
numpy.mean : Mean of an array.
toolbox.core.shape : Rows and columns.

Notes
-----
outside : This is not an entry.
"""


def chunks(*rows: tuple[str, str, str]) -> pa.Table:
    """(module, qualified name, text) of source s."""
    return pa.table(
        {
            "chunk_id": [f"s:{module}" if name == module else f"s:{module}.{name}" for module, name, _ in rows],
            "source": ["s"] * len(rows),
            "doc_id": [module for module, _, _ in rows],
            "heading": [name for _, name, _ in rows],
            "text": [text for _, _, text in rows],
        }
    )


def test_entries_are_read_with_several_names_and_continuation_lines() -> None:
    assert list(entries(DOC)) == [
        ("DataFrame.merge", "Merge two frames column by column."),
        ("concat", "Stack frames on top."),
        ("append", "Stack frames on top."),
        ("numpy.mean", "Mean of an array."),
        ("toolbox.core.shape", "Rows and columns."),
    ]


def test_names_are_resolved_in_the_corpus_and_the_rest_is_counted() -> None:
    found = see_also_queries(
        chunks(
            ("toolbox.frame", "DataFrame.join", DOC),
            ("toolbox.frame", "DataFrame.merge", "Merge two frames column by column.\n\nMore."),
            ("toolbox.frame", "DataFrame.concat", "The nearest of that name."),
            ("toolbox.other", "concat", "Elsewhere."),
            ("toolbox.one", "append", "One of two."),
            ("toolbox.two", "append", "The other."),
            ("toolbox.core", "shape", "Shape."),
            ("toolbox.stats", "mean", "A mean that numpy.mean does not name."),
        )
    )
    assert found.queries.to_pylist() == [
        {"query_id": "see_also:s:toolbox.core.shape#1", "query": "Rows and columns.",
         "chunk_id": "s:toolbox.core.shape", "equal_to_first_line": False},
        {"query_id": "see_also:s:toolbox.frame.DataFrame.concat#1", "query": "Stack frames on top.",
         "chunk_id": "s:toolbox.frame.DataFrame.concat", "equal_to_first_line": False},
        {"query_id": "see_also:s:toolbox.frame.DataFrame.merge#1", "query": "Merge two frames column by column.",
         "chunk_id": "s:toolbox.frame.DataFrame.merge", "equal_to_first_line": True},
    ]  # fmt: skip
    assert (found.found, found.unresolved, found.ambiguous, found.equal_to_first_line) == (5, 1, 1, 1)


def test_an_entry_that_two_docstrings_share_is_one_query() -> None:
    text = "X.\n\nSee Also\n--------\nf : Do the thing.\n"
    found = see_also_queries(chunks(("m", "a", text), ("m", "b", text), ("m", "f", "F.")))
    assert (len(found.queries), found.repeated) == (1, 1)


def test_a_corpus_without_docstrings_has_none() -> None:
    table = pa.table({"chunk_id": ["1"], "source": ["s"], "doc_id": pa.nulls(1, pa.string()),
                      "heading": ["h"], "text": [DOC]})  # fmt: skip
    assert len(see_also_queries(table).queries) == 0
