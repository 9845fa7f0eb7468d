"""Which probe of one audit is the same question as which of another. Nothing is compared or judged here."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

PairedBy = Literal["id", "text", "query", "sentence", "nothing"]


@dataclass(frozen=True)
class Pairs:
    """Probes that both audits asked, one row each.

    ``frame`` has ``id_a, id_b, source, ingestion_date, length_band, cause_a, cause_b`` and of every measure the two
    columns ``<measure> a`` and ``<measure> b`` (nullable booleans); strata are those of the second audit.
    ``only_a`` and ``only_b`` count the probes that the other audit did not ask, ``changed`` those under one id whose
    text is another one now: they ask something else and are left out. ``measures`` are those that are measured.
    """

    run: str
    by: PairedBy
    frame: pd.DataFrame
    only_a: int
    only_b: int
    changed: int
    measures: tuple[str, ...]

    def emptied(self) -> Pairs:
        """The same without any pair: what stands in both by chance is not compared."""
        n = len(self.frame)
        return replace(self, by="nothing", frame=self.frame[:0], only_a=self.only_a + n, only_b=self.only_b + n)


def pair_probes(run: str, a: pd.DataFrame, b: pd.DataFrame) -> Pairs:
    """Pairs the probes of ``run`` by id, by text where ids are new, held-out ones also by the sentence that was held.

    ``a`` and ``b`` are the run's published tables. Text decides where fewer probes share an id than share a text: an
    index that was built anew often has new ids for the same chunks. A text that stands several times is paired in the
    order of its ids. By id or text a held-out probe asks the same only where the held sentence has the same place;
    by its sentence whatever chunk it was held out of, so that indexes of other chunking pair (``sample.like``).
    """
    a, b = _asked(run, a), _asked(run, b)
    place = ["held"] if run == "held_out" else []
    pairs = [_paired(run, "query" if run == "labelled" else "id", a, b, ["probe_id", *place])]
    pairs.append(_paired(run, "text", _numbered(a), _numbered(b), ["text_sha256", "copy", *place]))
    if run == "held_out":
        pairs.append(_paired(run, "sentence", _of_one_sentence(a), _of_one_sentence(b), ["held_sha256"]))
    best = max(pairs, key=lambda pair: len(pair.frame))  # the first among equals
    # Sentences and texts without a hash were asked as well.
    return replace(best, only_a=len(a) - len(best.frame) - best.changed, only_b=len(b) - len(best.frame) - best.changed)


def _asked(run: str, table: pd.DataFrame) -> pd.DataFrame:
    table = table.rename(columns={"query_id": "probe_id", "answer_id": "chunk_id"})
    if "eligible" in table:
        # Sentences that also stand elsewhere are in no figure of held-out retrieval.
        table = table[table["eligible"] & ~table["overlap"].fillna(False).astype(bool)]
    for measure, column in MEASURES[run].items():
        table[measure] = table[column].astype("boolean")
    table["ingestion_date"] = table["ingestion_date"].astype("string")
    kept = ["probe_id", "chunk_id", *STRATA, "cause", *MEASURES[run]]
    only = ["held", "held_sha256"] if run == "held_out" else []
    return table.reindex(columns=[*kept, "text_sha256", *only])


def _numbered(table: pd.DataFrame) -> pd.DataFrame:
    table = table[table["text_sha256"].notna()].sort_values("probe_id")
    return table.assign(copy=table.groupby("text_sha256").cumcount())


def _of_one_sentence(table: pd.DataFrame) -> pd.DataFrame:
    """The probes whose sentence no other probe asks."""
    known = table[table["held_sha256"].notna()]
    return known[~known["held_sha256"].duplicated(keep=False)]


def _paired(run: str, by: PairedBy, a: pd.DataFrame, b: pd.DataFrame, keys: list[str]) -> Pairs:
    merged = a.merge(b, on=keys, suffixes=(" a", " b"))
    only_a, only_b = len(a) - len(merged), len(b) - len(merged)
    changed = 0
    if by in ("id", "query"):
        one, other = merged["text_sha256 a"], merged["text_sha256 b"]
        other_text = (one.notna() & other.notna() & (one != other)).to_numpy(bool)
        changed = int(other_text.sum())
        merged = merged[~other_text]
    frame = pd.DataFrame(
        {
            "id_a": merged["probe_id" if by in ("id", "query") else "probe_id a"],
            "id_b": merged["probe_id" if by in ("id", "query") else "probe_id b"],
            **{name: merged[f"{name} b"] for name in STRATA},
            **{f"cause_{side}": merged[f"cause {side}"] for side in "ab"},
            **{f"{measure} {side}": merged[f"{measure} {side}"] for measure in MEASURES[run] for side in "ab"},
        }
    )
    frame = frame.sort_values("id_b").reset_index(drop=True)
    return Pairs(run, by if len(frame) else "nothing", frame, only_a, only_b, changed, tuple(MEASURES[run]))
