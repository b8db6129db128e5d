"""The comparison of documented answers accepts equal ones and finds differences."""

import json

import pytest

from tests.docs.answers import DifferentError, Names, compare
from tests.docs.curl import Printed, examples, parsed

ONE, TWO, THREE = (f"01a1e64c-37e0-7366-9a5a-{digit * 12}" for digit in "123")


def answered(body: str, kind: str = "application/json", head: str = "") -> Printed:
    return Printed(head=head, body=body, saved="", kind=kind, status=200)


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        ('{"a": 1}', {"a": 1}, True),
        ('{"a": 1}', {"a": 2}, False),
        ('{"a": 1}', {"a": True}, False),
        ('{"a": 1}', {"a": 1, "b": 2}, False),
        ('{"a": 1, …}', {"a": 1, "b": 2}, True),
        ('{"c": 1, …}', {"a": 1, "b": 2}, False),
        ('{"a": …}', {"a": [1]}, True),
        ('{"a": {…}, "b": 2}', {"a": {"x": 1}, "b": 2}, True),
        ('{"a": [1, …]}', {"a": [1, 2]}, True),
        ('{"a": [1]}', {"a": [1, 2]}, False),
        ('{"a": [1, 2, …]}', {"a": [1]}, False),
        ('{"a": 0.25}', {"a": 0.5}, True),
        ('{"a": 100.0}', {"a": 99.5}, False),
        ('{"a": "nats …"}', {"a": "nats 2"}, True),
        ('{"a": "nats …"}', {"a": "rats 2"}, False),
        ('{"at": "2026-11-16T21:38:37.159176Z"}', {"at": "2027-01-01T00:00:00.5Z"}, True),
        ('{"at": "2026-11-16T21:38:37.159176Z"}', {"at": "yesterday"}, False),
        (f'{{"a": "{ONE}", "b": "{ONE}"}}', {"a": TWO, "b": TWO}, True),
        (f'{{"a": "{ONE}", "b": "{ONE}"}}', {"a": TWO, "b": THREE}, False),
        (f'{{"a": "{ONE}", "b": "{THREE}"}}', {"a": TWO, "b": TWO}, False),
    ],
)
def test_json_differs_by_value_type_and_key(shown: str, real: object, same: bool) -> None:
    assert _is_same(shown, answered(json.dumps(real))) is same


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        (
            "1\n00:00:00,000 --> 00:00:02,280\nHello",
            "1\n00:00:00,020 --> 00:00:02,300\nHello",
            True,
        ),
        (
            "1\n00:00:00,000 --> 00:00:02,280\nHello",
            "1\n00:00:00,000 --> 00:00:02,280\nHullo",
            False,
        ),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…", "a\nb\nc\nd", True),
        ("a\nd", "a\nb\nc\nd", False),
        ("a\n…\ne", "a\nb\nc\nd", False),
        ("a", "a\nb", False),
    ],
)
def test_text_differs_where_a_line_does(shown: str, real: str, same: bool) -> None:
    assert _is_same(shown, answered(real, "text/plain")) is same


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ('…\n\nevent: b\nid: 1\ndata: {"x": 1, …}', True),
        ('…\n\nevent: b\nid: 1\ndata: {"x": 2, …}', False),
        ('event: b\nid: 1\ndata: {"x": 1, …}', False),
        ("event: a\nid: 7\ndata: {}\n\n…", True),
        ("event: a\ndata: {}\n\n…", False),
        ("event: a\nid: 7\ndata: {}\n\nevent: b\nid: 7\ndata: …", False),
    ],
)
def test_events_differ_by_name_by_id_and_by_data(shown: str, same: bool) -> None:
    real = 'event: a\nid: 3\ndata: {}\n\nevent: b\nid: 4\ndata: {"x":1,"y":2}\n\n'

    assert _is_same(shown, answered(real, "text/event-stream")) is same


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        ("HTTP/1.1 200 OK", True),
        ("HTTP/1.1 202 Accepted", False),
        ("HTTP/1.1 200 OK\netag: x", True),
        ("HTTP/1.1 200 OK\netag: y", False),
        ("HTTP/1.1 200 OK\nlocation: x", False),
    ],
)
def test_a_head_contains_the_shown_headers(shown: str, same: bool) -> None:
    assert _is_same(shown, answered("", head="HTTP/1.1 200 OK\netag: x\nserver: z")) is same


def test_commands_are_read_as_a_shell_reads_them() -> None:
    text = (
        "```console\n$ ID=x1\n$ curl -si a/b -H 'A: b' -d '{\n  \"c\": 1}'\nHTTP/1.1 200 OK\n\n{}\n"
        '$ curl -s \\\n    "a/$ID?c=d"\n```\n'
    )

    first, second = examples(text)

    assert first.answer == "HTTP/1.1 200 OK\n\n{}"
    asked = parsed(first.command)
    assert (asked.url, asked.H, asked.d, asked.s, asked.i) == (
        "a/b",
        ["A: b"],
        '{\n  "c": 1}',
        1,
        1,
    )
    assert (parsed(second.command).url, second.answer) == ("a/x1?c=d", "")


def _is_same(shown: str, printed: Printed) -> bool:
    try:
        compare(shown, printed, Names({}))
    except DifferentError:
        return False
    return True
