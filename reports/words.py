"""The wording all report formats share, and clean-up of untrusted text."""

import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from reports.model import (
    Collection,
    Document,
    Failure,
    Listing,
    Member,
    MemberState,
    State,
    Subtask,
    Text,
)

COLUMNS = ("#", "Title", "State", "Length", "Language", "Failure")
"""Columns of the table of recordings."""
_JOINERS = "\u200c\u200d\u00ad"
"""Invisible characters that belong to words; others hide text or reverse its direction."""


def on_one_line(text: str) -> str:
    """The text without line breaks, control characters and direction overrides."""
    if text.isprintable() and "  " not in text:
        return text.strip()  # the common case
    spaced = " ".join(text.split())
    if not spaced.isprintable():
        spaced = "".join(filter(_visible, spaced))
    return spaced.strip()


def _visible(sign: str) -> bool:
    if sign.isascii():
        return sign.isprintable()
    category = unicodedata.category(sign)
    return sign in _JOINERS or category not in ("Cc", "Cf", "Cs", "Co")


def heading(collection: Collection) -> str:
    """Title of the report: the collection's title, else its sources, else its member count."""
    if title := on_one_line(collection.title):
        return title
    if sources := [on_one_line(source) for source in collection.sources]:
        more = f" and {len(sources) - 2} more" if len(sources) > 2 else ""
        return ", ".join(sources[:2]) + more
    return counted(len(collection.members), "recording")


def name(member: Member) -> str:
    """Title of a member, else its address, else its number."""
    return on_one_line(member.title) or on_one_line(member.url) or f"Recording {member.number}"


def summary(collection: Collection) -> str:
    """One or two sentences: complete or partial, and what is missing."""
    counts, total = collection.counts, len(collection.members)
    completed = counts.get(MemberState.COMPLETED, 0)
    counted_members = f"{completed} of {counted(total, 'recording')} completed"
    others = [f"{count} {state.words}" for state, count in counts.items()]
    rest = ", ".join(others[1:] if completed else others)
    counted_members += f" ({rest})" if rest else ""
    if collection.late_count:
        counted_members += f"; {collection.late_count} ended after the deadline"
    if subtasks := collection.subtasks:
        done = sum(one.state is MemberState.COMPLETED for one in subtasks)
        counted_members += f"; {done} of {counted(len(subtasks), 'subtask')} completed"
    broken = len(collection.broken_listings)
    if broken:
        counted_members += f"; {counted(broken, 'listing')} broke off"
    return f"{_verdict(collection)} {counted_members}."


def _verdict(collection: Collection) -> str:
    match collection.state:
        case State.RUNNING:
            found = "" if collection.discovery_complete else " and sources are still being listed"
            return f"Still running{found}: this is the state when the report was requested."
        case State.COMPLETE:
            return "Complete."
        case State.CANCELLED:
            return "Cancelled." if collection.settled else "Cancelled; members are still stopping."
        case State.PARTIAL:
            return "Partial." if collection.settled else "Partial; late results may still come."


def counted(count: int, noun: str) -> str:
    """A number and its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def collection_fields(collection: Collection) -> list[tuple[str, str]]:
    """Labels and values of what is known about the collection."""
    known = [
        ("Collection", collection.collection_id),
        ("Correlation id", on_one_line(collection.correlation_id)),
        ("Sources", ", ".join(map(on_one_line, collection.sources))),
        ("Published", _period(collection)),
        ("Created", moment(collection.create_time)),
        ("Requested by", on_one_line(collection.caller)),
        ("Translation requested", on_one_line(collection.language_out_name)),
        ("Deadline", moment(collection.deadline) or "none"),
        ("Ended", moment(collection.end_time) or "not yet"),
        ("Cancellation reason", on_one_line(collection.cancel_note)),
        ("Report time", moment(collection.report_time)),
    ]
    return [(label, value) for label, value in known if value]


def _period(collection: Collection) -> str:
    since, until = on_one_line(collection.from_date), on_one_line(collection.to_date)
    return " ".join(filter(None, [since and f"from {since}", until and f"until {until}"]))


def member_fields(member: Member, text: Text) -> list[tuple[str, str]]:
    """Labels and values of what is known about a member, besides title, address, state, failure."""
    known = [
        ("Length", clock(member.duration_seconds)),
        ("Language", on_one_line(member.language)),
        ("Translated into", on_one_line(text.translation.language) if text.translation else ""),
        ("Published", on_one_line(member.upload_date)),
        ("Attempt", str(member.attempt) if member.attempt else ""),
        ("Ended", moment(member.end_time)),
        ("Job", member.job_id),
    ]
    return [(label, value) for label, value in known if value]


def document_name(document: Document) -> str:
    """Title of a document, else its address, else its number."""
    return on_one_line(document.title) or on_one_line(document.url) or f"Document {document.number}"


def document_fields(document: Document) -> list[tuple[str, str]]:
    """Labels and values of what is known about a document, besides title and address."""
    known = [
        ("Language", on_one_line(document.language)),
        ("Published", on_one_line(document.publish_date)),
    ]
    return [(label, value) for label, value in known if value]


def state(member: Member) -> str:
    """The member's state in words."""
    return member.state.words + (" (late)" if member.late else "")


def row(member: Member) -> tuple[str, ...]:
    """The member's row in the table of recordings."""
    return (
        str(member.number),
        name(member),
        state(member),
        clock(member.duration_seconds),
        on_one_line(member.language),
        on_one_line(member.failure.reason) if member.failure else "",
    )


SUBTASK_COLUMNS = ("#", "Subtask", "State", "Found", "Result", "Failure")
"""Columns of the table of what collectors and executors did."""
DOCUMENT_COLUMNS = ("#", "Document", "Language", "Published", "Address")
MAX_RESULT = 300
"""Characters of a result in a table; the JSON has all of it."""


def subtask_row(subtask: Subtask) -> tuple[str, ...]:
    """The subtask's row in the table."""
    about = f", recording {subtask.member}" if subtask.member else ""
    about += f", document {subtask.document}" if subtask.document else ""
    files = [on_one_line(one.name) for one in subtask.files]
    shown = on_one_line(subtask.result)
    result = shown if len(shown) <= MAX_RESULT else f"{shown[:MAX_RESULT]}…"
    return (
        str(subtask.number),
        f"{subtask.role} {on_one_line(subtask.type)}{about}",
        subtask.state.words + (" (late)" if subtask.late else ""),
        str(subtask.found) if subtask.found else "",
        ", ".join(filter(None, [result, *files])),
        failure_text(subtask.failure),
    )


def document_row(document: Document) -> tuple[str, ...]:
    """The document's row in the table."""
    return (
        str(document.number),
        on_one_line(document.title) or on_one_line(document.url) or "untitled",
        on_one_line(document.language),
        on_one_line(document.publish_date),
        on_one_line(document.url),
    )


def incomplete_listing(listing: Listing) -> str:
    """A listing that failed, and how many recordings it had found."""
    return f"Listing broke off after {listing.found}: {on_one_line(listing.source)}"


def failure_text(failure: Failure | None) -> str:
    """Reason and message in one line; the reason first, as it can be looked up."""
    if not failure:
        return ""
    reason = on_one_line(failure.reason)
    if stage := failure.stage:
        reason += f" in {stage.lower()}"
    message = on_one_line(failure.message)
    return f"{reason}: {message}" if message else reason


def moment(time: datetime | None) -> str:
    """The time in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if time else ""


def clock(seconds: float | None) -> str:
    """1:02:03, or 2:03."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def link(address: str) -> str:
    """The address as a safe link, in ASCII without quotes or brackets; empty unless it is HTTP."""
    try:
        scheme = urlsplit(address).scheme
    except ValueError:
        return ""
    if scheme not in ("http", "https"):
        return ""
    return quote(on_one_line(address), safe=":/?#@!$&'()*+,;=%-._~").replace("'", "%27")


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A member's text in one language."""

    label: str
    """Its heading; empty if the member has only one text."""
    language: str
    paragraphs: list[str]


def text_blocks(member: Member, text: Text) -> list[TextBlock]:
    """The original and, if there is one, its translation; empty if there is no text."""
    language = on_one_line(text.language or member.language)
    if not text.translation:
        return [TextBlock("", language, text.paragraphs)] if text.paragraphs else []
    other = on_one_line(text.translation.language)
    return [
        TextBlock(_label("Original", text.language_name), language, text.paragraphs),
        TextBlock(
            _label("Translation", text.translation.language_name),
            other,
            text.translation.paragraphs,
        ),
    ]


def _label(kind: str, language_name: str) -> str:
    return f"{kind}: {on_one_line(language_name)}" if language_name else kind
