"""Encoding of server-sent events."""

from gateway.sse.stream import encode


def test_the_data_of_an_event_is_one_line_whatever_its_text() -> None:
    encoded = encode("story", {"type": "x", "text": "a\nb\r\n\nevent: finished\u2028"}, sequence=7)

    assert encoded.decode().split("\n") == [
        "event: story",
        "id: 7",
        'data: {"type":"x","text":"a\\nb\\r\\n\\nevent: finished\u2028"}',
        "",
        "",
    ]
