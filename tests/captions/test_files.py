"""Every format is read back by an independent parser with the same content."""

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
from hypothesis import given
from hypothesis import strategies as st

from captions.formats import FORMATS, Format, cues_of
from captions.model import Cue, Segment, Transcript, Word
from captions.rules import rules_for
from tests.captions.speech import segment

transcripts = st.builds(
    Transcript,
    segments=st.lists(segment(), max_size=5).map(tuple),
    language=st.sampled_from(["en", "pt", "ja", "th", ""]),
    duration=st.just(0) | st.integers(1, 60_000),
)
VTT_WITH_WORDS = FORMATS["vtt"].with_word_cues()


def rendered(format_: Format, transcript: Transcript) -> tuple[str, list[Cue]]:
    """The file, and its cues."""
    rules = rules_for(transcript.language)
    return format_.render(transcript, rules), cues_of(transcript, rules)


def without_markup(lines: Sequence[str]) -> str:
    """The text as SRT must write it."""
    return "\n".join(lines).translate(str.maketrans("<>\\", "‹›/"))


@given(transcripts)
def test_srt_reads_back(transcript: Transcript) -> None:
    text, cues = rendered(FORMATS["srt"], transcript)

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


@given(transcripts)
def test_vtt_reads_back(transcript: Transcript) -> None:
    text, cues = rendered(FORMATS["vtt"], transcript)

    found = [
        (_ms(one.start), _ms(one.end), unescape(one.raw_text))
        for one in webvtt.from_string(text).captions
    ]

    assert found == [(cue.start, cue.end, "\n".join(cue.lines).replace("\\", "/")) for cue in cues]


@given(transcripts)
def test_word_stamps_rise_within_their_cue_and_change_no_text(transcript: Transcript) -> None:
    text, cues = rendered(VTT_WITH_WORDS, transcript)

    for one, cue in zip(webvtt.from_string(text).captions, cues, strict=True):
        stamps = [_ms(stamp) for stamp in re.findall(r"<(\d\d:\d\d:\d\d\.\d{3})>", one.raw_text)]
        assert stamps == sorted(set(stamps))
        assert all(cue.start < stamp < cue.end for stamp in stamps)
        bare = re.sub(r"<[\d:.]+>", "", one.raw_text)
        assert unescape(bare) == "\n".join(cue.lines).replace("\\", "/")


@given(transcripts)
def test_tsv_reads_back(transcript: Transcript) -> None:
    text, cues = rendered(FORMATS["tsv"], transcript)

    header, *found = csv.reader(StringIO(text), dialect="excel-tab")

    assert header == ["start", "end", "text"]
    assert found == [[str(cue.start), str(cue.end), cue.text] for cue in cues]


@given(transcripts)
def test_lrc_reads_back(transcript: Transcript) -> None:
    text, cues = rendered(FORMATS["lrc"], transcript)

    lines = [line for line in pylrc.parse(text) if line.text]

    assert [round(line.time * 100) for line in lines] == [cue.start // 10 for cue in cues]
    same = str.maketrans("<>[]", "()()")
    assert [line.text.translate(same) for line in lines] == [
        cue.text.translate(same) for cue in cues
    ]


@given(transcripts)
def test_json_keeps_segments_as_transcribed(transcript: Transcript) -> None:
    text, cues = rendered(FORMATS["json"], transcript)

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
        Segment(3000, 4000, "Sit down.", uncertain=True),
        Segment(9000, 9500, "Thank you."),
    ),
    language="en", language_probability=0.98, duration=12_000, model="base",
)  # fmt: skip


def test_json_has_words_confidence_language_and_model() -> None:
    found = json.loads(rendered(FORMATS["json"], SPOKEN)[0])

    assert (found["language"], found["language_probability"]) == ("en", 0.98)
    assert (found["model"], found["duration"]) == ("base", 12.0)
    assert found["text"] == "Good evening, all. Sit down. Thank you."
    assert found["segments"][0]["confidence"] == 0.9
    assert found["segments"][0]["words"][1] == {
        "start": 1.4, "end": 2.0, "text": "evening,", "confidence": 0.9877,
    }  # fmt: skip
    assert "words" not in found["segments"][1]


def test_json_marks_only_the_uncertain_segments() -> None:
    found = json.loads(rendered(FORMATS["json"], SPOKEN)[0])

    assert [one.get("uncertain") for one in found["segments"]] == [None, True, None]


def test_words_without_their_own_times_get_no_timestamp() -> None:
    text, _ = rendered(VTT_WITH_WORDS, SPOKEN)

    assert "Good <00:00:01.400>evening, <00:00:02.100>all." in text
    assert "\nSit down.\n" in text


def test_lyrics_are_cleared_during_silence() -> None:
    text, cues = rendered(FORMATS["lrc"], SPOKEN)

    assert text == (
        "[00:01.00]Good evening, all.\n[00:03.00]Sit down.\n[00:04.28]\n"
        "[00:09.00]Thank you.\n[00:09.83]\n"
    )
    assert cues[-1].end == 9834


def test_text_is_split_into_paragraphs_at_long_pauses() -> None:
    text, _ = rendered(FORMATS["txt"], SPOKEN)

    assert text == "Good evening, all. Sit down.\n\nThank you.\n"


def test_a_pause_inside_a_sentence_starts_no_paragraph() -> None:
    halves = (Segment(0, 1000, "I am sitting"), Segment(3000, 4000, "in a room."))

    assert rendered(FORMATS["txt"], Transcript(halves))[0] == "I am sitting in a room.\n"


def test_text_without_full_stops_is_split_too() -> None:
    endless = tuple(Segment(n * 1000, n * 1000 + 1000, "and so on " * 5) for n in range(50))

    paragraphs = rendered(FORMATS["txt"], Transcript(endless))[0].split("\n\n")

    assert len(paragraphs) > 1
    assert max(map(len, paragraphs)) < 1200


def test_japanese_gets_no_spaces() -> None:
    segments = (Segment(0, 2000, "今日は天気です。"), Segment(2000, 4000, "散歩に行きましょう。"))

    text, _ = rendered(FORMATS["txt"], Transcript(segments, language="ja"))

    assert text == "今日は天気です。散歩に行きましょう。\n"


@pytest.mark.parametrize(
    "format_",
    [*(FORMATS[name] for name in ("srt", "vtt", "txt", "tsv", "lrc")), VTT_WITH_WORDS],
)
def test_an_empty_transcript_is_a_file_without_cues(format_: Format) -> None:
    text, cues = rendered(format_, Transcript(()))

    assert cues == []
    assert text.strip() in ("", "WEBVTT", "start\tend\ttext")


def test_markup_in_speech_stays_text() -> None:
    segments = (Segment(0, 3000, "<b>x</b> --> {\\an8} a & b"),)

    as_srt, _ = rendered(FORMATS["srt"], Transcript(segments))
    as_vtt, _ = rendered(FORMATS["vtt"], Transcript(segments))

    assert as_srt.splitlines()[2] == "‹b›x‹/b› --› {/an8} a & b"
    assert as_vtt.splitlines()[4] == "&lt;b&gt;x&lt;/b&gt; --&gt; {/an8} a &amp; b"


def test_text_that_looks_like_a_timestamp_in_lyrics_stays_text() -> None:
    segments = (Segment(0, 3000, "At [00:05.00] or <00:06.00> precisely."),)

    text, _ = rendered(FORMATS["lrc"], Transcript(segments))

    assert text.splitlines()[0] == "[00:00.00]At (00:05.00) or (00:06.00) precisely."
