"""Which probe of one audit is the same question as which of another. Nothing is compared or judged here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

RUNS = {"self": "self_retrieval", "held_out": "held_out_retrieval", "labelled": "labelled_retrieval"}
"""The run of each probe table that two audits can be paired on."""

MEASURES: dict[str, dict[str, str]] = {
    "self": {"self@1": "hit_1", "self@10": "hit_10"},
    "held_out": {"heldout@1": "hit_1", "heldout@10": "hit_10"},
    "labelled": {"labelled_success@10": "success_10"},
}
"""Boolean column of each measure of a run."""

STRATA = ("source", "ingestion_date", "length_band")

PairedBy = Literal["id", "text", "query", "nothing"]


@dataclass(frozen=True)
class Pairs:
    """Probes that both audits asked, one row each.

    ``frame`` has ``id_a, id_b, source, ingestion_date, length_band, cause_a, cause_b`` and of every measure the two
    columns ``<measure> a`` and ``<measure> b`` (nullable booleans); strata are those of the second audit.
    ``only_a`` and ``only_b`` count the probes that the other audit did not ask, ``changed`` those under one id whose
    text is another one now: they ask something else and are left out.
    """

    run: str
    by: PairedBy
    frame: pd.DataFrame
    only_a: int
    only_b: int
    changed: int


def pair_probes(run: str, a: pd.DataFrame, b: pd.DataFrame) -> Pairs:
    """Pairs the probes of ``run`` by id, or by text where ids are new.

    ``a`` and ``b`` are the run's published tables. Text decides where fewer probes share an id than share a text: an
    index that was built anew often has new ids for the same chunks. A text that stands several times is paired in the
    order of its ids. A held-out probe asks the same only where the held sentence has the same place.
    """
    a, b = _asked(run, a), _asked(run, b)
    if run == "labelled":
        return _paired(run, "query", a, b, ["probe_id"])
    by_id = _paired(run, "id", a, b, ["probe_id"])
    by_text = _paired(run, "text", _numbered(a), _numbered(b), ["text_sha256", "copy"])
    return by_text if len(by_text.frame) > len(by_id.frame) else by_id


def _asked(run: str, table: pd.DataFrame) -> pd.DataFrame:
    table = table.rename(columns={"query_id": "probe_id", "answer_id": "chunk_id"})
    if "eligible" in table:
        # Sentences that also stand elsewhere are in no figure of held-out retrieval.
        table = table[table["eligible"] & ~table["overlap"].fillna(False).astype(bool)]
    for measure, column in MEASURES[run].items():
        table[measure] = table[column].astype("boolean")
    table["ingestion_date"] = table["ingestion_date"].astype("string")
    kept = ["probe_id", "chunk_id", *STRATA, "cause", *MEASURES[run]]
    return table.reindex(columns=[*kept, "text_sha256", *(["held"] if run == "held_out" else [])])


def _numbered(table: pd.DataFrame) -> pd.DataFrame:
    table = table[table["text_sha256"].notna()].sort_values("probe_id")
    return table.assign(copy=table.groupby("text_sha256").cumcount())


def _paired(run: str, by: PairedBy, a: pd.DataFrame, b: pd.DataFrame, keys: list[str]) -> Pairs:
    if run == "held_out":
        keys = [*keys, "held"]
    merged = a.merge(b, on=keys, suffixes=(" a", " b"))
    only_a, only_b = len(a) - len(merged), len(b) - len(merged)
    changed = 0
    if by != "text":
        one, other = merged["text_sha256 a"], merged["text_sha256 b"]
        other_text = (one.notna() & other.notna() & (one != other)).to_numpy(bool)
        changed = int(other_text.sum())
        merged = merged[~other_text]
    frame = pd.DataFrame(
        {
            "id_a": merged["probe_id a"] if by == "text" else merged["probe_id"],
            "id_b": merged["probe_id b"] if by == "text" else merged["probe_id"],
            **{name: merged[f"{name} b"] for name in STRATA},
            **{f"cause_{side}": merged[f"cause {side}"] for side in "ab"},
            **{f"{measure} {side}": merged[f"{measure} {side}"] for measure in MEASURES[run] for side in "ab"},
        }
    )
    frame = frame.sort_values("id_b").reset_index(drop=True)
    return Pairs(run, by if len(frame) else "nothing", frame, only_a, only_b, changed)
