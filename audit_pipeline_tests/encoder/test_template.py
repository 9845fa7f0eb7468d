from __future__ import annotations

import pyarrow as pa

from audit_pipeline.encoder.template import embedded_texts

ROWS = pa.table({"text": ["body one", None, "body three"], "heading": ["One", "Two", None], "position": [0, 1, 2]})


def test_without_a_template_the_text_itself_was_embedded():
    assert embedded_texts(ROWS, None).to_pylist() == ["body one", "", "body three"]


def test_a_column_name_takes_that_column():
    assert embedded_texts(ROWS, "heading").to_pylist() == ["One", "Two", ""]


def test_a_template_joins_fields_and_counts_null_as_empty():
    texts = embedded_texts(ROWS, "{heading}\n\n{text}")
    assert texts.to_pylist() == ["One\n\nbody one", "Two\n\n", "\n\nbody three"]


def test_a_template_may_hold_numbers_braces_and_a_field_twice():
    texts = embedded_texts(ROWS, "{{{position}}} {heading}/{heading}!")
    assert texts.to_pylist() == ["{0} One/One!", "{1} Two/Two!", "{2} /!"]


def test_chunked_rows_and_no_rows_work_alike():
    assert embedded_texts(pa.concat_tables([ROWS, ROWS]), "{text}").to_pylist() == ["body one", "", "body three"] * 2
    assert embedded_texts(ROWS.slice(0, 0), "{heading} {text}").to_pylist() == []
