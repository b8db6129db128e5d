"""The words every format says things with, and strangers' words made harmless for the eye."""

import unicodedata
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from reports.languages import named
from reports.model import Collection, Failure, Listing, Member, MemberState, State, Text

STATES = {
    MemberState.COMPLETED: "completed",
    MemberState.RUNNING: "running",
    MemberState.PENDING: "pending",
    MemberState.FAILED: "failed",
    MemberState.TIMED_OUT: "timed out",
    MemberState.CANCELLED: "cancelled",
}
COLUMNS = ("#", "Title", "State", "Length", "Language", "Failure")
"""What the table of recordings has of each."""
_JOINERS = "\u200c\u200d\u00ad"
"""Of what nobody sees these belong to words; others turn text round, or hide."""


def on_one_line(text: str) -> str:
    """Without line breaks, control signs and signs that change the direction of what follows."""
    if text.isprintable() and "  " not in text:
        return text.strip()  # nearly all of what is said
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
    """What the report is called: the collection's title, or its sources, or how many it has."""
    if title := on_one_line(collection.title):
        return title
    if sources := [on_one_line(source) for source in collection.sources]:
        more = f" and {len(sources) - 2} more" if len(sources) > 2 else ""
        return ", ".join(sources[:2]) + more
    return counted(len(collection.members), "recording")


def name(member: Member) -> str:
    """What a member is called."""
    return on_one_line(member.title) or on_one_line(member.url) or f"Recording {member.number}"


def summary(collection: Collection) -> str:
    """In one or two sentences: complete or partial, and what is missing."""
    counts, total = collection.counts, len(collection.members)
    completed = counts.get(MemberState.COMPLETED, 0)
    said = f"{completed} of {counted(total, 'recording')} completed"
    others = [f"{count} {STATES[state]}" for state, count in counts.items()]
    rest = ", ".join(others[1:] if completed else others)
    said += f" ({rest})" if rest else ""
    if collection.late_count:
        said += f"; {collection.late_count} ended after the deadline"
    broken = len(collection.broken_listings)
    if broken:
        said += f"; {counted(broken, 'listing')} broke off"
    return f"{_verdict(collection)} {said[0].upper()}{said[1:]}."


def _verdict(collection: Collection) -> str:
    match collection.state:
        case State.RUNNING:
            found = "" if collection.discovery_complete else " and sources are still being listed"
            return f"Still running{found}: things stood like this when the report was asked for."
        case State.COMPLETE:
            return "Complete."
        case State.CANCELLED:
            return "Cancelled." if collection.settled else "Cancelled; members are still stopping."
        case State.PARTIAL:
            return "Partial." if collection.settled else "Partial; late results may still come."


def counted(count: int, noun: str) -> str:
    """A number and its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def facts(collection: Collection) -> list[tuple[str, str]]:
    """What is known of the collection, as names and values."""
    known = [
        ("Collection", collection.collection_id),
        ("Correlation id", on_one_line(collection.correlation_id)),
        ("Sources", ", ".join(map(on_one_line, collection.sources))),
        ("Published", _period(collection)),
        ("Asked for", moment(collection.create_time)),
        ("Asked by", on_one_line(collection.caller)),
        ("Translation asked for", named(on_one_line(collection.language_out))),
        ("Deadline", moment(collection.deadline) or "none"),
        ("Gathered", moment(collection.end_time) or "not yet"),
        ("Cancelled because", on_one_line(collection.cancel_note)),
        ("Report of", moment(collection.report_time)),
    ]
    return [(label, value) for label, value in known if value]


def _period(collection: Collection) -> str:
    since, until = on_one_line(collection.from_date), on_one_line(collection.to_date)
    return " ".join(filter(None, [since and f"from {since}", until and f"until {until}"]))


def particulars(member: Member, text: Text) -> list[tuple[str, str]]:
    """What is known of a member besides its title, address, state and failure."""
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


def state(member: Member) -> str:
    """Its state in words."""
    return STATES[member.state] + (" (late)" if member.late else "")


def row(member: Member) -> tuple[str, ...]:
    """Its line in the table of recordings."""
    return (
        str(member.number),
        name(member),
        state(member),
        clock(member.duration_seconds),
        on_one_line(member.language),
        on_one_line(member.failure.reason) if member.failure else "",
    )


def broke_off(listing: Listing) -> str:
    """How far a listing came."""
    return f"Listing broke off after {listing.found}: {on_one_line(listing.source)}"


def failed(failure: Failure | None) -> str:
    """Reason and message in one line; the reason comes first, as it can be looked up."""
    if not failure:
        return ""
    reason = on_one_line(failure.reason)
    if stage := failure.stage:
        reason += f" in {stage.lower()}"
    message = on_one_line(failure.message)
    return f"{reason}: {message}" if message else reason


def moment(time: datetime | None) -> str:
    """In UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if time else ""


def clock(seconds: float | None) -> str:
    """1:02:03, or 2:03."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def link(address: str) -> str:
    """The address if a reader may follow it, in ASCII without quotes or brackets; else empty."""
    try:
        scheme = urlsplit(address).scheme
    except ValueError:
        return ""
    if scheme not in ("http", "https"):
        return ""
    return quote(on_one_line(address), safe=":/?#@!$&'()*+,;=%-._~").replace("'", "%27")
