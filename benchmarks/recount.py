"""The demo's sweep a second time: every row from the published pairs by pandas, scikit-learn and plain loops.

Run as ``python -m benchmarks.recount [STATE] [NAME]`` after an audit; exits 1 where a figure differs. It uses nothing
of the sweep's own code: only the labels file, the report's tables, and the ids, texts and vectors of the index.
"""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd

DRAWS = 1000
MONTE_CARLO = 0.03
"""How far the ends of two bootstrap intervals may lie apart: 3.5 times their own error at so many draws, for a spread
of .08, that of the highest row of the demo. A normal quantile of 2.5 % has 2.7 spreads / sqrt(draws)."""
EXACT = (
    *("tp", "fp", "fn", "precision", "precision_queue", "precision_queue_n", "recall_scored", "recall_pipeline"),
    *("flagged", "to_read", "flagged_per_10k_candidates", "flagged_per_10k_chunks", "expected_all_pairs"),
    *("saturated_rows", "threshold_store_score", "precision_gained", "recall_paid", "exchange", "inverted"),
    "recommended",
)
INTERVALS = ("precision", "precision_queue", "recall_pipeline")


class Recount:
    """What the figures are made of: ``rows`` (chunk_id, text, vector of an index without repeated ids), the published
    ``pairs`` and ``sweep``, and ``labels`` as they stand in their file.
    """

    def __init__(self, rows: pd.DataFrame, pairs: pd.DataFrame, sweep: pd.DataFrame, labels: pd.DataFrame) -> None:
        self.sweep = sweep.sort_values("threshold").reset_index(drop=True)
        self.chunks = len(rows)
        self.text = {key: same_text(text) for key, text in zip(rows["chunk_id"], rows["text"], strict=True)}
        vectors = np.stack(rows["vector"].to_numpy()).astype(np.float64)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.place = {key: number for number, key in enumerate(rows["chunk_id"])}
        self.pairs = pairs[~pairs["window"]].copy()
        self.pairs["copies"] = [self.text[a] == self.text[b] for a, b in self.ids_of(self.pairs)]
        self.labels = self._judged(labels)

    @staticmethod
    def ids_of(pairs: pd.DataFrame) -> list[tuple[str, str]]:
        return list(zip(pairs["chunk_id_a"], pairs["chunk_id_b"], strict=True))

    def _judged(self, labels: pd.DataFrame) -> pd.DataFrame:
        """Each labelled pair of the corpus once, with its cosine, whether it is a candidate, and its weight."""
        found = pd.DataFrame([sorted(pair) for pair in self.ids_of(labels)], columns=["a", "b"])
        found["same"] = labels["duplicate"].astype(str).str.lower().isin(["true", "1", "yes"]).to_numpy()
        found["band"] = labels["band"].fillna("").to_numpy() if "band" in labels else ""
        found = found[(labels["origin"] == "corpus").to_numpy()].drop_duplicates(["a", "b"]).reset_index(drop=True)
        # Rounded, so that equal cosines are ties in whatever order their products were summed.
        found["cosine"] = [round(self.cosine(a, b), 12) for a, b in zip(found["a"], found["b"], strict=True)]
        known = {frozenset((self.text[a], self.text[b])) for a, b in self.ids_of(self.pairs)}
        found["candidate"] = [
            self.text[a] == self.text[b] or frozenset((self.text[a], self.text[b])) in known
            for a, b in zip(found["a"], found["b"], strict=True)
        ]
        readable = self.pairs.loc[~self.pairs["copies"], "cosine"]
        found["weight"] = 0.0
        banded = found[found["band"] != ""]
        ends = banded["band"].str.split("-", expand=True).astype(float) if len(banded) else pd.DataFrame({0: [], 1: []})
        below = banded["cosine"] < ends[0] - 1e-3
        above = (banded["cosine"] > ends[1] + 1e-3) & (ends[1] < 1)
        if (below | above).sum() * 50 > len(banded):  # drawn under other vectors: they say nothing of these candidates
            return found
        for band, part in banded.groupby("band"):
            low, high = (float(end) for end in str(band).split("-"))
            stands_for = int(((readable >= low) & (readable < (high if high < 1 else math.inf))).sum())
            found.loc[part.index, "weight"] = stands_for / len(part)
        return found

    def cosine(self, a: str, b: str) -> float:
        return float(self.vectors[self.place[a]] @ self.vectors[self.place[b]])

    def figures(self, neighbours: int) -> pd.DataFrame:
        """Every column of EXACT, a row a threshold."""
        from sklearn.metrics import precision_score, recall_score

        labels, same = self.labels, self.labels["same"].to_numpy()
        last = self.last_neighbours(neighbours)
        rows = []
        for row in self.sweep.itertuples():
            cut = row.threshold - 1e-6
            passes = (labels["cosine"] >= cut).to_numpy()
            flagged = self.pairs[self.pairs["cosine"] >= cut]
            weighted = labels.loc[passes, "weight"].sum() > 0
            found = {
                "threshold": row.threshold,
                "tp": int((passes & same).sum()),
                "fp": int((passes & ~same).sum()),
                "fn": int((~passes & same).sum()),
                "precision": precision_score(same, passes) if passes.any() else None,
                "precision_queue": precision_score(same, passes, sample_weight=labels["weight"]) if weighted else None,
                "precision_queue_n": int((labels.loc[passes, "weight"] > 0).sum()),
                "recall_scored": recall_score(same, passes),
                "recall_pipeline": recall_score(same, passes & labels["candidate"].to_numpy()),
                "flagged": len(flagged),
                "to_read": int((~flagged["copies"]).sum()),
                "flagged_per_10k_candidates": len(flagged) / len(self.pairs) * 10_000,
                "flagged_per_10k_chunks": len(flagged) / self.chunks * 10_000,
                "expected_all_pairs": row.random_share * math.comb(self.chunks, 2),
                "saturated_rows": int((last >= cut).sum()),
                "threshold_store_score": 1 - row.threshold,
                **{"precision_gained": None, "recall_paid": None, "exchange": None, "inverted": None},
            }
            if rows and found["precision"] is not None and rows[-1]["precision"] is not None:
                gained = found["precision"] - rows[-1]["precision"]
                paid = rows[-1]["recall_pipeline"] - found["recall_pipeline"]
                found |= {"precision_gained": gained, "recall_paid": paid, "inverted": paid > 1e-9 and paid > gained}
                found["exchange"] = gained / paid if paid > 1e-9 else None
            rows.append(found)
        return pd.DataFrame(rows)

    def recommended(self, figures: pd.DataFrame, auc_low: float) -> float | None:
        """The threshold of the largest precision + recall, the highest of equals; None where the labels forbid one."""
        if min(self.labels["same"].sum(), (~self.labels["same"]).sum()) < 30 or auc_low < 0.75:
            return None
        total = (figures["precision"].astype(float) + figures["recall_pipeline"]).dropna()
        return float(figures.loc[total[total >= total.max() - 1e-9].index[-1], "threshold"])

    def last_neighbours(self, neighbours: int) -> np.ndarray:
        """Cosine of the last neighbour of each distinct text, among distinct texts; the first by id stands for each."""
        first: dict[str, int] = {}
        for key in sorted(self.place):
            first.setdefault(self.text[key], self.place[key])
        vectors = self.vectors[list(first.values())]
        cosine = vectors @ vectors.T
        np.fill_diagonal(cosine, -np.inf)
        return np.sort(cosine, axis=1)[:, -neighbours] if len(cosine) > neighbours else np.full(len(cosine), -np.inf)

    def random_shares(self) -> list[float]:
        """The share of all pairs of chunks that reaches each threshold: what the draw of the floor estimates."""
        counts = np.zeros(len(self.sweep))
        cuts = self.sweep["threshold"].to_numpy() - 1e-6
        for start in range(0, self.chunks, 1000):
            cosine = self.vectors[start : start + 1000] @ self.vectors.T
            above = np.arange(self.chunks)[None, :] > np.arange(start, start + len(cosine))[:, None]
            counts += [(above & (cosine >= cut)).sum() for cut in cuts]
        return list(counts / math.comb(self.chunks, 2))

    def bootstrap(self, count: int = DRAWS, seed: int = 12345) -> pd.DataFrame:
        """A second bootstrap, one row a draw: whole families of labels drawn with replacement.

        Where one family holds more than a third of the labels, chunks are drawn instead, and a label is there once for
        each pair of its chunks' copies.
        """
        from sklearn.metrics import roc_auc_score

        generator = np.random.default_rng(seed)
        families = [np.array(rows) for rows in self.families()]
        by_chunk = self.draws_chunks()
        chunks = sorted({*self.labels["a"], *self.labels["b"]})
        ends = [[chunks.index(chunk) for chunk in self.labels[side]] for side in "ab"]
        same, cosine = self.labels["same"].to_numpy(), self.labels["cosine"].to_numpy()
        weight, candidate = self.labels["weight"].to_numpy(), self.labels["candidate"].to_numpy()
        lowest, thresholds = self.sweep["threshold"].iloc[0] - 1e-6, self.sweep["threshold"]
        draws = []
        for _ in range(count):
            if by_chunk:
                copies = np.bincount(generator.integers(0, len(chunks), len(chunks)), minlength=len(chunks))
                rows = np.repeat(np.arange(len(self.labels)), copies[ends[0]] * copies[ends[1]])
            else:
                rows = np.concatenate([families[n] for n in generator.integers(0, len(families), len(families))])
            y, score, each = same[rows], cosine[rows], weight[rows]
            over = (score >= lowest) & (each > 0)
            draw = {"auc": roc_auc_score(y, score) if 0 < y.sum() < len(y) else np.nan}
            if over.any() and 0 < y[over].sum() < over.sum():
                draw["auc_candidates"] = roc_auc_score(y[over], score[over], sample_weight=each[over])
            for threshold in thresholds:
                passes = score >= threshold - 1e-6
                draw[f"precision {threshold}"] = y[passes].mean() if passes.any() else np.nan
                heavy = each[passes].sum()
                draw[f"precision_queue {threshold}"] = each[passes & y].sum() / heavy if heavy > 0 else np.nan
                draw[f"recall_pipeline {threshold}"] = (passes & y & candidate[rows]).sum() / max(y.sum(), 1)
            draws.append(draw)
        return pd.DataFrame(draws)

    def draws_chunks(self) -> bool:
        return 3 * max(map(len, self.families())) > len(self.labels)

    def families(self) -> list[list[int]]:
        """Labels that share a chunk, or are tied by others that do: found by walking from label to label."""
        at: dict[str, list[int]] = defaultdict(list)
        for number, (a, b) in enumerate(zip(self.labels["a"], self.labels["b"], strict=True)):
            at[a].append(number)
            at[b].append(number)
        seen: set[int] = set()
        found = []
        for start in range(len(self.labels)):
            if start in seen:
                continue
            seen.add(start)
            family, waiting = [], [start]
            while waiting:
                one = waiting.pop()
                family.append(one)
                for chunk in (self.labels["a"][one], self.labels["b"][one]):
                    new = [other for other in at[chunk] if other not in seen]
                    seen.update(new)
                    waiting += new
            found.append(family)
        return found


def same_text(text: str) -> str:
    """The text as two copies of it share it: one Unicode form, no case, white space as one space."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


def disagreements(
    recount: Recount, duplicates: dict, neighbours: int, draws_made: int = DRAWS, apart: float = MONTE_CARLO
) -> list[str]:
    """Every published figure that the recount does not confirm; ``duplicates`` is that part of audit.json.

    The ends of bootstrap intervals may lie ``apart`` from those of ``draws_made`` draws.
    """
    from sklearn.metrics import roc_auc_score

    found = recount.figures(neighbours)
    draws = recount.bootstrap(draws_made)
    labels, separation = recount.labels, duplicates["separation"]
    wrong = []

    def check(what: str, published: object, counted: object, room: float = 1e-9) -> None:
        one, other = (None if value is None or value != value else float(value) for value in (published, counted))
        if (one is None) != (other is None) or (one is not None and abs(one - other) > room * max(1.0, abs(one))):
            wrong.append(f"{what}: published {published}, counted {counted}")

    over = (labels["cosine"] >= recount.sweep["threshold"].iloc[0] - 1e-6) & (labels["weight"] > 0)
    way = "chunks" if recount.draws_chunks() else "components"
    if separation["drawn_by"] != way:
        wrong.append(f"drawn by: published {separation['drawn_by']}, counted {way}")
    check("AUC of the labels", separation["labels"]["value"], roc_auc_score(labels["same"], labels["cosine"]))
    check("its low end", separation["labels"]["low"], draws["auc"].quantile(0.025), apart)
    if separation["candidates"] is not None:
        part = labels[over]
        area = roc_auc_score(part["same"], part["cosine"], sample_weight=part["weight"])
        check("AUC of the candidates", separation["candidates"]["value"], area)
        low = draws["auc_candidates"].quantile(0.025)
        check("its low end", separation["candidates"]["low"], low, apart)
    deciding = separation[separation["decides"]]["low"]
    chosen = recount.recommended(found, deciding)
    check("recommended", duplicates["recommended"]["threshold"], chosen)
    found["recommended"] = found["threshold"] == chosen
    for published, counted in zip(recount.sweep.to_dict("records"), found.to_dict("records"), strict=True):
        for name in EXACT:
            check(f"{name} at {counted['threshold']:g}", published[name], counted[name])
        for name in INTERVALS:
            values = draws[f"{name} {counted['threshold']}"]
            for end, at in (("low", 0.025), ("high", 0.975)):
                what = f"{name}_{end} at {counted['threshold']:g}"
                check(what, published[f"{name}_{end}"], values.quantile(at), apart)
    n = duplicates["floor"]["n"]
    every = n == math.comb(recount.chunks, 2)
    for row, share in zip(recount.sweep.itertuples(), recount.random_shares(), strict=True):
        room = 1e-12 if every else 4.5 * math.sqrt(share * (1 - share) / n) + 2 / n
        if abs(row.random_share - share) > room:
            wrong.append(f"random_share at {row.threshold:g}: drawn {row.random_share}, of all pairs {share}")
    return wrong


def recount_of(state: Path, name: str) -> tuple[Recount, dict, int]:
    """The recount of an audit's report, its duplicates part, and the neighbours it asked for."""
    import lancedb

    report = state / "reports" / name
    audit = json.loads((report / "audit.json").read_text(encoding="utf-8"))
    index = audit["settings"]["index"]
    uri = index["uri"] or str(state / "index" / f"{name}.lance")
    columns = ["chunk_id", "text", "vector"]
    rows = lancedb.connect(uri).open_table(index["table"]).search().select(columns).limit(None).to_arrow().to_pandas()
    tables = [
        pd.read_parquet(report / "tables" / f"{table}.parquet") for table in ("candidate_pairs", "threshold_sweep")
    ]
    labels = pd.read_csv(audit["settings"]["labels"]["pairs"])
    return Recount(rows, *tables, labels), audit["duplicates"], audit["settings"]["duplicates"]["neighbours"]


def main() -> int:
    """Recounts the sweep of an audit and prints what differs."""
    state, name = Path(sys.argv[1] if len(sys.argv) > 1 else ".audit"), sys.argv[2] if len(sys.argv) > 2 else "demo"
    recount, duplicates, neighbours = recount_of(state, name)
    wrong = disagreements(recount, duplicates, neighbours)
    rows, labels = len(recount.sweep), len(recount.labels)
    print(f"{name}: {recount.chunks:,} chunks, {len(recount.pairs):,} candidate pairs, {labels:,} labels")
    print("\n".join(wrong) or f"{rows} rows x {len(EXACT) + 2 * len(INTERVALS) + 1} figures recounted: all agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
