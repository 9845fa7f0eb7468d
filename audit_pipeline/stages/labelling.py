"""Labelling pairs from a state folder: the queue, the import and the export behind `audit-pipeline label`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from audit_pipeline.corpus.text import normalise, sha256_hex
from audit_pipeline.duplicates.label_files import FORMATS, Format, Row, read_rows, write_rows
from audit_pipeline.duplicates.label_import import (
    COLUMNS,
    REASONS,
    agreement_of,
    check_answers,
    conflicts,
    join,
)
from audit_pipeline.duplicates.label_queue import Pool, draw_queue
from audit_pipeline.duplicates.label_store import read_labels, write_labels
from audit_pipeline.duplicates.shingles import jaccard_and_containment, shingle_sets
from audit_pipeline.errors import AuditInputError
from audit_pipeline.plural import counted
from audit_pipeline.report.wording import agreement_words
from audit_pipeline.stages.labelled_corpus import LabelledCorpus

Text = Literal["full", "excerpt", "none"]
_AROUND, _EXCERPT = 60, 240
_ASKED = ("duplicate", "reason", "labeller")
_TEXTS = ("text_a", "text_b")
QUEUE_COLUMNS = (
    *("nr", *_TEXTS, *_ASKED),
    *("chunk_id_a", "chunk_id_b", "draw", "band", "drawn_from", "fraction", "lanes", "cosine", "jaccard"),
    *("origin", "text_sha256_a", "text_sha256_b"),
)


def label_queue(
    corpus: LabelledCorpus,
    pairs: int,
    seed: int,
    labelled: Sequence[Path],
    text: Text,
    lowest: float | None = None,
) -> list[Row]:
    """Rows of QUEUE_COLUMNS to label, in a random order. Raises AuditInputError where none is left."""
    settings, summary = corpus.report.audit["settings"]["duplicates"], corpus.summary("neighbour_pairs")
    pool = Pool(
        corpus.working("neighbour_pairs", "candidate_pairs"),
        corpus.working("neighbour_pairs", "near_misses"),
        corpus.working("similarity_floor", "random_pairs"),
        summary["neighbours"]["near_misses"],
        summary["pairs"]["possible"],
    )
    queue = draw_queue(pool, settings["thresholds"], pairs, seed, corpus.labelled(labelled), lowest).to_pylist()
    rows: list[Row] = []
    sides = [corpus.texts([row[f"chunk_id_{side}"] for row in queue]) for side in "ab"]
    hashes = [sha256_hex(pa.array(side, pa.string())).to_pylist() for side in sides]
    sets = shingle_sets([*sides[0], *sides[1]], settings["shingle_words"])
    places = pa.array(range(len(queue)), pa.int64()).to_numpy()
    jaccard, _ = jaccard_and_containment(sets, places, places + len(queue))
    for number, row in enumerate(queue):
        a, b = sides[0][number], sides[1][number]
        if normalise(a) == normalise(b):
            continue  # a random pair of copies
        row |= {"nr": len(rows) + 1, "origin": "corpus", "cosine": f"{row['cosine']:.6f}"}
        row |= {"jaccard": f"{jaccard[number]:.4f}", "fraction": f"{row['fraction']:.6g}"}
        row |= {"text_sha256_a": hashes[0][number], "text_sha256_b": hashes[1][number]}
        rows.append(row | shown_texts(a, b, text))
    if not rows:
        raise AuditInputError(
            f"{corpus.report.state.report}: no pair is left to label: every candidate has a label, "
            "or there are none; check duplicates.neighbours"
        )
    return rows


def shown_texts(a: str, b: str, text: Text) -> dict[str, str]:
    """The two texts as they are shown: whole, or from a little before the first place where they differ."""
    if text == "none":
        return {}
    if text == "full":
        return {"text_a": a, "text_b": b}
    first = next((n for n, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))
    start = first - _AROUND if first > _EXCERPT - _AROUND else 0
    start = max(0, start)
    cut = [("… " if start else "") + one[start : start + _EXCERPT] for one in (a, b)]
    return {
        name: shown + (" …" if len(one) > start + _EXCERPT else "")
        for name, shown, one in zip(_TEXTS, cut, (a, b), strict=True)
    }


def import_labels(file: Path, into: Path, labeller: str, corpus: LabelledCorpus | None) -> str:
    """Adds what was answered in ``file`` to the labels ``into``; says what became of the rows.

    Rejected rows stand in ``INTO.rejected.csv`` with their reason until the file is imported without them. Raises
    AuditInputError.
    """
    if into.exists() and file.exists() and into.samefile(file):
        # Labels would take the queue's place: its texts and the rows that nobody has answered yet would be gone.
        raise AuditInputError(f"{file}: answers are not imported into their own file: name another with --into")
    kept = read_labels(into) if into.exists() else []
    if any("nr" in row or not row.get("duplicate") for row in kept):
        raise AuditInputError(f"{into}: is a queue to fill in and no labels file: name another file with --into")
    there = join(kept, [])
    found = check_answers(read_rows(file), labeller, corpus.hashes.get if corpus else None)
    labels = join(there, found.labels)
    write_labels(into, labels)
    rejected = _keep_rejected(into, file.name, found.rejected)
    told = [
        f"{file}: {counted(len(found.labels), 'label')} ({len(labels) - len(there)} new), "
        f"{counted(found.unanswered, 'row')} without an answer, {len(found.rejected)} rejected"
    ]
    told += [f"  {count} rejected: {REASONS[reason]}" for reason, count in found.reasons.items()]
    told += [f"  rejected rows: {rejected}"] if found.rejected else []
    if corpus is None:
        told.append("ids and texts were not checked: no single audit in the state folder; name one with --name")
    yes = sum(row["duplicate"] == "true" for row in labels)
    told.append(
        f"{into}: {counted(len(labels), 'label')}, {counted(yes, 'duplicate')}, {counted(len(labels) - yes, 'other')}"
    )
    disputed = conflicts(labels)
    agreed = agreement_words({"agreement": agreement_of(labels), "conflicts": len(disputed)})
    told += [f"  {agreed}"] if agreed else []
    for rows in disputed:
        told.append(f"  in conflict: {rows[0]['chunk_id_a']} | {rows[0]['chunk_id_b']}: {_said(rows)}")
    if disputed:
        told.append(
            f"  settle them: audit-pipeline label export {into} --conflicts -o conflicts.csv, fill it in, import it"
        )
    return "\n".join(told)


def export_labels(path: Path, only_conflicts: bool, corpus: LabelledCorpus | None, text: Text) -> list[dict[str, Any]]:
    """Rows of the labels with their texts; of pairs in conflict one row each, to be settled. Raises AuditInputError."""
    labels: list[dict[str, Any]] = [dict(row) for row in join(read_labels(path), [])]
    if only_conflicts:
        labels = [
            {**rows[0], "duplicate": "", "reason": "", "labeller": "adjudicated", "judgements": _said(rows)}
            for rows in conflicts(labels)
        ]
    if text == "none":
        return labels
    if corpus is None:
        raise AuditInputError(
            f"{path}: texts are wanted, but not known of which audit: name it with --name, or use --text none"
        )
    sides = [corpus.texts([row[f"chunk_id_{side}"] for row in labels]) for side in "ab"]
    return [row | shown_texts(a, b, text) for row, a, b in zip(labels, *sides, strict=True)]


def export_columns(rows: Sequence[dict[str, Any]], text: Text) -> list[str]:
    """The columns of an export: what is read first, then the labels' own."""
    first = [*(_TEXTS if text != "none" else ()), *(("judgements",) if any("judgements" in r for r in rows) else ())]
    more = sorted({name for row in rows for name in row} - {*first, *COLUMNS})
    return [*first, *_ASKED, *(name for name in COLUMNS if name not in _ASKED), *more]


def queue_columns(text: Text) -> list[str]:
    """The columns of a queue, without those of the texts where none are shown."""
    return [name for name in QUEUE_COLUMNS if text != "none" or name not in _TEXTS]


def format_of(kind: str | None, output: Path | None) -> Format:
    """The format asked for, else that of the file's name, else CSV. Raises AuditInputError for an unknown one."""
    if kind is None:
        return FORMATS.get(output.suffix, "csv") if output else "csv"
    known = {one: one for one in FORMATS.values()}
    if kind not in known:
        raise AuditInputError(f"--format {kind}: there is no such format: use one of {', '.join(known)}")
    return known[kind]


def text_of(text: str) -> Text:
    """How much of the texts to show. Raises AuditInputError for an unknown word."""
    known: dict[str, Text] = {"full": "full", "excerpt": "excerpt", "none": "none"}
    if text not in known:
        raise AuditInputError(f"--text {text}: there is no such amount: use one of {', '.join(known)}")
    return known[text]


def _said(rows: Sequence[dict[str, Any]]) -> str:
    return "; ".join(f"{row.get('labeller') or '(no name)'}: {_yes_or_no(row['duplicate'])}" for row in rows)


def _yes_or_no(duplicate: str) -> str:
    return "yes" if duplicate == "true" else "no"


def _keep_rejected(into: Path, name: str, rejected: list[dict[str, Any]]) -> Path:
    """The rejected rows beside the labels: those of this file replaced, those of others as they were."""
    path = into.with_name(f"{into.stem}.rejected.csv")
    before = [dict(row) for row in read_rows(path)] if path.exists() else []
    rows = [row for row in before if row.get("file") != name]
    rows += [{"file": name, **{key: str(value) for key, value in row.items()}} for row in rejected]
    if rows:
        rows.sort(key=lambda row: (row["file"], int(row["row"])))
        columns = [
            "file",
            "row",
            "rejected",
            *sorted({key for row in rows for key in row} - {"file", "row", "rejected"}),
        ]
        write_rows(rows, columns, "csv", path)
    elif path.exists():
        path.unlink()
    return path
