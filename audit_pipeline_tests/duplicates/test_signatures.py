import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from datasketch import MinHash

from audit_pipeline import schemas
from audit_pipeline.config import DuplicateSettings
from audit_pipeline.duplicates.signatures import (
    check_same_scheme,
    compute_signatures,
    join_signatures,
    scheme_of_settings,
    scheme_of_table,
    signature_matrix,
)
from audit_pipeline.errors import AuditInputError

SETTINGS = DuplicateSettings()
TEXTS = ["One two three four five six seven.", "", "a b", "one TWO three  four five six seven.", "..."]
CHUNKS = pa.table({"chunk_id": ["a", "b", "c", "d", "e"], "text": TEXTS})


def test_signatures_are_those_that_datasketch_makes_one_by_one():
    table = compute_signatures(CHUNKS, SETTINGS)
    sketch = MinHash(num_perm=128, seed=1, scheme="affine32", hashfunc=xxhash.xxh32_intdigest)
    for shingle in ("one two three four five", "two three four five six", "three four five six seven"):
        sketch.update(shingle.encode())
    assert np.array_equal(signature_matrix(table["signature"].slice(0, 1), 128)[0], sketch.hashvalues)


def test_empty_and_wordless_texts_have_no_signature_and_the_rest_is_counted():
    table = compute_signatures(CHUNKS, SETTINGS)
    assert table.schema.equals(schemas.SIGNATURES)
    assert table["status"].to_pylist() == ["words", "no_signature", "words", "words", "no_signature"]
    assert table["n_shingles"].to_pylist() == [3, 0, 1, 3, 0]
    assert table["signature"].is_null().to_pylist() == [False, True, False, False, True]


def test_texts_equal_once_normalised_share_hash_and_signature():
    table = compute_signatures(CHUNKS, SETTINGS).to_pylist()
    assert table[0]["normalised_sha256"] == table[3]["normalised_sha256"]
    assert table[0]["signature"] == table[3]["signature"]


def test_an_empty_batch_gives_an_empty_table_that_joins():
    empty = compute_signatures(CHUNKS.slice(0, 0), SETTINGS)
    joined = join_signatures({"2026-01-01|a": empty, "2026-01-02|a": compute_signatures(CHUNKS, SETTINGS)}, SETTINGS)
    assert len(empty) == 0
    assert joined["chunk_id"].to_pylist() == ["a", "b", "c", "d", "e"]
    assert len(join_signatures({}, SETTINGS)) == 0


def test_another_library_version_is_refused():
    now = scheme_of_settings(SETTINGS)
    before = dataclasses.replace(now, library="datasketch 1.6.5")
    with pytest.raises(AuditInputError, match=r"'datasketch 1.6.5'.*'datasketch 2"):
        check_same_scheme(before, now, "batch x", "these settings")


def test_the_scheme_travels_with_the_table_and_its_absence_is_refused():
    table = compute_signatures(CHUNKS, SETTINGS)
    assert scheme_of_table(table, "x") == scheme_of_settings(SETTINGS)
    assert json.loads(next(iter(table.schema.metadata.values())))["permutation_scheme"] == "affine32"
    with pytest.raises(AuditInputError, match="no record"):
        scheme_of_table(table.replace_schema_metadata(None), "batch x")
