"""The settings of one audited index: fields, defaults and checks that need no data. The encoder has its own file."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from typing import Annotated, Literal, TypeVar
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from audit_pipeline.alert_settings import AlertSettings
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.format_settings import LanceSettings, MarkdownSettings
from audit_pipeline.second_settings import SecondVectorSettings
from audit_pipeline.settings_base import Settings

NAME_PATTERN = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")

ColumnPath = str | list[str]
CHUNK_COLUMNS = ("chunk_id", "text", "source", "ingestion_date", "doc_id", "heading", "position")
COMPOSITE_COLUMNS = ("chunk_id", "source", "doc_id", "heading")
_Column = TypeVar("_Column")

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class SourceSettings(Settings):
    """One part of the source store: what should be in the index."""

    name: str = Field(description="Source name as it appears in findings; '*' takes every value of the source column.")
    uri: str = Field(
        description=(
            "File, folder or glob; for format lance a table (x.lance) or its database, for docstrings the name of an "
            "installed distribution."
        )
    )
    format: Literal["parquet", "jsonl", "csv", "lance", "markdown", "docstrings"] = Field(
        description="How the rows are stored."
    )
    columns: dict[str, ColumnPath | None] = Field(
        default_factory=dict,
        description=(
            "Where each chunk field stands in the data: {chunk_id: id, text: body}; default: the same names. A column; "
            "metadata.source in a struct; payload$.content in a JSON string; a list for a composite chunk_id, source, "
            "doc_id or heading, as in index.columns; null where a column of that name means something else."
        ),
    )
    ingestion_date: dt.date | None = Field(
        default=None, description="Date of all rows where the data has no date column; default: the file's date."
    )
    retired: bool = Field(
        default=False,
        description=(
            "A managed index only: nothing comes from here any more, and nothing is read. The rows it brought stay in "
            "the table and in every audit; without the entry they would be deleted."
        ),
    )
    packages: list[str] = Field(
        default_factory=list,
        description="Format docstrings only: dotted packages to read; default: all of the distribution but its tests.",
    )
    markdown: MarkdownSettings | None = Field(
        default=None, description="Format markdown only: how files are cut into chunks, under their headings."
    )

    lance: LanceSettings | None = Field(default=None, description="Format lance only: which table, which version.")

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, columns: dict[str, ColumnPath | None]) -> dict[str, ColumnPath | None]:
        for field in ("chunk_id", "text"):
            if field in columns and columns[field] is None:
                raise ValueError(f"{field!r} cannot be null: name its column, a source store needs it")
        return _check_columns(_check_lists(columns), CHUNK_COLUMNS)

    @model_validator(mode="after")
    def _packages_only_for_docstrings(self) -> SourceSettings:
        if self.packages and self.format != "docstrings":
            raise ValueError("'packages' belongs to format docstrings: remove it or change the format")
        return self

    @model_validator(mode="after")
    def _fields_of_one_format(self) -> SourceSettings:
        for name in ("markdown", "lance"):
            if getattr(self, name) is not None and self.format != name:
                raise ValueError(f"{name!r} belongs to format {name}: remove it or change the format")
        others = [field for field in self.columns if field != "ingestion_date"]
        if self.format == "markdown" and others:
            raise ValueError(
                f"'columns' of format markdown names the date in the front matter alone: remove {others[0]!r}, "
                "which comes from the file"
            )
        return self


class VectorIndexSettings(Settings):
    """The ANN index of a managed table."""

    type: Literal["IVF_HNSW_SQ", "IVF_HNSW_PQ", "IVF_PQ", "IVF_FLAT", "none"] = Field(
        default="IVF_HNSW_SQ", description="LanceDB index type; none keeps the search exact."
    )
    min_rows: int = Field(
        default=5000, ge=256, description="Under this many rows no ANN index is built and the search stays exact."
    )


class SearchSettings(Settings):
    """The search as the application sends it."""

    limit: int = Field(default=10, ge=1, description="Rows the application asks for.")
    nprobes: int | None = Field(default=None, ge=1, description="IVF partitions searched; default: LanceDB's own.")
    ef: int | None = Field(default=128, ge=1, description="HNSW search breadth; ignored by other index types.")
    refine_factor: int | None = Field(default=None, ge=1, description="Re-rank limit x factor rows exactly.")
    fast_search: bool = Field(default=False, description="Search indexed rows only.")
    prefilter: bool = Field(default=True, description="Filter before the search (true) or after it (false).")
    min_score: float | None = Field(default=None, description="The application's cut-off, in the store's distance.")


class IndexSettings(Settings):
    """The LanceDB table under audit."""

    uri: str | None = Field(
        default=None, description="LanceDB folder or object store URI; default: in the state folder."
    )
    table: str = Field(default="chunks", description="Name of the table; '*': all tables of one shape, each a source.")
    managed: bool = Field(
        default=True, description="true: this project writes the table; false: read only, as it stands."
    )
    layout: Literal[
        "auto",
        "plain",
        "langchain",
        "llama_index",
        "haystack",
        "haiku_rag",
        "anythingllm",
        "agno",
        "crewai",
        "cognee",
        "openclaw",
        "nv_ingest",
        "graphrag",
        "lancedb_registry",
    ] = Field(default="auto", description="Shape of a table written by something else; auto recognises it.")
    columns: dict[str, ColumnPath | None] = Field(
        default_factory=dict,
        description=(
            "Where each field stands in the table; default: the same names. A column; metadata.source in a struct; "
            "payload$.content in a JSON string; documents[id=document_id].uri in another table; a list for a composite "
            "chunk_id, source, doc_id or heading; null where the table has no such field."
        ),
    )
    embed_text: str | None = Field(
        default=None,
        description="What was encoded: a column, or a template such as '{heading}\\n\\n{text}'; default: the text.",
    )
    metric: Literal["cosine", "l2", "dot"] = Field(
        default="cosine", description="Metric the application searches with."
    )
    filter: str | None = Field(
        default=None,
        description=(
            "SQL filter that the application always sends; {column} or '{column}' is filled from the probe's own row "
            "(tenants), {{ and }} are braces."
        ),
    )
    vector_index: VectorIndexSettings = Field(default_factory=VectorIndexSettings, description="ANN index to build.")
    search: SearchSettings = Field(default_factory=SearchSettings, description="The application's search.")
    storage_options: dict[str, str] = Field(default_factory=dict, description="Object store options for LanceDB.")

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, columns: dict[str, ColumnPath | None]) -> dict[str, ColumnPath | None]:
        if "vector" in columns and columns["vector"] is None:
            raise ValueError("'vector' cannot be null: name the column of the vectors")
        return _check_columns(_check_lists(columns), (*CHUNK_COLUMNS, "vector"))


class SampleSettings(Settings):
    """How many probes, and how they are drawn."""

    per_batch: int | None = Field(default=None, ge=1, description="Most probes of one batch; null: no cap.")
    total: int = Field(default=2000, ge=1, description="Probes over the whole corpus.")
    fingerprint_per_batch: int = Field(default=4, ge=4, description="Rows re-encoded per batch to check its vectors.")
    arms: int = Field(
        default=100,
        ge=0,
        description="Held-out and labelled queries, each, that are asked under every known prompt; 0: none.",
    )
    ann_sweep: int = Field(
        default=100,
        ge=0,
        description="Held-out and labelled queries that are asked under other nprobes, ef and refine_factor; 0: none.",
    )
    seed: int = Field(default=0, description="Another seed draws other probes.")
    held_out: Literal["middle", "first", "heading", "last", "random"] = Field(
        default="middle", description="Which sentence is held out as the query."
    )
    like: str | None = Field(
        default=None,
        description=(
            "Report folder of another audit of the same corpus: its held-out sentences are asked of this index too, "
            "wherever its chunks hold them, so that `compare` pairs indexes of other chunking. It takes the place of "
            "held_out and min_sentences; self-retrieval is drawn as ever."
        ),
    )
    min_sentences: int = Field(default=3, ge=2, description="Sentences a chunk needs to be held out from.")
    min_words: int = Field(
        default=5, ge=1, description="Words the held sentence needs; with like, words that are left."
    )


class LabelSettings(Settings):
    """What the team has judged, where it has."""

    queries: str | None = Field(
        default=None, description="jsonl: BEIR (_id, text) or query with chunk_id, doc_id, contains."
    )
    qrels: str | None = Field(default=None, description="tsv: query-id, corpus-id, score. Needed by BEIR queries.")
    pairs: str | None = Field(
        default=None,
        description="chunk_id_a, chunk_id_b, duplicate (true, false), origin (corpus|constructed)",
    )
    observed: str | None = Field(
        default=None,
        description=(
            "parquet or jsonl: query, vector, returned_ids as the application sent and got them; of a longer log "
            "sample.total rows are used."
        ),
    )
    see_also: bool = Field(
        default=False,
        description="Take numpydoc 'See Also' descriptions of docstrings sources as labelled queries.",
    )

    @model_validator(mode="after")
    def _supported(self) -> LabelSettings:
        if self.qrels and not self.queries:
            raise ValueError("'qrels' without 'queries': name the file with the query texts as well")
        return self


class DuplicateSettings(Settings):
    """Lanes, verification and sweep of the near-duplicate search."""

    shingle_words: int = Field(default=5, ge=1, description="Words in a shingle.")
    permutations: int = Field(default=128, ge=16, description="Hash functions of a MinHash signature.")
    bands: int = Field(default=32, ge=1, description="LSH bands; permutations must divide by it.")
    jaccard: Share = Field(default=0.7, description="Jaccard at which a candidate pair is verified.")
    containment: Share = Field(default=0.9, description="Containment at which a candidate pair is verified.")
    neighbours: int = Field(default=20, ge=1, description="Distinct texts kept as neighbours of each.")
    thresholds: list[Share] = Field(
        default=[0.90, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99], min_length=2, description="Cosine thresholds of the sweep."
    )
    regime: Literal["stored", "query"] = Field(
        default="stored",
        description=(
            "stored: stored vectors on both sides. query: the newer text of a pair in the query role against the older "
            "one's stored vector, for a team that checks new text so; encodes every text once more."
        ),
    )
    second: SecondVectorSettings | None = Field(
        default=None, description="Second vectors, under another prompt, to judge by the same labels; null: none."
    )
    bucket_cap: int = Field(default=200, ge=2, description="Rows of one LSH bucket above which it is joined as a star.")
    runner: Literal["native", "ray"] = Field(
        default="native",
        description=(
            "Where Daft joins the LSH bands: native is this machine; ray the cluster at RAY_ADDRESS, or a local one."
        ),
    )
    twin_similarity: Share = Field(default=0.8, description="Word-sequence similarity from which two texts are twins.")
    floor_pairs: int = Field(default=200_000, ge=100, description="Random pairs behind the similarity floor.")

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, thresholds: list[float]) -> list[float]:
        distinct = sorted(set(thresholds))
        if len(distinct) < 2:
            raise ValueError(f"a sweep takes at least two different thresholds, not {distinct[0]:g} alone: add another")
        return distinct

    @model_validator(mode="after")
    def _bands_divide(self) -> DuplicateSettings:
        if self.permutations % self.bands:
            raise ValueError(
                f"{self.permutations} permutations do not divide into {self.bands} bands: change one of them"
            )
        return self


class LimitSettings(Settings):
    """What the team asks of its index; a breach is a warning."""

    self_at_1: Share = Field(default=0.98, description="Least self@1.")
    self_at_10: Share = Field(default=0.995, description="Least self@10.")
    labelled_gap: Share = Field(
        default=0.10, description="Most that labelled success may stay under the held-out ceiling."
    )
    source_gap: Share = Field(default=0.15, description="Least effect that makes a stratum an anomaly.")
    ann_recall_at_10: Share = Field(default=0.95, description="Least ann_recall@10.")
    truncated: Share = Field(default=0.25, description="Most of a batch that may be longer than the encoder reads.")


class ReportSettings(Settings):
    """What the reports show."""

    text: Literal["full", "excerpt", "none"] = Field(default="excerpt", description="Corpus text in the reports.")


class AutomationSettings(Settings):
    """What Dagster's daemon does by itself."""

    mode: Literal["manual", "sensors", "conditions"] = Field(
        default="manual",
        description=(
            "manual: nothing, though the sensor and the schedule can be turned on in the UI. sensors: a sensor asks "
            "for each batch that is new, changed or emptied, and a schedule for the audit. conditions: automation "
            "conditions on the assets do, and the audit follows the batches."
        ),
    )
    history: Literal["ingest", "wait"] = Field(
        default="ingest",
        description=(
            "Batches that a source already has when it is seen first: ingest them, or wait for a backfill. What "
            "arrives afterwards is always ingested."
        ),
    )
    every_seconds: int = Field(default=60, ge=1, description="Least time from one look at the sources to the next.")
    audit_cron: str = Field(default="0 5 * * *", description="When the index is audited: five cron fields.")
    timezone: str = Field(default="UTC", description="Time zone of audit_cron, such as Europe/Berlin.")
    fresh_hours: float = Field(
        default=26, gt=0.02, description="Hours after which the report is stale; nothing is where the mode is manual."
    )

    @field_validator("timezone")
    @classmethod
    def _timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError) as error:
            raise ValueError(f"{name!r} is no time zone: write one such as Europe/Berlin") from error
        return name


class IndexAuditSettings(Settings):
    """One audited index. The attributes of a defs.yaml of type audit_pipeline.IndexAudit."""

    name: str = Field(description="Name of the audited index: lower-case letters, digits and '-'.")
    start_date: dt.date | None = Field(
        default=None,
        description="First ingestion date, earlier rows are left out; default: the earliest that any run finds.",
    )
    ingestion_grain: Literal["day", "week", "month"] = Field(default="day", description="Width of a batch in time.")
    sources: list[SourceSettings] = Field(default_factory=list, description="The source store.")
    encoder: EncoderSettings = Field(description="The encoder of the application.")
    index: IndexSettings = Field(default_factory=IndexSettings, description="The LanceDB table.")
    sample: SampleSettings = Field(default_factory=SampleSettings, description="Probes.")
    labels: LabelSettings = Field(default_factory=LabelSettings, description="Labelled queries and pairs.")
    duplicates: DuplicateSettings = Field(default_factory=DuplicateSettings, description="Near-duplicates.")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="Limits.")
    report: ReportSettings = Field(default_factory=ReportSettings, description="Reports.")
    automation: AutomationSettings = Field(default_factory=AutomationSettings, description="The daemon's part.")
    alerts: AlertSettings | None = Field(default=None, description="Where news are posted; default: nowhere.")

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not NAME_PATTERN.match(name):
            raise ValueError(f"{name!r} is no index name: use lower-case letters, digits and '-', at most 63")
        return name

    @model_validator(mode="after")
    def _whole(self) -> IndexAuditSettings:
        names = [source.name for source in self.sources]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"sources: {repeated[0]!r} is named twice: give each source one entry")
        if self.index.managed:
            if not self.sources:
                raise ValueError("sources: a managed index needs at least one: add it, or set index.managed to false")
            if all(source.retired for source in self.sources):
                raise ValueError("sources: all of them are retired: add one that is not, or set index.managed to false")
            if self.encoder.kind == "none":
                raise ValueError("encoder: a managed index needs one: name its kind, or set index.managed to false")
        elif any(source.retired for source in self.sources):
            raise ValueError("sources: 'retired' belongs to a managed index: remove the entry, or set it to false")
        elif self.index.uri is None or "table" not in self.index.model_fields_set:
            raise ValueError("index: an index as it stands (managed: false) needs 'uri' and 'table': name both")
        if self.index.table == "*":
            self._check_many_tables()
        if self.duplicates.regime == "query" and self.encoder.kind == "none":
            raise ValueError(
                "duplicates.regime: 'query' needs an encoder for the query role: name its kind, or set it to stored"
            )
        self._check_second()
        if self.labels.see_also and not any(source.format == "docstrings" for source in self.sources):
            raise ValueError("labels.see_also: no source has the format docstrings: add one, or set it to false")
        return self

    def _check_second(self) -> None:
        second = self.duplicates.second
        if second is None:
            return
        if second.vector is not None and self.index.managed:
            raise ValueError(
                "duplicates.second: a managed index has no second column: remove 'vector', the audit encodes the texts "
                "under 'passage_prompt'"
            )
        if second.vector is not None and second.vector == (self.index.columns.get("vector") or "vector"):
            raise ValueError(f"duplicates.second: {second.vector!r} is the first vector's column: name another one")
        if second.vector is None and self.encoder.kind == "none":
            raise ValueError("duplicates.second: without 'vector' an encoder is needed: name its kind, or the column")
        if second.vector is None and second.passage_prompt == self.encoder.passage_prompt:
            raise ValueError(
                "duplicates.second: 'passage_prompt' is that of the encoder, so both vectors are one: name another"
            )

    def _check_many_tables(self) -> None:
        if self.index.managed:
            raise ValueError("index.table: a managed index is one table: give it a name instead of '*'")
        if self.sources:
            raise ValueError("index.table: '*' cannot be compared with sources: audit each table with its own sources")
        lifted = [name for name in ("min_score", "fast_search") if getattr(self.index.search, name)]
        lifted += ["filter"] if self.index.filter is not None else []
        if lifted:
            raise ValueError(
                f"index.table: over several tables ('*') every search is exact, without {lifted[0]!r}: "
                "remove it, or audit each table by itself"
            )

    @property
    def ingest_job(self) -> str:
        """Name of the Dagster job that brings one batch up to date, for definitions and remedies alike."""
        return f"{self.dagster_name}__ingest_batch"

    @property
    def dagster_name(self) -> str:
        """The name as Dagster's job and group names allow it."""
        return self.name.replace("-", "_")


def _check_lists(columns: dict[str, ColumnPath | None]) -> dict[str, ColumnPath | None]:
    for field, path in columns.items():
        if isinstance(path, list) and (field not in COMPOSITE_COLUMNS or not path):
            raise ValueError(
                f"{field!r} cannot be this list: name one column, or several for {', '.join(COMPOSITE_COLUMNS)}"
            )
    return columns


def _check_columns(columns: dict[str, _Column], known: tuple[str, ...]) -> dict[str, _Column]:
    for column in columns:
        if column not in known:
            raise ValueError(
                f"{column!r} is no chunk field{did_you_mean(column, known)}; use one of {', '.join(known)}"
            )
    return columns


def did_you_mean(word: str, known: tuple[str, ...] | list[str]) -> str:
    """A hint at the known word that is closest to a misspelt one, empty where none is close."""
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
