"""Every file is read back by somebody else's parser and says the same."""

import csv
import json
import re
from collections.abc import Sequence
from html import unescape
from io import StringIO

import pylrc
import pytest
import srt
import webvtt
from hypothesis import given, settings
from hypothesis import strategies as st

from captions import formats
from captions.formats import Format, cues_of
from captions.model import Cue, Segment, Transcript, Word
from captions.rules import rules_for
from tests.captions.speech import segment

transcripts = st.builds(
    Transcript,
    segments=st.lists(segment(), max_size=5).map(tuple),
    language=st.sampled_from(["en", "pt", "ja", "th", ""]),
    duration=st.just(0) | st.integers(1, 60_000),
)
by_strangers = settings(max_examples=100, deadline=None)


def rendered(format_: Format, transcript: Transcript) -> tuple[str, list[Cue]]:
    """The file, and the cues it is made of."""
    rules = rules_for(transcript.language)
    return format_.render(transcript, rules), cues_of(transcript, rules)


def without_markup(lines: Sequence[str]) -> str:
    """As SRT must spell it."""
    return "\n".join(lines).translate(str.maketrans("<>\\", "‹›/"))


@by_strangers
@given(transcripts)
def test_srt_reads_back(transcript: Transcript) -> None:
    text, cues = rendered(formats.SRT, transcript)

    found = [
        (
            round(one.start.total_seconds() * 1000),
            round(one.end.total_seconds() * 1000),
            one.content,
        )
        for one in srt.parse(text)
    ]

    assert found == [(cue.start, cue.end, without_markup(cue.lines)) for cue in cues]


def _ms(stamp: str) -> int:
    hours, minutes, seconds = stamp.split(":")
    return round((int(hours) * 60 + int(minutes)) * 60_000 + float(seconds) * 1000)


@by_strangers
@given(transcripts)
def test_vtt_reads_back(transcript: Transcript) -> None:
    text, cues = rendered(formats.VTT, transcript)

    found = [
        (_ms(one.start), _ms(one.end), unescape(one.raw_text))
        for one in webvtt.from_string(text).captions
    ]

    assert found == [(cue.start, cue.end, "\n".join(cue.lines).replace("\\", "/")) for cue in cues]


@by_strangers
@given(transcripts)
def test_word_stamps_rise_within_their_cue_and_change_no_text(transcript: Transcript) -> None:
    text, cues = rendered(formats.VTT_BY_WORD, transcript)

    for one, cue in zip(webvtt.from_string(text).captions, cues, strict=True):
        stamps = [_ms(stamp) for stamp in re.findall(r"<(\d\d:\d\d:\d\d\.\d{3})>", one.raw_text)]
        assert stamps == sorted(set(stamps))
        assert all(cue.start < stamp < cue.end for stamp in stamps)
        bare = re.sub(r"<[\d:.]+>", "", one.raw_text)
        assert unescape(bare) == "\n".join(cue.lines).replace("\\", "/")


@by_strangers
@given(transcripts)
def test_tsv_reads_back(transcript: Transcript) -> None:
    text, cues = rendered(formats.TSV, transcript)

    header, *found = csv.reader(StringIO(text), dialect="excel-tab")

    assert header == ["start", "end", "text"]
    assert found == [[str(cue.start), str(cue.end), cue.text] for cue in cues]


@by_strangers
@given(transcripts)
def test_lrc_reads_back(transcript: Transcript) -> None:
    text, cues = rendered(formats.LRC, transcript)

    lines = [line for line in pylrc.parse(text) if line.text]

    assert [round(line.time * 100) for line in lines] == [cue.start // 10 for cue in cues]
    same = str.maketrans("<>[]", "()()")
    assert [line.text.translate(same) for line in lines] == [
        cue.text.translate(same) for cue in cues
    ]


@by_strangers
@given(transcripts)
def test_json_keeps_segments_as_they_were_heard(transcript: Transcript) -> None:
    text, cues = rendered(formats.JSON, transcript)

    found = json.loads(text)

    assert [
        (round(one["start"] * 1000), round(one["end"] * 1000), one["text"])
        for one in found["segments"]
    ] == [(one.start, one.end, one.text) for one in transcript.segments]
    assert [one["text"].split("\n") for one in found["cues"]] == [list(cue.lines) for cue in cues]


SPOKEN = Transcript(
    segments=(
        Segment(
            1000, 2500, "Good evening, all.",
            (Word(1000, 1400, "Good", 0.99), Word(1400, 2000, "evening,", 0.98765),
             Word(2100, 2500, "all.")), 0.9,
        ),
        Segment(3000, 4000, "Sit down."),
        Segment(9000, 9500, "Thank you."),
    ),
    language="en", language_probability=0.98, duration=12_000, model="base",
)  # fmt: skip


def test_json_has_words_confidence_language_and_model() -> None:
    found = json.loads(rendered(formats.JSON, SPOKEN)[0])

    assert (found["language"], found["language_probability"]) == ("en", 0.98)
    assert (found["model"], found["duration"]) == ("base", 12.0)
    assert found["text"] == "Good evening, all. Sit down. Thank you."
    assert found["segments"][0]["confidence"] == 0.9
    assert found["segments"][0]["words"][1] == {
        "start": 1.4, "end": 2.0, "text": "evening,", "confidence": 0.9877,
    }  # fmt: skip
    assert "words" not in found["segments"][1]


def test_words_without_times_of_their_own_get_no_stamp() -> None:
    text, _ = rendered(formats.VTT_BY_WORD, SPOKEN)

    assert "Good <00:00:01.400>evening, <00:00:02.100>all." in text
    assert "\nSit down.\n" in text


def test_lyrics_go_when_nobody_speaks() -> None:
    text, cues = rendered(formats.LRC, SPOKEN)

    assert text == (
        "[00:01.00]Good evening, all.\n[00:03.00]Sit down.\n[00:04.28]\n"
        "[00:09.00]Thank you.\n[00:09.83]\n"
    )
    assert cues[-1].end == 9834


def test_text_is_paragraphs_parted_at_long_pauses() -> None:
    text, _ = rendered(formats.TXT, SPOKEN)

    assert text == "Good evening, all. Sit down.\n\nThank you.\n"


def test_a_pause_in_the_middle_of_a_sentence_parts_nothing() -> None:
    halves = (Segment(0, 1000, "I am sitting"), Segment(3000, 4000, "in a room."))

    assert rendered(formats.TXT, Transcript(halves))[0] == "I am sitting in a room.\n"


def test_text_without_full_stops_is_parted_all_the_same() -> None:
    endless = tuple(Segment(n * 1000, n * 1000 + 1000, "and so on " * 5) for n in range(50))

    paragraphs = rendered(formats.TXT, Transcript(endless))[0].split("\n\n")

    assert len(paragraphs) > 1
    assert max(map(len, paragraphs)) < 1200


def test_japanese_is_not_torn_apart_by_spaces() -> None:
    said = (Segment(0, 2000, "今日は天気です。"), Segment(2000, 4000, "散歩に行きましょう。"))

    text, _ = rendered(formats.TXT, Transcript(said, language="ja"))

    assert text == "今日は天気です。散歩に行きましょう。\n"


@pytest.mark.parametrize(
    "format_",
    [formats.SRT, formats.VTT, formats.VTT_BY_WORD, formats.TXT, formats.TSV, formats.LRC],
)
def test_nothing_heard_is_a_file_without_cues(format_: Format) -> None:
    text, cues = rendered(format_, Transcript(()))

    assert cues == []
    assert text.strip() in ("", "WEBVTT", "start\tend\ttext")


def test_markup_in_speech_stays_text() -> None:
    said = (Segment(0, 3000, "<b>x</b> --> {\\an8} a & b"),)

    as_srt, _ = rendered(formats.SRT, Transcript(said))
    as_vtt, _ = rendered(formats.VTT, Transcript(said))

    assert as_srt.splitlines()[2] == "‹b›x‹/b› --› {/an8} a & b"
    assert as_vtt.splitlines()[4] == "&lt;b&gt;x&lt;/b&gt; --&gt; {/an8} a &amp; b"


def test_what_looks_like_a_stamp_in_lyrics_stays_text() -> None:
    said = (Segment(0, 3000, "At [00:05.00] or <00:06.00> precisely."),)

    text, _ = rendered(formats.LRC, Transcript(said))

    assert text.splitlines()[0] == "[00:00.00]At (00:05.00) or (00:06.00) precisely."
