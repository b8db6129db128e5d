"""The report as JSON, member by member. docs/reports.md documents its schema."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from reports.model import (
    Collection,
    Document,
    Failure,
    Listing,
    Member,
    Subtask,
    Text,
    Translation,
)
from reports.words import summary

SCHEMA_VERSION = 1


class JsonReport:
    """One object: the collection, then every member with its text."""

    def __init__(self) -> None:
        self._first = True
        self._documents = False

    def begin(self, collection: Collection) -> Iterator[str]:
        """The collection, up to the list of members."""
        content: dict[str, object] = {
            "schema_version": SCHEMA_VERSION,
            "collection": _collection(collection),
        }
        if collection.subtasks:
            content["subtasks"] = [_subtask(one) for one in collection.subtasks]
        if collection.documents:
            content["documents"] = [asdict(one) for one in collection.documents]
        head = _indented(content, "")
        yield head.removesuffix("\n}") + ',\n  "members": ['

    def member(self, member: Member, text: Text) -> Iterator[str]:
        """One element of the list."""
        yield ("\n    " if self._first else ",\n    ") + _indented(_member(member, text), "    ")
        self._first = False

    def document(self, document: Document, text: Text) -> Iterator[str]:
        """One element of a second list, of documents; there is none without any."""
        if not self._documents:
            yield ("" if self._first else "\n  ") + '],\n  "documents": ['
            self._first = self._documents = True
        found = {**asdict(document), "text": "\n\n".join(text.paragraphs)}
        yield ("\n    " if self._first else ",\n    ") + _indented(found, "    ")
        self._first = False

    def end(self) -> Iterator[str]:
        """Closes the list and the object."""
        yield ("" if self._first else "\n  ") + "]\n}\n"


def _collection(collection: Collection) -> dict[str, object]:
    identity = "collection_id correlation_id title sources caller from_date to_date state settled"
    course = "create_time deadline end_time report_time cancel_note language_out discovery_complete"
    return {
        **_fields(collection, identity),
        "summary": summary(collection),
        **_fields(collection, course),
        "member_count": len(collection.members),
        **_fields(collection, "late_count counts listings"),
    }


def _member(member: Member, text: Text) -> dict[str, object]:
    about = "number title url job_id duration_seconds language upload_date state late attempt"
    return {
        **_fields(member, f"{about} end_time failure"),
        "text": "\n\n".join(text.paragraphs),
        "text_complete": text.complete,
        "note": text.note,
        "translation": text.translation,
    }


def _subtask(subtask: Subtask) -> dict[str, object]:
    about = "number role type task_id state member document found attempt late end_time failure"
    return {
        **_fields(subtask, about),
        "parameters": json.loads(subtask.parameters or "{}"),
        "result": json.loads(subtask.result or "null"),
        "files": [asdict(one) for one in subtask.files],
    }


def _fields(source: object, names: str) -> dict[str, object]:
    return {name: getattr(source, name) for name in names.split()}


def _encoded(value: Failure | Listing | Translation | datetime) -> object:
    """What JSON has no type for: a time in UTC, or the fields of a dataclass in their order."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Translation):
        return {"language": value.language, "text": "\n\n".join(value.paragraphs)}
    return asdict(value)


def _indented(value: object, by: str) -> str:
    written = json.dumps(value, ensure_ascii=False, indent=2, default=_encoded)
    return written.replace("\n", f"\n{by}")
