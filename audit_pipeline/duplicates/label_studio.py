"""Tasks, exports and the labelling configuration of Label Studio. Which rows there are is decided elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from audit_pipeline.errors import AuditInputError

YES, NO = "duplicate", "not a duplicate"
_ANSWER, _REASON = "duplicate", "reason"  # the names of the two controls
_ASKED = ("duplicate", "reason", "labeller")

# The id of a result says whose answer it is and which. Label Studio makes an imported annotation its importer's and
# drops fields it does not know, but keeps results as they are; an id of its own never holds a colon, and ends before
# a "#".
_HANDED_ON = re.compile(r"labeller:([^:#]*):(true|false)")

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

    An answer that was handed on (tasks_of) stays its labeller's. One that was given or changed there is the user's: the
    e-mail address, or "user" and the number. Skipped annotations are no answers.
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
    found = {"duplicate": "", "reason": ""}
    whose = None
    for result in annotation.get("result") or []:
        value = result.get("value") or {} if isinstance(result, dict) else {}
        if result.get("from_name") == _ANSWER:
            found["duplicate"] = " and ".join(plain(choice) for choice in value.get("choices") or [])
            whose = _HANDED_ON.fullmatch(plain(result.get("id")))
        elif result.get("from_name") == _REASON:
            said = value.get("text") or []
            found["reason"] = " ".join(said if isinstance(said, list) else [plain(said)])
    if whose is None:
        return found | {"labeller": _user(annotation.get("completed_by"))}
    if found["duplicate"] == _choice(whose[2]):
        return found | {"labeller": unquote(whose[1])}
    return found | {"labeller": _changed_by(annotation)}


def _changed_by(annotation: dict[str, Any]) -> str:
    """Who changed an answer: the user of the last update, by the name that completed_by has where it is the same."""
    completed, updated = annotation.get("completed_by"), annotation.get("updated_by")
    same = updated is None or (isinstance(completed, dict) and completed.get("id") == updated)
    return _user(completed if same else updated)


def _user(by: Any) -> str:
    if isinstance(by, dict):
        by = by.get("email") or by.get("username") or by.get("id")
    return f"user {by}" if isinstance(by, int) else plain(by)


def _choice(duplicate: str) -> str:
    return YES if duplicate == "true" else NO


def _annotation(row: dict[str, Any]) -> dict[str, Any]:
    answer = {
        "id": f"labeller:{quote(row.get('labeller') or '', safe='')}:{row['duplicate']}",
        "from_name": _ANSWER,
        "to_name": "a",
        "type": "choices",
        "value": {"choices": [_choice(row["duplicate"])]},
    }
    result = [answer]
    if row.get("reason"):
        result.append({"from_name": _REASON, "to_name": "a", "type": "textarea", "value": {"text": [row["reason"]]}})
    # Without a word an imported annotation becomes ground truth there.
    return {"result": result, "was_cancelled": False, "ground_truth": False}
