import numpy as np
import pyarrow as pa

from audit_pipeline.retrieval.anomalies import stratum_anomalies
from audit_pipeline.retrieval.like_haystacks import can_miss, like_haystacks
from audit_pipeline_tests.retrieval.test_strata import self_table
from audit_pipeline_tests.retrieval.worlds import settings


def test_a_group_reaches_from_its_largest_haystack_down_to_half_of_it():
    assert like_haystacks(np.array([8, 200, 100, 99, 50, 49, 3])).tolist() == [3, 0, 0, 1, 1, 2, 4]
    assert like_haystacks(np.full(3, 70)).tolist() == [0, 0, 0]
    assert like_haystacks(np.zeros(0, np.int64)).tolist() == []
    assert like_haystacks(np.array([0, 0, 1])).tolist() == [1, 1, 0]


def test_among_few_rows_a_probe_can_hardly_miss():
    assert can_miss(np.array([0, 11, 50, 51, 400]), 10).tolist() == [False, False, False, True, True]
    assert can_miss(np.array([5, 6]), 1).tolist() == [False, True]


def test_where_nothing_filters_a_small_table_is_judged_all_the_same():
    assert can_miss(np.full(40, 30), 10).all()


def of_tenants(tenants: dict[str, tuple[int, int]]) -> pa.Table:
    """Self probes of each tenant: (rows, hits); every row is probed, among the tenant's own."""
    cells = [(user, rows, i < hits) for user, (rows, hits) in tenants.items() for i in range(rows)]
    table = self_table([("a", None, "0-39", hit, True) for _, _, hit in cells])
    table = table.set_column(
        table.column_names.index("haystack"), "haystack", pa.array([rows for _, rows, _ in cells], pa.int64())
    )
    return table.append_column("filter", pa.array([f'{{"user": "{user}"}}' for user, _, _ in cells]))


def named(tenants: dict[str, tuple[int, int]]) -> list[object]:
    return [found.evidence["filter"] for found in stratum_anomalies({"self": of_tenants(tenants)}, settings())]


SMALL = {f"u{n}": (20, 20) for n in range(20)}


def test_a_large_tenant_among_small_ones_is_not_compared_with_them():
    assert named(SMALL | {"big": (200, 120)}) == []


def test_a_tenant_that_misses_beside_others_of_its_size_is_named():
    assert named(SMALL | {"big": (200, 120), "like": (150, 148), "third": (180, 179)}) == [{"user": "big"}]
    assert named({**SMALL, "u3": (20, 4)}) == [{"user": "u3"}]
    assert named(SMALL | {"big": (200, 198), "like": (150, 148), "third": (180, 179)}) == []
