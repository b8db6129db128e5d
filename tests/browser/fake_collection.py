"""Faked responses about a collection, where a real one would take too long."""

import json
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


def events(*sent: tuple[str, int, dict[str, Any]]) -> str:
    """Encodes server-sent events: name, id (0: none) and data."""
    lines = ["retry: 100", ""]
    for name, event_id, data in sent:
        lines += [f"event: {name}", *([f"id: {event_id}"] if event_id else [])]
        lines += [f"data: {json.dumps(data)}", ""]
    return "\n".join([*lines, ""])


def serve_collection(page: Page, found: dict[str, Any], members: list[dict[str, Any]]) -> None:
    """Answers the page's requests about collections with this one, to its final event."""
    stream = events(
        ("collection", 0, found),
        *(("member", one["number"], one) for one in members),
        ("finished", len(members) + 1, found),
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
