"""The settings of one audited index as a whole, and the checks across its parts. Each part has a *_settings module."""

from __future__ import annotations

import datetime as dt
import re
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from audit_pipeline.alert_settings import AlertSettings
from audit_pipeline.automation_settings import AutomationSettings
from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.index_settings import IndexSettings
from audit_pipeline.query_settings import LabelSettings, SampleSettings
from audit_pipeline.report_settings import LimitSettings, ReportSettings
from audit_pipeline.settings_base import Settings, TimeZone
from audit_pipeline.source_settings import SourceSettings

NAME_PATTERN = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")
OWNER_PATTERN = re.compile(r"^(team:.+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7})$")  # what Dagster takes
DEFAULT_OWNERS = ("team:data-platform",)


class IndexAuditSettings(Settings):
    """One audited index. The attributes of a defs.yaml of type audit_pipeline.IndexAudit."""

    name: str = Field(description="Name of the audited index: lower-case letters, digits and '-'.")
    start_date: dt.date | None = Field(
        default=None,
        description="First ingestion date, earlier rows are left out; default: the earliest that any run finds.",
    )
    ingestion_grain: Literal["day", "week", "month"] = Field(default="day", description="Width of a batch in time.")
    timezone: TimeZone = Field(
        default="UTC",
        description=(
            "Time zone whose days are the dates of rows, such as Asia/Tokyo: a time with a zone, an epoch and a file's "
            "last change fall on its day there, a time without one is read as local there."
        ),
    )
    sources: list[SourceSettings] = Field(default_factory=list, description="The source store.")
    encoder: EncoderSettings = Field(description="The encoder of the application.")
    index: IndexSettings = Field(default_factory=IndexSettings, description="The LanceDB table.")
    sample: SampleSettings = Field(default_factory=SampleSettings, description="Probes.")
    labels: LabelSettings = Field(default_factory=LabelSettings, description="Labelled queries and pairs.")
    duplicates: DuplicateSettings = Field(default_factory=DuplicateSettings, description="Near-duplicates.")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="Limits.")
    report: ReportSettings = Field(default_factory=ReportSettings, description="Reports.")
    automation: AutomationSettings = Field(default_factory=AutomationSettings, description="The daemon's part.")
    owners: list[str] = Field(
        default_factory=lambda: list(DEFAULT_OWNERS),
        description="Who answers for the index, shown at its assets in Dagster: e-mail addresses and team:NAME.",
    )
    alerts: AlertSettings | None = Field(default=None, description="Where news are posted; default: nowhere.")

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not NAME_PATTERN.match(name):
            raise ValueError(f"{name!r} is no index name: use lower-case letters, digits and '-', at most 63")
        return name

    @field_validator("owners")
    @classmethod
    def _owners(cls, owners: list[str]) -> list[str]:
        for owner in owners:
            if not OWNER_PATTERN.match(owner):
                raise ValueError(f"{owner!r} is no owner that Dagster takes: write an e-mail address or 'team:NAME'")
        return owners

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
        lifted = [*self.index.search.cutoff] + (["fast_search"] if self.index.search.fast_search else [])
        lifted += ["filter"] if self.index.filter is not None else []
        if lifted:
            raise ValueError(
                f"index.table: over several tables ('*') every search is exact, without {lifted[0]!r}: "
                "remove it, or audit each table by itself"
            )

    @property
    def zone(self) -> ZoneInfo:
        """The time zone in which rows have their days, and today is."""
        return ZoneInfo(self.timezone)

    @property
    def ingest_job(self) -> str:
        """Name of the Dagster job that brings one batch up to date, for definitions and remedies alike."""
        return f"{self.dagster_name}__ingest_batch"

    @property
    def dagster_name(self) -> str:
        """The name as Dagster's job and group names allow it."""
        return self.name.replace("-", "_")
