"""BEIR folders of each retrieval run: corpus, queries and judgements. No ranking and no figure belongs here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.report.trec import safe_ids

_BLOCK = 50_000


@dataclass(frozen=True)
class ExportTexts:
    """What was asked and what is there to be found, without prompts; a null text is one that may not be shown.

    ``corpus`` has chunk_id and text of all chunks, each id once; ``queries`` run, query_id and text; ``bodies``
    chunk_id and text of the chunks that held-out retrieval puts into the corpus without their held sentence.
    """

    corpus: pa.Table
    queries: pa.Table
    bodies: pa.Table

    def withheld(self) -> ExportTexts:
        """The same without any text: ids only."""
        return ExportTexts(*(_without_text(table) for table in (self.corpus, self.queries, self.bodies)))


def write_beir(folder: Path, texts: ExportTexts, qrels: pa.Table) -> list[Path]:
    """Writes <run>/corpus.jsonl, <run>/queries.jsonl and <run>/qrels/test.tsv for every run in ``qrels``.

    The layout of Thakur et al. (2021), as ``beir`` and ``mteb`` load it: ``_id, title, text`` with an empty title, for
    the text is what was embedded; ``_id, text``; tab-separated ``query-id, corpus-id, score`` with a header. Ids are
    those of the TREC files, so that a run can be judged with either; ``texts.queries`` names queries as ``qrels`` does.
    """
    written = []
    for run in sorted(pc.unique(qrels["run"]).to_pylist()):
        place = folder / run
        (place / "qrels").mkdir(parents=True, exist_ok=True)
        judged = qrels.filter(pc.equal(qrels["run"], run)).sort_by(
            [("query_id", "ascending"), ("chunk_id", "ascending")]
        )
        asked = texts.queries.filter(
            pc.and_(
                pc.equal(texts.queries["run"], run),
                pc.is_in(texts.queries["query_id"], value_set=pc.unique(judged["query_id"])),
            )
        ).sort_by("query_id")
        corpus = _with_bodies(texts.corpus, texts.bodies) if run == "held_out" else texts.corpus
        corpus = corpus.sort_by("chunk_id")
        titles = pa.repeat(pa.scalar(""), corpus.num_rows)
        written += [place / "corpus.jsonl", place / "queries.jsonl", place / "qrels" / "test.tsv"]
        _write_json_lines(written[-3], {"_id": safe_ids(corpus["chunk_id"]), "title": titles, "text": corpus["text"]})
        _write_json_lines(written[-2], {"_id": safe_ids(asked["query_id"]), "text": asked["text"]})
        _write_qrels(written[-1], judged)
    return written


def _with_bodies(corpus: pa.Table, bodies: pa.Table) -> pa.Table:
    place = pc.index_in(corpus["chunk_id"], value_set=bodies["chunk_id"].combine_chunks())
    text = pc.if_else(pc.is_valid(place), bodies["text"].take(place), corpus["text"])
    return corpus.set_column(corpus.schema.get_field_index("text"), "text", text)


def _write_json_lines(path: Path, columns: dict[str, pa.ChunkedArray | pa.Array]) -> None:
    table = pa.table(columns)
    text = table.schema.get_field_index("text")
    table = table.set_column(text, "text", pc.fill_null(table["text"], ""))
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for start in range(0, table.num_rows, _BLOCK):
            rows: pd.DataFrame = table.slice(start, _BLOCK).to_pandas()
            rows.to_json(file, orient="records", lines=True, force_ascii=False)


def _write_qrels(path: Path, judged: pa.Table) -> None:
    columns = [safe_ids(judged["query_id"]), safe_ids(judged["chunk_id"]), pc.cast(judged["relevance"], pa.string())]
    lines = pc.binary_join_element_wise(*columns, "\t")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        file.writelines(f"{line}\n" for line in lines.to_pylist())


def _without_text(table: pa.Table) -> pa.Table:
    column = table.schema.get_field_index("text")
    return table.set_column(column, "text", pa.nulls(table.num_rows, table.schema.field(column).type))
