"""Label Studio: what its exports hold, and that answers handed on to it come back as their labellers'."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.duplicates import label_studio
from audit_pipeline.duplicates.label_files import read_rows, write_rows
from audit_pipeline.duplicates.label_import import COLUMNS, agreement_of, check_answers, join

HASHES = {"a": "1" * 64, "b": "2" * 64}
LABEL = dict.fromkeys(COLUMNS, "") | {
    "chunk_id_a": "a",
    "chunk_id_b": "b",
    "duplicate": "true",
    "origin": "corpus",
    "text_sha256_a": "1" * 64,
    "text_sha256_b": "2" * 64,
    "labeller": "ann",
    "band": "0.90-0.95",
}
ADMIN = {"id": 1, "email": "admin@example.org", "first_name": "", "last_name": ""}


def annotation(choice: str | None, by: object = 3, result_id: str = "Dx_aB91ISN", **more: object) -> dict[str, Any]:
    """One annotation as a JSON export has it."""
    answer = {
        "id": result_id,
        "from_name": "duplicate",
        "to_name": "a",
        "type": "choices",
        "origin": "manual",
        "value": {"choices": [choice]},
    }
    return {
        "id": 1,
        "completed_by": by,
        "updated_by": None,
        "was_cancelled": False,
        "ground_truth": False,
        "result": [] if choice is None else [answer],
        **more,
    }


def exported(*annotations: dict[str, Any]) -> list[dict[str, Any]]:
    """One task as a JSON export has it."""
    data = {"chunk_id_a": "a", "chunk_id_b": "b", "band": "0.90-0.95", "origin": "corpus", "cosine": 0.91}
    return [{"id": 7, "project": 1, "data": data, "annotations": list(annotations), "predictions": []}]


def through_the_server(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks after an import by the administrator and an export.

    The server keeps of a task its data and meta, of an annotation these four fields and its results as they are, gives
    new ids, and makes an annotation without a completed_by its importer's.
    """
    back = []
    for number, task in enumerate(copy.deepcopy(tasks), start=40):
        kept = [
            {
                "id": 10 * number + place,
                "completed_by": ADMIN,
                "updated_by": None,
                "result": one["result"],
                "was_cancelled": one.get("was_cancelled", False),
                "ground_truth": one.get("ground_truth", True),
                "lead_time": one.get("lead_time"),
                "created_at": "2026-01-02T03:04:05.678901Z",
                "task": number,
                "project": 9,
                "unique_id": f"0f8fad5b-d9cb-469f-a165-{number:06}{place:06}",
            }
            for place, one in enumerate(task.get("annotations", []))
        ]
        meta = task.get("meta", {})
        back.append({"id": number, "annotations": kept, "data": task["data"], "meta": meta, "project": 9})
    return back


def rows_of(folder: Path, tasks: object) -> list[dict[str, str]]:
    path = folder / "export.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return read_rows(path)


def handed_on(folder: Path, *labels: dict[str, str]) -> list[dict[str, Any]]:
    """The tasks that an export of these labels writes."""
    write_rows([LABEL | label for label in labels], COLUMNS, "label-studio", folder / "tasks.json")
    return json.loads((folder / "tasks.json").read_text(encoding="utf-8"))


def imported(folder: Path, tasks: object, labeller: str = "") -> list[dict[str, str]]:
    found = check_answers(rows_of(folder, tasks), labeller, HASHES.get)
    assert found.rejected == []
    return found.labels


def test_an_export_gives_a_row_for_each_annotation_with_who_made_it(tmp_path: Path):
    reason = {"from_name": "reason", "to_name": "a", "type": "textarea", "value": {"text": ["same rule"]}}
    first = annotation("duplicate")
    first["result"].append(reason)
    rows = rows_of(tmp_path, exported(first, annotation("not a duplicate", {"id": 4, "email": "ben@example.org"})))
    found = check_answers(rows, "nobody", HASHES.get)
    assert [(row["labeller"], row["duplicate"], row["reason"]) for row in found.labels] == [
        ("user 3", "true", "same rule"),
        ("ben@example.org", "false", ""),
    ]
    assert {row["band"] for row in found.labels} == {"0.90-0.95"}


def test_skipped_and_empty_annotations_and_open_tasks_are_unanswered(tmp_path: Path):
    tasks = exported(annotation("duplicate", was_cancelled=True)) + exported(annotation(None)) + exported()
    found = check_answers(rows_of(tmp_path, tasks), "ann", HASHES.get)
    assert (found.labels, found.rejected, found.unanswered) == ([], [], 3)


def test_the_labelling_configuration_fits_tasks_and_answers(tmp_path: Path):
    import xml.etree.ElementTree as ET

    view = ET.fromstring(label_studio.CONFIG)
    objects = {text.get("name"): text.get("value") for text in view.iter("Text")}
    assert set(objects.values()) == {"$text_a", "$text_b"}
    controls = {
        control.get("name"): control.get("toName") for tag in ("Choices", "TextArea") for control in view.iter(tag)
    }
    assert controls.keys() == {"duplicate", "reason"}
    assert set(controls.values()) <= objects.keys()
    choices = [choice.get("value") for choice in view.iter("Choice")]
    rows = rows_of(tmp_path, [task for choice in choices for task in exported(annotation(choice))])
    assert [row["duplicate"] for row in check_answers(rows[:1], "", None).labels] == ["true"]
    assert [row["duplicate"] for row in check_answers(rows[1:], "", None).labels] == ["false"]


LABELLERS = {
    "one person": [{}],
    "two people who agree": [{"labeller": "ann"}, {"labeller": "ben@example.org"}],
    "two people who do not, and why": [
        {"labeller": "ann"},
        {"labeller": "user 3", "duplicate": "false", "reason": "no"},
    ],
    "a settled pair": [{"labeller": "ann"}, {"labeller": "ben", "duplicate": "false"}, {"labeller": "adjudicated"}],
    "nobody's name": [{"labeller": ""}],
    "a name of every kind of character": [{"labeller": "Zoë: 50 % #1, a/b"}],
}


@pytest.mark.parametrize("case", LABELLERS)
@pytest.mark.parametrize("server", [through_the_server, lambda tasks: tasks], ids=["through the server", "as written"])
def test_answers_that_are_handed_on_come_back_as_they_went(tmp_path: Path, case, server):
    labels = join([], [LABEL | label for label in LABELLERS[case]])
    (task,) = handed_on(tmp_path, *labels)
    assert len(task["annotations"]) == len(labels)
    back = imported(tmp_path, server([task]))
    assert join(labels, back) == labels
    assert join([], back) == labels
    assert agreement_of(join(labels, back)) == agreement_of(labels)


def test_an_export_written_by_hand_of_an_answer_that_was_handed_on(tmp_path: Path):
    # The form of the id is pinned: it stands in projects that were imported long ago.
    (row,) = imported(tmp_path, exported(annotation("duplicate", ADMIN, "labeller:ann%40example.org:true")))
    assert (row["labeller"], row["duplicate"]) == ("ann@example.org", "true")
    (task,) = handed_on(tmp_path, {"labeller": "ann@example.org"})
    assert task["annotations"][0]["result"][0]["id"] == "labeller:ann%40example.org:true"
    assert task["annotations"][0]["ground_truth"] is False


def test_a_task_that_is_judged_anew_counts_as_its_users(tmp_path: Path):
    (task,) = through_the_server(handed_on(tmp_path, {}))
    task["annotations"].append(annotation("not a duplicate", {"id": 4, "email": "ben@example.org"}))
    labels = join([LABEL], imported(tmp_path, [task]))
    assert [(row["labeller"], row["duplicate"]) for row in labels] == [("ann", "true"), ("ben@example.org", "false")]
    agreed = agreement_of(labels)
    assert agreed is not None
    assert (agreed["labellers"], agreed["agreed"]["value"]) == (2, 0.0)


@pytest.mark.parametrize(
    ("updated_by", "labeller"),
    [(None, "admin@example.org"), (1, "admin@example.org"), (4, "user 4")],
    ids=["nobody knows by whom", "by the importer", "by another user"],
)
def test_an_answer_that_is_changed_there_is_the_users(tmp_path: Path, updated_by, labeller):
    (task,) = through_the_server(handed_on(tmp_path, {}))
    (one,) = task["annotations"]
    one["result"][0]["value"]["choices"] = ["not a duplicate"]
    one["updated_by"] = updated_by
    (row,) = imported(tmp_path, [task])
    assert (row["labeller"], row["duplicate"]) == (labeller, "false")


def test_an_answer_that_is_looked_at_and_saved_unchanged_stays_its_labellers(tmp_path: Path):
    (task,) = through_the_server(handed_on(tmp_path, {}))
    task["annotations"][0]["updated_by"] = 4
    assert [row["labeller"] for row in imported(tmp_path, [task])] == ["ann"]
