"""The gate's judgement as JUnit XML, as CI systems read it. What is said of a measure is gate_text.py's."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from audit_pipeline.plural import counted
from audit_pipeline.report.gate import Gate
from audit_pipeline.report.gate_text import ERRORS_SHOWN, headline, sentence
from audit_pipeline.report.wording import visible

SUITE = "audit-pipeline gate"
NEW_ERRORS = "new error findings"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def gate_junit(gate: Gate) -> str:
    """One testcase a measure, and one for new error findings.

    A measure that is not measured, or of which no loss could be seen, is skipped: neither is a pass. New error findings
    fail where the gate was asked to fail on them, and are skipped where they are only told. Of the dialects in use this
    is what the schema of Jenkins' xUnit plugin allows; GitLab, Azure and GitHub's actions read the same elements.
    """
    cases: list[tuple[str, str | None, str, str]] = []  # name, element, type, sentence
    for one in gate.measures:
        element = {"failed": "failure", "passed": None}.get(one.state, "skipped")
        cases.append((one.measure, element, one.state, sentence(one, gate.margin)))
    cases.append(_errors(gate))
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(element == "failure" for _, element, _, _ in cases)),
        "errors": "0",
    }
    root = ElementTree.Element("testsuites", {"name": SUITE, **counts, "time": "0"})
    skipped = str(sum(element == "skipped" for _, element, _, _ in cases))
    suite = ElementTree.SubElement(root, "testsuite", {"name": SUITE, **counts, "skipped": skipped, "time": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("margin", f"{gate.margin:g}"), ("alpha", f"{gate.alpha:g}")):
        ElementTree.SubElement(properties, "property", {"name": name, "value": value})
    for name, element, kind, said in cases:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": _xml(f"gate.{gate.name or 'index'}"), "name": name, "time": "0"}
        )
        if element is None:
            ElementTree.SubElement(case, "system-out").text = _xml(said)
        else:
            told = ElementTree.SubElement(case, element, {"type": kind, "message": _xml(said)})
            told.text = _xml(said)
    ElementTree.SubElement(suite, "system-out").text = _xml(headline(gate))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _errors(gate: Gate) -> tuple[str, str | None, str, str]:
    if not gate.new_errors:
        return NEW_ERRORS, None, "passed", "No error finding that the baseline does not have."
    codes = sorted({finding["code"] for finding in gate.new_errors})
    messages = " ".join(finding["message"] for finding in gate.new_errors[:ERRORS_SHOWN])
    said = f"{counted(len(gate.new_errors), 'error finding')} that the baseline does not have ({', '.join(codes)}): "
    return NEW_ERRORS, "failure" if gate.errors_fail else "skipped", "new_errors", said + messages


def _xml(text: str) -> str:
    """Text without what XML 1.0 cannot hold."""
    return _NOT_XML.sub("\ufffd", visible(text))
