"""What `dg scaffold defs audit_pipeline.IndexAudit NAME` writes: a defs.yaml to fill in. Nothing is built here."""

from __future__ import annotations

import re
from pathlib import Path

from dagster.components import Scaffolder, ScaffoldRequest

TEMPLATE = """\
type: {type_name}
attributes:
  name: {name}
  sources:
    - {{name: handbook, uri: data/handbook.parquet, format: parquet, columns: {{chunk_id: id, text: body}}}}
  encoder:
    model: sentence-transformers/all-MiniLM-L6-v2
    query_prompt: ""
    passage_prompt: ""
  index:
    managed: true
"""


class IndexAuditScaffolder(Scaffolder):
    """Writes a defs.yaml with the required fields and example values."""

    def scaffold(self, request: ScaffoldRequest) -> None:
        folder = Path(request.target_path)
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z0-9-]+", "-", folder.name.lower()).strip("-") or "index"
        text = TEMPLATE.format(type_name=request.type_name, name=name[:63])
        (folder / "defs.yaml").write_text(text, encoding="utf-8")
