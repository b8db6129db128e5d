"""The segments the scripted stages send."""

from google.protobuf.duration import from_milliseconds, from_seconds

from ytcaption.v1 import media_pb2

TEXT = "".join(f"word {second}\n" for second in range(1, 7))
"""What is said in six seconds, as long as a recording usually is."""


def transcribed_segment(second: int, *, words: bool) -> media_pb2.Segment:
    """What is said in this second; settled with its window of two."""
    middle = from_milliseconds(second * 1000 - 500)
    segment = _segment(second - 1, f"word {second}", "en", settled=second - second % 2)
    if words:
        segment.words.add(start_offset=segment.start_offset, end_offset=middle, text="word")
        segment.words.add(start_offset=middle, end_offset=segment.end_offset, text=str(second))
    return segment


def human_segment(index: int, text: str) -> media_pb2.Segment:
    """A caption a human made; settled by itself."""
    return _segment(index, text, "pt-BR", settled=index + 1)


def _segment(index: int, text: str, language: str, *, settled: int) -> media_pb2.Segment:
    return media_pb2.Segment(
        index=index,
        start_offset=from_seconds(index),
        end_offset=from_seconds(index + 1),
        text=text,
        language=language,
        settled_offset=from_seconds(settled),
    )
