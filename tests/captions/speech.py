"""Speech for tests: real sentences, and random ones from hypothesis."""

import unicodedata
from collections.abc import Sequence

from hypothesis import assume
from hypothesis import strategies as st

from captions.model import Cue, Segment, Word
from captions.rules import LIMITS, Rules, changed, rules_for
from captions.text import width

LANGUAGES = ("", "en", "pt", "es", "fr", "de", "it", "ja", "zh", "ko", "th", "ar", "pt-BR")
ODD_WORDS = (
    "<b>bold</b>", "-->", "{\\an8}", "C:\\new", "&amp;", "a&b", "[00:01.00]", "<00:00:01.000>",
    "https://example.org/a/very/long/path/that-goes-on-and-on?with=queries&and=more#too",
    "Donaudampfschifffahrtsgesellschaftskapitän", "👩‍👩‍👧‍👦", "🇧🇷🇵🇹", "👍🏽", "e\u0301te\u0301",
    "السلام", "עליכם", "今日は天気です。", "我们一起去公园散步吧，", "วันนี้อากาศดีมาก", "안녕하세요",
    "\n", "\t", "\u2028", "\x00", "\u00a0", "?", "«", "-", '"', "1", "1998,", "Dr.", "the", "♪",
)  # fmt: skip


def squeezed(text: str) -> str:
    """The visible characters without spaces, which every format must keep."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(c for c in composed if not c.isspace() and unicodedata.category(c) != "Cc")


def visible(segments: Sequence[Segment]) -> str:
    """All spoken text, without invisible words."""
    words = (word for segment in segments for word in _words(segment.text))
    return "".join(squeezed(word) for word in words if width(squeezed(word)))


def _words(text: str) -> list[str]:
    composed = unicodedata.normalize("NFC", text)
    spaced = "".join(" " if unicodedata.category(c) == "Cc" else c for c in composed)
    return [part for part in spaced.split() if part]


def shown(cues: Sequence[Cue]) -> str:
    """All text on the screen."""
    return "".join(squeezed(line) for cue in cues for line in cue.lines)


words = st.one_of(
    st.sampled_from(ODD_WORDS),
    st.from_regex(r"[A-Za-zçãé]{1,12}[,.;!?]?", fullmatch=True),
    st.text(min_size=1, max_size=12),
    st.text(alphabet="日本語字幕、。のはーっ", min_size=1, max_size=60),
)
texts = st.lists(words, max_size=30).map(" ".join)
moments = st.integers(-1_000, 60_000)


@st.composite
def segment(draw: st.DrawFn) -> Segment:
    """Any text a transcriber could return, and some it could not."""
    text = draw(texts)
    if not draw(st.booleans()):
        return Segment(draw(moments), draw(moments), text)
    spoken = tuple(Word(draw(moments), draw(moments), word) for word in text.split())
    return Segment(draw(moments), draw(moments), text, spoken)


@st.composite
def spoken_in_order(draw: st.DrawFn) -> tuple[Segment, ...]:
    """Segments as a transcriber gives them: one after the other."""
    found, time = [], 0
    for text in draw(st.lists(texts, max_size=8)):
        time += draw(st.integers(0, 3_000))
        end = time + draw(st.integers(0, 12_000))
        found.append(Segment(time, end, text))
        time = end
    return tuple(found)


@st.composite
def any_rules(draw: st.DrawFn) -> Rules:
    """Random limits within the range callers may set."""
    limits = {
        name: draw(st.none() | st.integers(int(low), int(high)))
        for name, (low, high) in LIMITS.items()
    }
    base = rules_for(draw(st.sampled_from(LANGUAGES)))
    assume(
        (limits["max_duration"] or base.max_duration)
        >= (limits["min_duration"] or base.min_duration)
    )
    return changed(base, **limits)
