"""The ANN index of the managed table, as it grows and as the settings change."""

from __future__ import annotations

from pathlib import Path

from audit_pipeline.index.building import build_vector_index
from audit_pipeline.index_settings import VectorIndexSettings
from audit_pipeline_tests.index.test_managed import NEXT, SECOND, put


def test_the_index_is_built_when_large_enough_kept_current_rebuilt_and_dropped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")

    def build(metric: str = "cosine", **settings: object) -> dict[str, object]:
        chosen = VectorIndexSettings.model_validate({"min_rows": 300, **settings})
        return build_vector_index(uri, "chunks", chosen, metric)

    def told(report: dict[str, object]) -> tuple[object, ...]:
        return tuple(report[key] for key in ("action", "index_type", "metric", "indexed_rows", "unindexed_rows"))

    put(Path(uri), [f"i{n}" for n in range(299)])
    assert told(build()) == ("none", None, None, 0, 299)
    put(Path(uri), [f"j{n}" for n in range(21)], SECOND, NEXT)
    assert told(build()) == ("created", "IVF_HNSW_SQ", "cosine", 320, 0)
    assert told(build()) == ("none", "IVF_HNSW_SQ", "cosine", 320, 0)
    put(Path(uri), [f"j{n}" for n in range(31)], SECOND, NEXT, seed=3)
    assert told(build()) == ("optimised", "IVF_HNSW_SQ", "cosine", 330, 0)
    assert told(build(type="IVF_FLAT")) == ("created", "IVF_FLAT", "cosine", 330, 0)
    assert told(build("l2", type="IVF_FLAT")) == ("created", "IVF_FLAT", "l2", 330, 0)
    assert told(build("l2", type="IVF_FLAT", min_rows=1000)) == ("dropped", None, None, 0, 330)
