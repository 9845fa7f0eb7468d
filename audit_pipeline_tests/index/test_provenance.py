from __future__ import annotations

import datetime as dt
from typing import Any

from audit_pipeline.index.provenance import Written, provenance_findings

BARE: dict[str, Any] = {
    "model": "m",
    "revision": None,
    "fingerprint": "f",
    "dtype": "float32",
    "max_tokens": 256,
    "passage_prompt": "",
    "passage_extra": {},
    "embed_text": None,
    "libraries": {"torch": "2"},
}
PROMPTED = BARE | {"passage_prompt": "passage: "}


def written(source: str, day: int, rows: int, record: dict[str, Any]) -> Written:
    date = dt.date(2026, 1, day)
    return Written(f"{date}|{source}", (source, date), rows, record)


def found(*batches: Written, configured: dict[str, Any] = PROMPTED) -> list[tuple[Any, ...]]:
    findings = provenance_findings(batches, configured, "x__ingest_batch")
    assert {finding.code for finding in findings} <= {"provenance_mixed"}
    return [(f.severity, f.scope, f.n_compared, f.share, f.evidence["unlike"]) for f in findings]


def test_the_batch_that_another_prompt_wrote_is_named_with_both_prompts() -> None:
    batches = [written("a", 1, 10, PROMPTED), written("a", 2, 90, BARE), written("b", 1, 5, PROMPTED)]
    place = {"source": "a", "ingestion_date": "2026-01-02"}
    assert found(*batches) == [("error", place, 90, 1.0, {"passage_prompt": ["", "passage: "]})]


def test_all_batches_of_a_source_are_one_finding() -> None:
    batches = [written("a", day, 10, PROMPTED) for day in (1, 2, 3)] + [written("b", day, 1, BARE) for day in (1, 2)]
    assert [scope for _, scope, *_ in found(*batches)] == [{"source": "b"}]


def test_where_none_is_as_configured_most_rows_are_right() -> None:
    other = BARE | {"model": "n", "fingerprint": "g"}
    batches = [written("a", 1, 10, BARE), written("a", 2, 3, other), written("a", 3, 3, other)]
    unlike = {"model": ["n", "m"], "fingerprint": ["g", "f"]}
    assert [(scope, named) for _, scope, _, _, named in found(*batches)] == [
        ({"source": "a", "ingestion_date": "2026-01-02"}, unlike),
        ({"source": "a", "ingestion_date": "2026-01-03"}, unlike),
    ]


def test_batches_that_agree_are_silent_also_where_the_settings_say_otherwise() -> None:
    assert found(written("a", 1, 10, BARE), written("a", 2, 10, BARE)) == []
    assert found() == []


def test_newer_libraries_a_moved_model_and_emptied_batches_mix_nothing() -> None:
    moved = PROMPTED | {"model": "/elsewhere/m", "libraries": {"torch": "3"}}
    assert found(written("a", 1, 9, PROMPTED), written("a", 2, 9, moved), written("b", 1, 0, BARE)) == []
