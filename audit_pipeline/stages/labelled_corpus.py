"""The corpus of the last audit of an index, as far as labels of pairs need it. What is labelled stands in labelling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from audit_pipeline.corpus.text import sha256_hex
from audit_pipeline.duplicates.label_store import read_labels
from audit_pipeline.duplicates.labelled_pairs import in_table_ids
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.pairing import STORE_ID
from audit_pipeline.report.loading import LoadedReport, chunk_files, load
from audit_pipeline.state import read_json, read_table


@dataclass(frozen=True)
class LabelledCorpus:
    """The corpus of the last audit of an index, as far as labels need it."""

    report: LoadedReport

    def working(self, stage: str, name: str) -> pa.Table:
        """A working table of the last audit. Raises AuditInputError where there is none."""
        path = self.report.state.corpus / stage / f"{name}.parquet"
        if not path.exists():
            raise AuditInputError(f"{path}: the last audit left no such table: run the audit again with this version")
        return read_table(path)

    def summary(self, stage: str) -> dict[str, Any]:
        return read_json(self.report.state.corpus / stage / "stage.json")["summary"]

    @cached_property
    def chunks(self) -> pa.Table:
        """chunk_id, text_sha256 and, where rows were paired by text, store_id of each chunk the store has."""
        names = ["chunk_id", "text_sha256", STORE_ID]
        parts = [pa.table({name: pa.array([], pa.string()) for name in names[:2]})]
        for path in chunk_files(self.report.state):
            there = pq.read_schema(path).names
            parts.append(read_table(path, [name for name in names if name in there]))
        return pa.concat_tables(parts, promote_options="default")

    @cached_property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of the text by id: the table's, and by the store's id the store's."""
        found: dict[str, str] = {}
        for name in (STORE_ID, "chunk_id"):
            if name in self.chunks.column_names:
                ids, hashes = self.chunks[name].to_pylist(), self.chunks["text_sha256"].to_pylist()
                found.update(zip(reversed(ids), reversed(hashes), strict=True))
        other = self.working("neighbour_pairs", "other_texts")
        found.update(zip(other["chunk_id"].to_pylist(), sha256_hex(other["text"]).to_pylist(), strict=True))
        return found

    @cached_property
    def _text_by_id(self) -> dict[str, str]:
        other = self.working("neighbour_pairs", "other_texts")
        return dict(zip(other["chunk_id"].to_pylist(), other["text"].to_pylist(), strict=True))

    def texts(self, ids: Sequence[str]) -> list[str]:
        """The text of each id, of the table's row where it differs from the store's; empty for an unknown id."""
        wanted = pa.array(sorted(set(ids) - self._text_by_id.keys()), pa.string())
        found: dict[str, str] = {}
        for path in chunk_files(self.report.state):
            table = read_table(path)
            for name in ("chunk_id", STORE_ID):
                if name in table.column_names:
                    part = table.filter(pc.is_in(table[name], value_set=wanted))
                    for chunk_id, text in zip(part[name].to_pylist(), part["text"].to_pylist(), strict=True):
                        found.setdefault(chunk_id, text)
        found |= self._text_by_id
        return [found.get(chunk_id) or "" for chunk_id in ids]

    def labelled(self, files: Sequence[Path]) -> pa.Table | None:
        """Pairs (a < b) that labels.pairs or one of the files has a label of, their texts being what they were."""
        configured = self.report.audit["settings"]["labels"]["pairs"]
        paths = [*files, *([Path(configured)] if configured and Path(configured).exists() else [])]
        rows = [row for path in paths for row in read_labels(path)]
        valid = [
            row
            for row in rows
            if all(
                self.hashes.get(row.get(f"chunk_id_{side}", "")) is not None
                and row.get(f"text_sha256_{side}", "") in ("", self.hashes[row[f"chunk_id_{side}"]])
                for side in "ab"
            )
        ]
        if not valid:
            return None
        names = ("chunk_id_a", "chunk_id_b")
        table = pa.table({name: pa.array([row[name] for row in valid], pa.string()) for name in names})
        if STORE_ID in self.chunks.column_names:
            table = in_table_ids(table.combine_chunks(), self.chunks)
        a, b = table["chunk_id_a"], table["chunk_id_b"]
        return pa.table({"chunk_id_a": pc.min_element_wise(a, b), "chunk_id_b": pc.max_element_wise(a, b)})


def corpus_of(root: Path, name: str | None) -> LabelledCorpus | None:
    """The corpus of the index of this name; without a name that of the only audit in the folder, else None."""
    if name is not None:
        return LabelledCorpus(load(root, name))
    reports = sorted(path.parent for path in (root / "reports").glob("*/audit.json"))
    return LabelledCorpus(load(root, reports[0].name)) if len(reports) == 1 else None
