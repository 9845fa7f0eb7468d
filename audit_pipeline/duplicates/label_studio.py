"""Tasks, exports and the labelling configuration of Label Studio. Which rows there are is decided elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit_pipeline.errors import AuditInputError

YES, NO = "duplicate", "not a duplicate"
_ANSWER, _REASON = "duplicate", "reason"  # the names of the two controls
_ASKED = ("duplicate", "reason", "labeller")

# The answer is a choice about the first text: a Choices control stands for one object.
CONFIG = f"""\
<View>
  <Header value="Does a reader who has one text learn nothing from the other?"/>
  <View style="display: grid; grid-template-columns: 1fr 1fr; gap: 1em; white-space: pre-wrap">
    <Text name="a" value="$text_a"/>
    <Text name="b" value="$text_b"/>
  </View>
  <Choices name="{_ANSWER}" toName="a" choice="single-radio" showInline="true">
    <Choice value="{YES}" hotkey="1"/>
    <Choice value="{NO}" hotkey="2"/>
  </Choices>
  <TextArea name="{_REASON}" toName="a" rows="1" maxSubmissions="1" placeholder="why, in a few words"/>
</View>
"""


def tasks_of(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """One task a pair; rows with an answer are its annotations, those of one pair together."""
    tasks: dict[tuple[Any, ...], dict[str, Any]] = {}
    shown = [name for name in columns if name not in _ASKED]
    for row in rows:
        pair = (row["chunk_id_a"], row["chunk_id_b"], row.get("text_sha256_a"), row.get("text_sha256_b"))
        task = tasks.setdefault(pair, {"data": {name: row.get(name) for name in shown}})
        if row.get("duplicate") in ("true", "false"):
            task.setdefault("annotations", []).append(_annotation(row))
    return list(tasks.values())


def rows_of(text: str, path: Path) -> list[dict[str, str]]:
    """A row for each annotation of a JSON export (a list of tasks with data and annotations), of a task without any
    one without an answer. Raises AuditInputError.

    The labeller is the annotation's own, else who completed it: an e-mail address, or the user's number. Skipped
    annotations are no answers.
    """
    try:
        tasks = json.loads(text)
    except ValueError as error:
        raise AuditInputError(f"{path}: is not JSON: save Label Studio's JSON export again") from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise AuditInputError(f"{path}: is no list of tasks: save Label Studio's JSON export again")
    rows = []
    for number, task in enumerate(tasks, start=1):
        data, annotations = task.get("data"), task.get("annotations", [])
        if not isinstance(data, dict) or not isinstance(annotations, list):
            raise AuditInputError(
                f"{path}: task {number} lacks data or a list of annotations: "
                "save Label Studio's export as JSON, not JSON-MIN"
            )
        shown = {str(name): plain(value) for name, value in data.items()} | {"duplicate": ""}
        given = [one for one in annotations if isinstance(one, dict) and not one.get("was_cancelled")]
        rows += [shown | _answer(one) for one in given] or [shown]
    return rows


def plain(value: Any) -> str:
    """A JSON value as the string that a CSV would have for it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _answer(annotation: dict[str, Any]) -> dict[str, str]:
    found = {"duplicate": "", "reason": "", "labeller": _who(annotation)}
    for result in annotation.get("result") or []:
        value = result.get("value") or {} if isinstance(result, dict) else {}
        if result.get("from_name") == _ANSWER:
            found["duplicate"] = " and ".join(plain(choice) for choice in value.get("choices") or [])
        elif result.get("from_name") == _REASON:
            said = value.get("text") or []
            found["reason"] = " ".join(said if isinstance(said, list) else [plain(said)])
    return found


def _who(annotation: dict[str, Any]) -> str:
    if annotation.get("labeller"):
        return plain(annotation["labeller"])
    by = annotation.get("completed_by")
    if isinstance(by, dict):
        by = by.get("email") or by.get("username") or by.get("id")
    return f"user {by}" if isinstance(by, int) else plain(by)


def _annotation(row: dict[str, Any]) -> dict[str, Any]:
    choice = YES if row["duplicate"] == "true" else NO
    result = [{"from_name": _ANSWER, "to_name": "a", "type": "choices", "value": {"choices": [choice]}}]
    if row.get("reason"):
        result.append({"from_name": _REASON, "to_name": "a", "type": "textarea", "value": {"text": [row["reason"]]}})
    # Label Studio knows its own users only: the name goes along as a field of ours, which it passes over.
    return {"result": result, "was_cancelled": False, "labeller": row.get("labeller") or ""}
