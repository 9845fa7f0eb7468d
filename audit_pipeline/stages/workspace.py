"""What the stages of one audit share: settings, state folder, the costly things opened once. No stage stands here."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.arrays import one_array
from audit_pipeline.corpus.scans import StoreScan
from audit_pipeline.corpus.store import SourceStore
from audit_pipeline.duplicates.regime import QueryRole
from audit_pipeline.duplicates.signatures import scheme_of_settings
from audit_pipeline.encoder.protocol import Spending
from audit_pipeline.encoder.vector_store import Encoded, VectorStore
from audit_pipeline.encoder_settings import UNDECIDING_FIELDS
from audit_pipeline.errors import AuditInputError
from audit_pipeline.findings import Finding
from audit_pipeline.memory import give_back
from audit_pipeline.progress import log_progress
from audit_pipeline.results import Progress, StageResult
from audit_pipeline.stages.pins import Pin, read_pins
from audit_pipeline.state import StateFolder, read_json, read_table, write_json, write_table

if TYPE_CHECKING:
    from audit_pipeline.encoder.protocol import Encoder
    from audit_pipeline.index.snapshot import TableSnapshot


@dataclass(frozen=True)
class BatchManifest:
    """What a finished ingest says of its batch. Written last: where it stands, all of the batch is in place."""

    key: str
    source: str | None
    ingestion_date: str  # first day of the batch's period, ISO
    rows: int
    rejected: int
    content_hash: str
    settings_hash: str
    generation: str  # folder of the batch's files
    ingests: int = 1  # how often this batch was brought up to date
    yields_to: list[str] = field(default_factory=list)  # slugs of retired sources that hold ids of its rows
    waits_for: dict[str, str] = field(default_factory=dict)  # key -> content hash of batches to come with rows of it
    place: str = ""  # digest of the table that has its rows; empty of an earlier version, which did not say

    def __post_init__(self) -> None:
        if isinstance(self.waits_for, list):  # of an earlier version, which kept the keys alone
            object.__setattr__(self, "waits_for", dict.fromkeys(self.waits_for, ""))


class Workspace:
    """One audited index at work. Not thread-safe; every process makes its own."""

    def __init__(
        self,
        settings: IndexAuditSettings,
        root: Path,
        *,
        today: dt.date | None = None,
        progress: Progress = log_progress,
    ) -> None:
        self.settings = settings
        self.state = StateFolder(root, settings.name)
        self.today = today or dt.datetime.now(settings.zone).date()
        self.progress = progress
        self._from_cache = 0
        self._spent_before: Spending | None = None
        self.opened: TableSnapshot | None = None
        self.pinned: TableSnapshot | None = None
        self.asked: tuple[TableSnapshot, QueryRole] | None = None
        self._scan: StoreScan | None = None

    @property
    def has_store(self) -> bool:
        """Whether it is known what should be in the index: from sources that can be compared with the table.

        Of a table of others that is known once ``vector_index`` has read it.
        """
        if not self.settings.sources or self.settings.index.managed:
            return bool(self.settings.sources)
        return self.paired["by"] != "nothing"

    @property
    def paired(self) -> dict[str, Any]:
        """How rows of the source store were paired with the table's: ``by`` chunk_id, text or nothing."""
        return self.summary("vector_index")["paired"]

    @property
    def index_uri(self) -> str:
        return self.settings.index.uri or self.state.default_index_uri

    @cached_property
    def store(self) -> SourceStore:
        # The remembered start only sizes the grid: rows that turn up from before it are history, not errors.
        start, file = self.settings.start_date, self.state.audit / "store.rows"
        return SourceStore(self.settings, today=self.today, start_date=start, index_uri=self.index_uri, file=file)

    @cached_property
    def encoder(self) -> Encoder | None:
        """The encoder of the settings, loaded on first use; None for kind none."""
        from audit_pipeline.encoder.models import load_encoder

        encoder = load_encoder(self.settings.encoder)
        self._spent_before = encoder.spending if encoder is not None else None
        return encoder

    @cached_property
    def vectors(self) -> VectorStore:
        return VectorStore(self.state.vectors)

    def encode(self, prompt: str, texts: pa.Array | pa.ChunkedArray, what: str = "") -> Encoded:
        """Vectors of prompt + text from the vector store, encoded there at first need. Needs an encoder.

        ``what`` names the texts in the lines of progress.
        """
        assert self.encoder is not None  # no stage asks for vectors under kind none

        def progress(doing: str, done: int, total: int) -> None:
            self.progress(f"{doing} {what}".rstrip(), done, total)

        return self.vectors.get_or_encode(self.encoder, prompt, texts, progress)

    def count_cached(self, encoded: Encoded) -> None:
        """Add to the texts that were found in the vector store; called by the stage that needs a text first."""
        self._from_cache += encoded.from_cache

    @property
    def totals(self) -> dict[str, int]:
        """Texts and tokens that this process has encoded for the audit, and texts that it found encoded.

        With a server's encoder also what was sent to it: all requests, failed ones and those of checks included.
        """
        totals = {
            "texts": self.vectors.texts_encoded,
            "tokens": self.vectors.tokens_encoded,
            "from_cache": self._from_cache,
        }
        if self.encoder is None or not self.encoder.is_remote:
            return totals
        spent = self.encoder.spending - (self._spent_before or Spending())
        return totals | {
            "sent_requests": spent.requests,
            "sent_texts": spent.texts,
            "sent_tokens": spent.tokens,
            "sent_tokens_estimated": spent.tokens_estimated,
        }

    def encoded(self, prompt: str, texts: pa.Array | pa.ChunkedArray, dimension: int, what: str = "") -> np.ndarray:
        """(n, dimension) float32 vectors of prompt + text; there may be no encoder where there are no texts."""
        if not len(texts):
            return np.empty((0, dimension), dtype=np.float32)
        return self.encode(prompt, texts, what).vectors

    def release_store(self) -> None:
        """Let go of the source store's rows in memory: the corpus-wide stages read the batches' files."""
        self.__dict__.pop("store", None)
        self._scan = None

    def release_table(self) -> None:
        """Let go of the table's rows and vectors in memory; a stage that needs them reads them again."""
        self.opened, self.pinned, self.asked = None, None, None
        give_back()

    @property
    def _unplaced(self) -> Path:
        return self.state.audit / "unplaced.parquet"

    def scan(self, *, fresh: bool = False, again: bool = False) -> StoreScan:
        """The batches that the source store holds, without sources that cannot be read (``unread`` names them).

        Looked at once per process, else ``again`` or ``fresh``. A look reads the sources where a file has changed
        since any process read them; a fresh one in any case. Raises AuditInputError where two sources share a slug.
        """
        if self._scan is None or fresh or again:
            self._scan = self.store.scan(self.progress, partial=True, anew=fresh)
            if not self._scan.unread:
                self._write_unplaced()
            give_back()
        return self._scan

    def _write_unplaced(self) -> None:
        """Rows whose date puts them in no batch: they would otherwise be kept nowhere."""
        store = {"store": self.store.key or ""}
        if store["store"] and self._unplaced.exists():
            written = pq.read_schema(self._unplaced).metadata or {}
            if written.get(b"store", b"").decode() == store["store"]:
                return
        write_table(self._unplaced, self.store.unplaced().replace_schema_metadata(store))

    @cached_property
    def settings_hash(self) -> str:
        """Hash of the settings that decide what a batch's files and rows look like."""
        index, duplicates = self.settings.index, self.settings.duplicates
        deciding = {
            "encoder": self.settings.encoder.model_dump(mode="json", exclude=UNDECIDING_FIELDS, exclude_defaults=True),
            "index": {"uri": self.settings.index.uri, "table": index.table, "embed_text": index.embed_text},
            "signatures": asdict(scheme_of_settings(duplicates)),
            "seed": self.settings.sample.seed,
        }
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]

    # Batches

    def manifest(self, key: str) -> BatchManifest | None:
        """The manifest of a batch that was ingested, None for one that never was."""
        path = self.state.batch(key) / "batch.json"
        return BatchManifest(**read_json(path)) if path.exists() else None

    def manifests(self) -> list[BatchManifest]:
        """The manifests of all batches ever ingested, by key; a batch that is empty now has 0 rows."""
        paths = self.state.batches.glob("*/batch.json")
        return sorted((BatchManifest(**read_json(path)) for path in paths), key=lambda manifest: manifest.key)

    def generation(self, manifest: BatchManifest) -> Path:
        """Folder of the batch's current files."""
        return self.state.batch(manifest.key) / manifest.generation

    def held_ids(self, manifest: BatchManifest) -> pa.Array:
        """The ids of the batch's current rows."""
        return one_array(read_table(self.generation(manifest) / "chunks.parquet", ["chunk_id"])["chunk_id"])

    def write_manifest(self, manifest: BatchManifest) -> None:
        write_json(self.state.batch(manifest.key) / "batch.json", asdict(manifest))

    def pins(self) -> list[Pin]:
        """The state of each batch that the audit goes by, by key: as its first stage pinned it, else as it is."""
        pins = read_pins(self.state)
        return [Pin(one.key, one.generation) for one in self.manifests()] if pins is None else pins

    def pinned_folder(self, pin: Pin) -> Path:
        return self.state.batch(pin.key) / pin.generation

    def batch_tables(self, name: str, schema: pa.Schema, columns: list[str] | None = None) -> pa.Table:
        """One table over all batches that the audit goes by, in order of batch key."""
        tables = [pin.read(self.pinned_folder(pin), name, columns) for pin in self.pins()]
        if columns is not None:
            schema = pa.schema([schema.field(column) for column in columns])
        return pa.concat_tables(tables) if tables else schema.empty_table()

    # Corpus-wide stages

    def save(self, stage: str, result: StageResult, seconds: float) -> StageResult:
        """Keep a stage's result for the stages after it; the last good one is replaced file by file, its JSON last."""
        folder = self.state.corpus / stage
        for name, table in result.tables.items():
            write_table(folder / f"{name}.parquet", table)
        findings = [finding.as_dict() for finding in result.findings]
        kept = {
            "summary": result.summary,
            "findings": findings,
            "tables": sorted(result.tables),
            "seconds": round(seconds, 3),
        }
        write_json(folder / "stage.json", kept)
        return result

    def summary(self, stage: str) -> dict[str, Any]:
        """The JSON part of a finished stage. Raises AuditInputError where it never ran."""
        return self._stage(stage)["summary"]

    def findings(self, stage: str) -> list[Finding]:
        return [Finding(**finding) for finding in self._stage(stage)["findings"]]

    def seconds(self, stage: str) -> float:
        return float(self._stage(stage)["seconds"])

    def has_table(self, stage: str, name: str) -> bool:
        """Whether the stage's last result has this table."""
        return name in self._stage(stage)["tables"]

    def table(
        self, stage: str, name: str, columns: list[str] | None = None, *, repeated: Sequence[str] = ()
    ) -> pa.Table:
        """A table of a finished stage, or some of its columns; ``repeated`` ones come as dictionaries.

        Raises AuditInputError where the stage never ran.
        """
        if not self.has_table(stage, name):
            raise KeyError(f"stage {stage} has no table {name}")
        return read_table(self.state.corpus / stage / f"{name}.parquet", columns, repeated=repeated)

    def result(self, stage: str) -> StageResult:
        """A finished stage's result with all its tables."""
        tables = {name: self.table(stage, name) for name in self._stage(stage)["tables"]}
        return StageResult(tables, self.summary(stage), self.findings(stage))

    def _stage(self, stage: str) -> dict[str, Any]:
        path = self.state.corpus / stage / "stage.json"
        if not path.exists():
            raise self._never_ran(stage)
        return read_json(path)

    def _never_ran(self, stage: str) -> AuditInputError:
        return AuditInputError(f"{self.settings.name}: stage {stage!r} has no result yet: materialise it first")

    def population(self, columns: list[str] | None = None) -> pa.Table:
        """The chunks that should be findable: the source store's where there is one, else the table's own.

        All their columns hold the corpus's text; ``columns`` names those that are needed.
        """
        if self.settings.index.managed:
            return self.batch_tables("chunks", schemas.CHUNKS, columns)
        return self.table("vector_index", "population", columns)

    def rejected(self) -> pa.Table:
        """The rows of the source store that could not be used, with their reasons."""
        if self.settings.index.managed:
            unplaced = [read_table(self._unplaced)] if self._unplaced.exists() else []
            return pa.concat_tables([self.batch_tables("rejected", schemas.REJECTED_CHUNKS), *unplaced])
        return self.table("vector_index", "rejected")


def corpus_stage(function: Callable[[Workspace], StageResult]) -> Callable[[Workspace], StageResult]:
    """Makes a function a stage: timed, and its result kept under the function's name."""

    @wraps(function)
    def run(workspace: Workspace) -> StageResult:
        started = time.perf_counter()
        result = function(workspace)
        saved = workspace.save(function.__name__, result, time.perf_counter() - started)
        give_back()
        return saved

    return run
