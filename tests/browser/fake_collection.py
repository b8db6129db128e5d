"""Faked responses about a collection, where a real one would take too long."""

import json
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Page, Route

ID = "01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"
NOW = "2026-03-04T10:00:00Z"
STATES = ("pending", "running", "completed", "failed", "timed_out", "cancelled")


def collection(members: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A collection of these members; settled by default."""
    counts = {state: [one["state"] for one in members].count(state) for state in STATES}
    return {
        "collection_id": ID,
        "title": "Evening talks",
        "state": "partial",
        "settled": True,
        "sources": ["https://example.test/channel"],
        "listings": [
            {
                "source": "https://example.test/channel",
                "complete": True,
                "found": len(members),
                "failure": None,
            }
        ],
        "discovery_complete": True,
        "member_count": len(members),
        "subtask_count": 0,
        "document_count": 0,
        "counts": counts,
        "late_count": sum(one["late"] for one in members),
        "created_at": NOW,
        "updated_at": NOW,
        "deadline": NOW,
        "gathered_at": NOW,
        "from_date": "2026-02-01",
        "to_date": "2026-02-28",
        "can_cancel": False,
        **more,
    }


def member(number: int, state: str, **more: Any) -> dict[str, Any]:
    """One recording."""
    return {
        "number": number,
        "job_id": None if state == "pending" else f"job-{number}",
        "source_url": f"https://example.test/talks/{number}",
        "title": f"Talk number {number}",
        "state": state,
        "progress": None,
        "failure": None,
        "late": False,
        "duration_seconds": 61.5 * number,
        "language": "en",
        "upload_date": "2026-02-03",
        "attempt": 1,
        "ended_at": NOW if state in ("completed", "failed", "cancelled") else None,
        **more,
    }


def subtask(number: int, state: str, **more: Any) -> dict[str, Any]:
    """One call of a collector."""
    return {
        "number": number,
        "task_id": f"task-{number}",
        "role": "collector",
        "type": "blog",
        "parameters": {"endereco": "https://example.test/feed.xml"},
        "member": None,
        "document": None,
        "state": state,
        "progress": None,
        "failure": None,
        "attempt": 1,
        "found": 0,
        "result": None,
        "files": [],
        "late": False,
        "ended_at": None,
        **more,
    }


def document(number: int, **more: Any) -> dict[str, Any]:
    """One text, as the event stream has it."""
    return {
        "number": number,
        "subtask": 1,
        "url": f"https://example.test/posts/{number}",
        "title": f"Post number {number}",
        "text": "",
        "language": "en",
        "publish_date": "2026-02-03",
        "metadata": {},
        **more,
    }


def events(*sent: tuple[str, int, dict[str, Any]]) -> str:
    """Encodes server-sent events: name, id (0: none) and data."""
    lines = ["retry: 100", ""]
    for name, event_id, data in sent:
        lines += [f"event: {name}", *([f"id: {event_id}"] if event_id else [])]
        lines += [f"data: {json.dumps(data)}", ""]
    return "\n".join([*lines, ""])


def serve_collection(
    page: Page,
    found: dict[str, Any],
    members: list[dict[str, Any]],
    subtasks: Sequence[dict[str, Any]] = (),
    documents: Sequence[dict[str, Any]] = (),
) -> None:
    """Answers the page's requests about collections with this one, to its final event."""
    parts = [("member", one) for one in members]
    parts += [("subtask", one) for one in subtasks] + [("document", one) for one in documents]
    stream = events(
        ("collection", 0, found),
        *((name, event_id, one) for event_id, (name, one) in enumerate(parts, 1)),
        ("finished", len(parts) + 1, found),
    )

    def stream_events(route: Route) -> None:
        route.fulfill(body=stream, content_type="text/event-stream")

    listed = {"collections": [found], "next_page_token": ""}
    live = events(("collections", 0, listed))
    page.route(
        "**/collections/events?*",
        lambda route: route.fulfill(body=live, content_type="text/event-stream"),
    )
    page.route(f"**/collections/{ID}?*", lambda route: route.fulfill(json=found))
    page.route(f"**/collections/{ID}/events*", stream_events)


def members_of_every_state() -> list[dict[str, Any]]:
    """Members of every state."""
    failure = {
        "reason": "VIDEO_PRIVATE",
        "message": "Private video",
        "retryable": False,
        "stage": "download",
        "attempt": 1,
    }
    return [
        member(1, "completed", progress=100.0),
        member(2, "completed", progress=100.0, late=True),
        member(3, "failed", failure=failure),
        member(4, "timed_out", progress=40.0, attempt=2),
        member(5, "running", progress=62.0),
        member(6, "running"),
        member(7, "pending", title=""),
        member(8, "cancelled"),
    ]


def subtasks_of_every_state() -> list[dict[str, Any]]:
    """Subtasks of every state and both roles."""
    refused = {
        "reason": "EXECUTOR_FAILED",
        "message": "the model says no",
        "retryable": False,
        "stage": None,
        "attempt": 3,
    }
    file = {
        "name": "An evening of talks about everything and nothing, in February 2026.pdf",
        "media_type": "application/pdf",
        "size_bytes": 123_456,
        "sha256": "00" * 32,
        "url": "",
    }
    made: dict[str, Any] = {"role": "executor", "type": "relatorio", "parameters": {}}
    return [
        subtask(1, "completed", found=30, progress=100.0),
        subtask(2, "running", found=1, progress=42.0, attempt=2),
        subtask(3, "running"),
        subtask(4, "timed_out", found=3),
        subtask(5, "cancelled"),
        subtask(6, "pending", **made),
        subtask(7, "completed", **made, files=[file], result={"documentos": 2, "arquivo": "x.pdf"}),
        subtask(8, "failed", **made, document=2, failure=refused, attempt=3),
        subtask(9, "completed", **made, member=1, late=True, result={"long": "word" * 100}),
    ]
