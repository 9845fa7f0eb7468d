import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from datasketch import MinHash

from audit_pipeline import schemas
from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates import signatures
from audit_pipeline.duplicates.signatures import (
    SignatureScheme,
    compute_signatures,
    earlier_signatures,
    join_signatures,
    read_signatures,
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


FOREIGN = {
    "library": "datasketch 1.6.5",
    "permutation_scheme": "legacy",
    "seed": 2,
    "hash_function": "sha1_hash32",
    "permutations": 256,
    "shingle_units": 3,
    "shingling": "lines",
    "normaliser": "NFKC",
}


def test_every_part_of_a_scheme_is_tried():
    assert list(FOREIGN) == [field.name for field in dataclasses.fields(SignatureScheme)]


@pytest.mark.parametrize("part", FOREIGN)
def test_a_batch_made_otherwise_is_refused_with_both_sides_named(part):
    now = scheme_of_settings(SETTINGS)
    before = dataclasses.replace(now, **{part: FOREIGN[part]})
    good = compute_signatures(CHUNKS, SETTINGS)
    batches = {"2026-01-01|a": good, "2026-01-02|b": good.replace_schema_metadata(before.as_metadata())}
    with pytest.raises(AuditInputError) as told:
        join_signatures(batches, SETTINGS)
    assert str(told.value) == (
        f"signatures of batch 2026-01-02|b have {part} {FOREIGN[part]!r}, those of these settings "
        f"{getattr(now, part)!r}, and cannot be compared: materialise minhash_signatures of batch 2026-01-02|b again"
    )


def write(path, table):
    pq.write_table(table, path)
    return path


def cut(path, share):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def with_signatures(table, change):
    place = table.schema.get_field_index("signature")
    changed = pa.array([change(one) if one else one for one in table["signature"].to_pylist()], type=pa.binary())
    return table.set_column(place, table.schema.field("signature"), changed)


BROKEN = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: cut(path, 0.6),
    "no Parquet": lambda path: path.write_text("a;b\n1;2\n" * 20),
    "damaged inside": lambda path: path.write_bytes(b"PAR1" + b"\xff" * 300 + path.read_bytes()[304:]),
    "lacking a column": lambda path: write(path, pq.read_table(path).drop_columns(["status"])),
    "of another table": lambda path: write(path, CHUNKS),
    "with short signatures": lambda path: write(path, with_signatures(pq.read_table(path), lambda one: one[:-4])),
    "with long signatures": lambda path: write(path, with_signatures(pq.read_table(path), lambda one: one * 2)),
    "with lost signatures": lambda path: write(path, with_signatures(pq.read_table(path), lambda one: None)),
    "without its record": lambda path: write(path, pq.read_table(path).replace_schema_metadata(None)),
    "with another's record": lambda path: write(
        path, pq.read_table(path).replace_schema_metadata({b"audit_pipeline.signature_scheme": b'{"seed": 1}'})
    ),
}


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_file_names_its_batch_and_is_never_taken_over(tmp_path, way):
    path = write(tmp_path / "signatures.parquet", compute_signatures(CHUNKS, SETTINGS))
    assert len(join_signatures({"x|a": read_signatures(path, "x|a")}, SETTINGS)) == 5
    assert earlier_signatures(path, SETTINGS) is not None
    BROKEN[way](path)
    with pytest.raises(AuditInputError, match=r"^batch x\|a: .*materialise minhash_signatures"):
        join_signatures({"x|a": read_signatures(path, "x|a")}, SETTINGS)
    assert earlier_signatures(path, SETTINGS) is None


def test_signatures_of_other_settings_are_not_taken_over(tmp_path):
    path = write(tmp_path / "signatures.parquet", compute_signatures(CHUNKS, SETTINGS))
    assert earlier_signatures(path, DuplicateSettings(shingle_words=4)) is None
    assert earlier_signatures(path, DuplicateSettings(permutations=64, bands=16)) is None


def test_only_new_texts_are_signed_and_the_table_is_that_of_signing_all(monkeypatch):
    earlier = compute_signatures(CHUNKS, SETTINGS)
    texts = [
        "a  B",
        "New words here.",
        "",
        "one two three four five six seven.",
        "new words HERE.",
        "!",
        "另一个句子在这里",
    ]
    chunks = pa.table({"chunk_id": [f"n{row}" for row in range(len(texts))], "text": texts})
    whole = compute_signatures(chunks, SETTINGS)
    signed = []
    honest = signatures.minhash_values
    monkeypatch.setattr(
        signatures, "minhash_values", lambda sets, permutations: signed.extend(sets) or honest(sets, permutations)
    )
    assert compute_signatures(chunks, SETTINGS, earlier=earlier).equals(whole)
    assert len(signed) == 2  # "new words here." and the Chinese sentence
    assert compute_signatures(chunks, SETTINGS, earlier=whole).equals(whole)
    assert compute_signatures(CHUNKS.slice(0, 0), SETTINGS, earlier=whole).equals(whole.slice(0, 0))
    assert compute_signatures(chunks, SETTINGS, earlier=whole.slice(0, 0)).equals(whole)


def test_the_scheme_travels_with_the_table_and_its_absence_is_refused():
    table = compute_signatures(CHUNKS, SETTINGS)
    assert scheme_of_table(table, "x") == scheme_of_settings(SETTINGS)
    assert json.loads(next(iter(table.schema.metadata.values())))["permutation_scheme"] == "affine32"
    with pytest.raises(AuditInputError, match="no record"):
        scheme_of_table(table.replace_schema_metadata(None), "batch x")
