"""What collectors and executors did, in every text format; and nothing about them without any."""

import json
from datetime import UTC, datetime

import pytest

from reports.document import JsonReport
from reports.markdown import MarkdownReport
from reports.model import (
    Collection,
    Document,
    Failure,
    MemberState,
    ResultFile,
    State,
    Subtask,
)
from reports.page import HtmlReport
from reports.words import summary

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
EVIL = "<script>|[x](javascript:1)"


def collection(*subtasks: Subtask, documents: tuple[Document, ...] = ()) -> Collection:
    return Collection(
        collection_id="c",
        correlation_id="t",
        state=State.PARTIAL,
        report_time=NOW,
        create_time=NOW,
        settled=True,
        subtasks=subtasks,
        documents=documents,
    )


BLOG = Subtask(1, "collector", "blog", MemberState.TIMED_OUT, found=2, parameters='{"a": 1}')
REPORT = Subtask(
    2,
    "executor",
    EVIL,
    MemberState.FAILED,
    member=3,
    late=True,
    result=f'{{"x": "{EVIL}"}}',
    failure=Failure("TASK_REFUSED", EVIL),
    files=(ResultFile(EVIL, "text/html", 9, "00"),),
)
POST = Document(1, 1, "http://blog.test/1", EVIL, "pt", "2026-11-19")


def test_the_json_has_everything_of_them() -> None:
    report = JsonReport()
    whole = json.loads(
        "".join([*report.begin(collection(BLOG, REPORT, documents=(POST,))), *report.end()])
    )

    blog, made = whole["subtasks"]
    assert (blog["state"], blog["found"], blog["parameters"]) == ("TIMED_OUT", 2, {"a": 1})
    assert (blog["result"], blog["failure"]) == (None, None)
    assert (made["result"], made["late"], made["member"]) == ({"x": EVIL}, True, 3)
    assert made["files"] == [
        {"name": EVIL, "media_type": "text/html", "size_bytes": 9, "sha256": "00"}
    ]
    assert whole["documents"][0]["title"] == EVIL


def test_a_collection_without_any_has_no_such_keys() -> None:
    report = JsonReport()
    whole = json.loads("".join([*report.begin(collection()), *report.end()]))

    assert whole.keys() == {"schema_version", "collection", "members"}


@pytest.mark.parametrize("report", [MarkdownReport(), HtmlReport()])
def test_tables_show_them_and_no_markup_of_theirs(report: MarkdownReport | HtmlReport) -> None:
    text = "".join(report.begin(collection(BLOG, REPORT, documents=(POST,))))
    none = "".join(report.begin(collection()))

    for shown in ("Subtasks", "collector blog", "timed out", "failed (late)", "recording 3"):
        assert shown in text
    assert "Documents" in text
    assert "<script>" not in text
    if isinstance(report, MarkdownReport):
        assert "[x](javascript" not in text
    assert "Subtasks" not in none
    assert "Documents" not in none


def test_the_summary_counts_them() -> None:
    assert summary(collection(BLOG, REPORT)).endswith("; 0 of 2 subtasks completed.")
    assert "subtask" not in summary(collection())
