"""The paragraph that tells a person what the figures mean and what to do next. It decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.plural import counted
from audit_pipeline.proportions import Proportion, smallest_visible_share

if TYPE_CHECKING:
    from audit_pipeline.retrieval.let_through import LetThrough
    from audit_pipeline.retrieval.verdict import Verdict

MEANING = {
    "healthy": "Chunks find themselves, and labelled queries come close to what the content allows.",
    "local_defect": "The index works as a whole; what is wrong is local.",
    "relationship": (
        "Chunks find themselves, but real queries do not find their chunks: the two sides do not meet. Compare the "
        "prompts on both sides, the words of the queries with the words of the texts, and the application's query path."
    ),
    "vectors_or_index": (
        "Too few chunks find themselves. No work on prompts or phrasing will help before what the causes name is "
        "mended: rows, vectors or index."
    ),
    "twins": (
        "Near-identical chunks take rank 1 from each other; counted as hits, they explain what is missing. This is "
        "redundancy, not a failure: see the duplicate clusters."
    ),
    "contradiction": (
        "Labelled queries succeed while too few chunks find themselves. Both cannot be right: check that labels and "
        "probes speak of the same table, prompts and search settings."
    ),
    "content": (
        "Chunks find themselves, but a sentence rarely leads back to its chunk: short, repeated or truncated text, a "
        "model that hardly tells such texts apart, or both sides wrong alike. An audit of the same texts with another "
        "model says whether it is the model."
    ),
    "not_measured": "This is no statement about real queries: that axis was not measured.",
    "undecided": "The sample does not decide on which side of its limits this index stands.",
}

HIDDEN = (
    "Too few chunks find themselves, and the filter explains it: those that it lets through do, twins counted as hits, "
    "so this says nothing against vectors or index. Where it is meant to hide the others, there is nothing to mend."
)
NOTHING_LET_THROUGH = (
    "The filter lets no probed row through: the application's searches come back empty, however good the vectors and "
    "the index are. Mend index.filter, or the columns it asks for, before anything else."
)
_BLAMED = frozenset(("vectors_or_index", "local_defect", "contradiction"))  # readings that a filter can explain

QUERY_SIDE_ALONE = (
    "Chunks find themselves, and labelled queries do well with the prompts of the settings; but that is not what the "
    "application sends."
)
_K = 10
CUT = (
    "Chunks find themselves, but a sentence rarely leads back to its chunk, and many chunks are longer than what is "
    "read of them (truncation): split them first, then measure again."
)
NOTHING_SEARCHED = "No probe was searched, so nothing is known about retrieval."


def verdict_text(
    verdict: Verdict,
    settings: IndexAuditSettings,
    runs: dict[str, pa.Table | None],
    findings: Sequence[Finding],
    blind_spots: Sequence[str],
    batch_probes: int,
    observed: Mapping[str, Any] | None = None,
    arms: str = "",
) -> str:
    """One paragraph: the figures, their meaning, what is behind the misses, and what could not be seen.

    ``observed`` is the section of audit.json on the application's own queries, None where it has none; ``arms``
    what other prompts would find.
    """
    parts = [
        _figures(verdict),
        _meaning(verdict, settings, findings),
        _hidden(runs["self"], verdict.figures.let_through),
        _recall(findings),
        _undecided(verdict),
        _unmeasured(verdict, settings, runs["labelled"], observed),
        _observed(observed, findings),
        arms,
        _haystacks(runs["held_out"]),
    ]
    parts.append(_causes(runs["self"]))
    parts.append(_errors(findings))
    parts.append(_blind(blind_spots))
    visible = smallest_visible_share(batch_probes)
    census = verdict.figures.self_1.n > 0 and verdict.figures.self_1.low == verdict.figures.self_1.high
    if census:
        parts.append("Every chunk was probed.")
    elif visible is not None and visible < 1:
        parts.append(
            f"With {counted(batch_probes, 'probe')}, the median of a batch, a defect in under {visible:.1%} of that "
            "batch's chunks could have gone unseen."
        )
    return " ".join(part for part in parts if part)


def shown(figure: Proportion) -> str:
    """A share with its interval and n: 99.1% (98.6% to 99.4%, n 2,000)."""
    if figure.value is None:
        return "not measured"
    if figure.low == figure.high:
        return f"{figure.value:.1%} (all {figure.n:,})"
    return f"{figure.value:.1%} ({figure.low:.1%} to {figure.high:.1%}, n {figure.n:,})"


def mean_shown(figure: Proportion) -> str:
    """A mean over n queries with its interval: 25.9% (21.6% to 30.3%, n 32)."""
    if figure.value is None:
        return "not measured"
    interval = "" if figure.low == figure.high else f"{figure.low:.1%} to {figure.high:.1%}, "
    return f"{figure.value:.1%} ({interval}n {figure.n:,})"


def _figures(verdict: Verdict) -> str:
    figures = verdict.figures
    named = (
        ("self@1", figures.self_1),
        ("self@10", figures.self_10),
        ("heldout@10", figures.held_out),
        ("labelled_success@10", figures.labelled),
    )
    return "; ".join(f"{name} {shown(figure)}" for name, figure in named) + "."


def _undecided(verdict: Verdict) -> str:
    said = []
    for entry in verdict.undecided:
        of_what = "queries" if entry.measure == "labelled_success@10" else "probes"
        limit = f"a gap of {entry.limit:.0%}" if of_what == "queries" else f"{entry.limit:.1%}"
        settled = (
            "more held-out probes have to narrow the ceiling first"
            if entry.needed is None
            else f"about {entry.needed:,} {of_what} in all would decide it"
        )
        said.append(f"{entry.measure} straddles {limit}; {settled}")
    if not said:
        return ""
    return f"It is one of {', '.join(verdict.possible)}: " + "; ".join(said) + "."


def _meaning(verdict: Verdict, settings: IndexAuditSettings, findings: Sequence[Finding]) -> str:
    if not verdict.figures.self_1.n:
        return NOTHING_SEARCHED
    errors = {finding.code for finding in findings if finding.severity == "error"}
    if verdict.reading == "local_defect" and verdict.states.labelled == "high" and errors == {"query_side_mismatch"}:
        return QUERY_SIDE_ALONE
    if verdict.reading == "content" and any(finding.code == "truncation" for finding in findings):
        return CUT
    passed = verdict.figures.let_through
    if passed is None or verdict.reading not in _BLAMED or "low" not in (verdict.states.self_1, verdict.states.self_10):
        return MEANING[verdict.reading]
    if not passed.n:
        return NOTHING_LET_THROUGH
    return HIDDEN if passed.explains(settings.limits) else MEANING[verdict.reading]


def hidden_misses(passed: LetThrough, misses: int) -> str:
    """How many misses are rows that the filter hides, and what is found of the others, as a clause."""
    said = (
        f"{passed.hidden:,} of the {misses:,} self misses are rows that the filter hides"
        if misses > 1
        else "the one self miss is a row that the filter hides"
    )
    return f"{said}; among the {counted(passed.n, 'probe')} that it lets through self@1 is {shown(passed.self_1)}"


def _unmeasured(
    verdict: Verdict, settings: IndexAuditSettings, labelled: pa.Table | None, observed: Mapping[str, Any] | None
) -> str:
    states = verdict.states
    if states.self_1 == "none":
        return "No probe was searched: name an encoder, or check that the sample is not empty."
    said = []
    if states.self_10 == "none":
        asked = settings.index.search.limit
        said.append(
            "figures at 10 of what the search returns (self@10, labelled_success@10) need ten rows, and the "
            f"application asks for {asked}"
        )
    if labelled is None or labelled.num_rows == 0:
        said.append("there are no labelled queries (labels.queries), so real queries remain unseen")
    elif verdict.figures.held_out.value is None:
        said.append("without held-out probes there is no ceiling to hold labelled queries against")
    if observed is None:
        said.append("the application's own query path was not observed (labels.observed)")
    return _sentence("; ".join(said)) if said else ""


def _observed(observed: Mapping[str, Any] | None, findings: Sequence[Finding]) -> str:
    """What the application's own queries showed: the prompt it sends, and what it gets back."""
    if observed is None:
        return ""
    side, returned = observed["query_side"], observed["returned"]
    mismatches = [finding.message for finding in findings if finding.code == "query_side_mismatch"]
    other_rows = [finding.message for finding in findings if finding.evidence.get("measure") == "observed_recall"]
    sent, got = Proportion(**observed["as_configured"]), Proportion(**observed["observed_recall"])
    parts = list(mismatches)
    if not side["n"]:
        parts.append(_sentence(f"what the application puts before its queries was not measured: {side['reason']}"))
    elif not mismatches:
        parts.append(f"Of the application's own queries {shown(sent)} are encoded as the settings say.")
    if not returned["n"]:
        parts.append(_sentence(f"what the application gets back was not measured: {returned['reason']}"))
    else:
        agrees = f"Of the rows it got back, {mean_shown(got)} are the closest to the vectors it sent."
        parts += other_rows or [agrees]
    return " ".join(parts)


def _haystacks(table: pa.Table | None) -> str:
    """Among how many rows held-out sentences were searched, where each asker has rows of their own."""
    if table is None or "filter" not in table.column_names:
        return ""
    sizes = table["haystack"].drop_null().to_numpy()
    if not len(sizes) or sizes.min() == sizes.max():
        return ""
    said = (
        f"heldout@10 is among each asker's own rows, {np.median(sizes):,.0f} at the median ({sizes.min():,} to "
        f"{sizes.max():,})"
    )
    sure = int(np.count_nonzero(sizes <= _K))
    hits = f": {sure:,} of {len(sizes):,} are among {_K} or fewer, where nothing can be missed" if sure else ""
    return _sentence(said + hits)


def _hidden(table: pa.Table | None, passed: LetThrough | None) -> str:
    """What the filter hides, beside the meaning that it qualifies: a screen that cuts the rest still shows it."""
    if table is None or passed is None or not passed.n:
        return ""
    return _sentence(hidden_misses(passed, table.num_rows - table["cause"].null_count))


def _recall(findings: Sequence[Finding]) -> str:
    """What an ANN index loses: self-retrieval, whose answer is the query itself, hardly sees it."""
    lost = [
        finding.message
        for finding in findings
        if finding.code == "ann_recall_low" and finding.evidence.get("measure") != "observed_recall"
    ]
    return " ".join(lost)


def _causes(table: pa.Table | None) -> str:
    if table is None or table.num_rows == 0:
        return ""
    counts = Counter(cause for cause in table["cause"].to_pylist() if cause is not None)
    if not counts:
        return ""
    by_count = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    misses = counted(sum(counts.values()), "self miss", "self misses")
    return f"Causes of the {misses}: " + ", ".join(f"{c} {n:,}" for c, n in by_count) + "."


def _errors(findings: Sequence[Finding]) -> str:
    errors = Counter(finding.code for finding in findings if finding.severity == "error")
    anomalies = sum(finding.code == "stratum_anomaly" for finding in findings)
    said = [f"{code} ({n:,})" for code, n in sorted(errors.items())]
    text = f"Mend the error findings first: {', '.join(said)}." if said else ""
    if anomalies:
        are = "stratum is" if anomalies == 1 else "strata are"
        text += f"{' ' if text else ''}{anomalies:,} {are} out of line with the rest."
    return text


def _blind(blind_spots: Sequence[str]) -> str:
    return _sentence("self-retrieval is blind here: " + "; ".join(blind_spots)) if blind_spots else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
