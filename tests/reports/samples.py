"""A collection with every field a report shows, and with hostile titles and texts."""

from datetime import UTC, datetime, timedelta

from reports.model import (
    Collection,
    Failure,
    Listing,
    Member,
    MemberState,
    State,
    Text,
    Translation,
)

NOW = datetime(2026, 11, 16, 19, 0, tzinfo=UTC)
HOSTILE = (
    "a|b `c` <script>alert(1)</script> [x](javascript:y) **d** \u202eevil\n"
    "# e &amp; \x07$f$ www.g.h"
)
SHOWN = "a|b `c` <script>alert(1)</script> [x](javascript:y) **d** evil # e &amp; $f$ www.g.h"
HOSTILE_TEXT = "- no list\n\n1. nor this\n\n<img src=x onerror=y> | ~~~ https://i.j\n\n> # ==="

MEMBERS = (
    Member(
        1,
        "https://site.test/1?a=b&c='\"><d",
        MemberState.COMPLETED,
        HOSTILE,
        job_id="job-1",
        duration_seconds=3723.4,
        language="pt-BR",
        late=True,
        attempt=2,
        end_time=NOW,
    ),
    Member(
        2,
        "https://site.test/2",
        MemberState.FAILED,
        "Ιδιωτικό",
        job_id="job-2",
        attempt=1,
        failure=Failure("VIDEO_PRIVATE", "Only its <owner> may see it.", "DOWNLOAD", False, 1),
    ),
    Member(3, "javascript:alert(1)", MemberState.PENDING),
    Member(
        4, "https://site.test/4", MemberState.COMPLETED, "Привет 日本語 हिन्दी 😀", job_id="job-4"
    ),
)
TEXTS = {
    1: Text(HOSTILE_TEXT, complete=True),
    2: Text(note="Nothing was heard of it yet."),
    3: Text(note="It was not begun: there is no text."),
    4: Text("Привет, мир.\n\nΚαλημέρα.\n\n日本語の文。", complete=False, note="Not all of it."),
}
COLLECTION = Collection(
    collection_id="0193a1b2-aaaa-7bbb-8ccc-1234567890ab",
    correlation_id="corr-42",
    state=State.PARTIAL,
    report_time=NOW,
    create_time=NOW - timedelta(hours=1),
    members=MEMBERS,
    title="October | <b>",
    sources=("https://site.test/@channel", "ytsearch5:cats"),
    discovery_complete=True,
    deadline=NOW - timedelta(minutes=5),
    end_time=NOW - timedelta(minutes=5),
    late_count=1,
    listings=(
        Listing("https://site.test/@channel", True, 3),
        Listing("ytsearch5:cats", True, 1, Failure("RATE_LIMITED", "Slow <down>.")),
    ),
)
EMPTY = Collection("id", "corr", State.RUNNING, NOW, NOW)
TRANSLATED = Text(
    "Olá a todos.\n\nAté breve.",
    complete=True,
    language="pt-BR",
    language_name="Portuguese (pt-BR)",
    translation=Translation("en", HOSTILE_TEXT, "English (en)"),
)
"""A text whose translation is hostile, too."""
