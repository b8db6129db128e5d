"""The report as JSON, member by member. Its shape is promised: docs/reports.md."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from reports.model import Collection, Failure, Member, Text, Translation
from reports.words import summary

SCHEMA_VERSION = 1


class JsonReport:
    """One object: the collection, then every member with its text."""

    def __init__(self) -> None:
        self._first = True

    def begin(self, collection: Collection) -> Iterator[str]:
        """The collection, up to where its members come."""
        head = _indented(
            {"schema_version": SCHEMA_VERSION, "collection": _collection(collection)}, ""
        )
        yield head.removesuffix("\n}") + ',\n  "members": ['

    def member(self, member: Member, text: Text) -> Iterator[str]:
        """One element of the list."""
        yield ("\n    " if self._first else ",\n    ") + _indented(_member(member, text), "    ")
        self._first = False

    def end(self) -> Iterator[str]:
        """What closes the object."""
        yield ("" if self._first else "\n  ") + "]\n}\n"


def _collection(collection: Collection) -> dict[str, object]:
    return {
        "collection_id": collection.collection_id,
        "correlation_id": collection.correlation_id,
        "title": collection.title,
        "sources": list(collection.sources),
        "caller": collection.caller,
        "from_date": collection.from_date,
        "to_date": collection.to_date,
        "state": collection.state.value,
        "settled": collection.settled,
        "summary": summary(collection),
        "create_time": _time(collection.create_time),
        "deadline": _time(collection.deadline),
        "end_time": _time(collection.end_time),
        "report_time": _time(collection.report_time),
        "cancel_note": collection.cancel_note,
        "language_out": collection.language_out,
        "discovery_complete": collection.discovery_complete,
        "member_count": len(collection.members),
        "late_count": collection.late_count,
        "counts": {state.value: count for state, count in collection.counts.items()},
        "listings": [
            {
                "source": listing.source,
                "complete": listing.complete,
                "found": listing.found,
                "failure": _failure(listing.failure),
            }
            for listing in collection.listings
        ],
    }


def _member(member: Member, text: Text) -> dict[str, object]:
    return {
        "number": member.number,
        "title": member.title,
        "url": member.url,
        "job_id": member.job_id,
        "duration_seconds": member.duration_seconds,
        "language": member.language,
        "upload_date": member.upload_date,
        "state": member.state.value,
        "late": member.late,
        "attempt": member.attempt,
        "end_time": _time(member.end_time),
        "failure": _failure(member.failure),
        "text": "\n\n".join(text.paragraphs),
        "text_complete": text.complete,
        "note": text.note,
        "translation": _translation(text.translation),
    }


def _translation(translation: Translation | None) -> dict[str, object] | None:
    if not translation:
        return None
    return {"language": translation.language, "text": "\n\n".join(translation.paragraphs)}


def _failure(failure: Failure | None) -> dict[str, object] | None:
    if not failure:
        return None
    return {
        "reason": failure.reason,
        "message": failure.message,
        "stage": failure.stage,
        "retryable": failure.retryable,
        "attempt": failure.attempt,
    }


def _time(time: datetime | None) -> str | None:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z") if time else None


def _indented(value: object, by: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", f"\n{by}")
