"""What a query finds in a text, and what is refused; no user text is FTS5 syntax."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.errors import InvalidRequestError
from orchestrator.search.matches import matches_of, snippet
from orchestrator.search.query import MAX_CHARACTERS, MAX_TERMS, parse
from orchestrator.search.words import normalized, words


def found(query: str, text: str) -> bool:
    """Whether FTS5 finds it, and whether the same places are found to be shown."""
    parsed, text = parse(query), normalized(text)
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE w USING fts5 (t, content='', tokenize='ascii')")
        database.execute("INSERT INTO w VALUES (?)", (" ".join(one.text for one in words(text)),))
        hits = database.execute("SELECT 1 FROM w WHERE w MATCH ?", (parsed.expression,)).fetchall()
    terms = {match.term for match in matches_of(parsed, text)}
    if hits:
        assert terms == set(range(len(parsed.wanted)))
    elif not parsed.unwanted:
        assert terms != set(range(len(parsed.wanted)))
    return bool(hits)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("sao paulo", "Em São Paulo."),
        ("SÃO", "sao"),
        ("strasse", "Die Straße"),
        ("lodz", "ŁÓDŹ"),
        ("istanbul", "İSTANBUL"),
        ("ελλασ", "Ελλάς"),
        ("елка", "Ёлка"),
        ("amour", "l’amour"),
        ("l'amour", "L’AMOUR"),
        ("e-mail", "my e-mail"),
        ("احمد", "أحمد"),
        ("दुनिया", "नमस्ते दुनिया"),
        ("東京", "私は東京都に行く"),
        ("京都", "私は東京都に行く"),
        ("京", "東京"),
        ("都", "東京都。"),
        ("東京*", "東京都"),
        ("中国", "我爱中国"),
        ("학교", "학교에서"),
        ("สวัส", "สวัสดีครับ"),
        ("iPhone東京", "新しいiphone東京で"),
        ('"東京 is big"', "東京 is big"),
        ('"listens to a video"', "This program listens to a video and"),
        ("“listens to”", "it listens to"),
        ("capt*", "the captions"),
        ('"the capt*"', "the captions"),
        ("-cat dog", "a dog"),
        ("dog -cat", "a dog"),
        ("dog--", "a dog"),
        ("2026", "In 2026 we"),
        ("cafe\u0301", "café"),
    ],
)
def test_a_query_finds_whatever_the_case_the_accents_and_the_script(query: str, text: str) -> None:
    assert found(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("video program", "this program listens"),
        ('"a to listens"', "listens to a"),
        ("cap", "the captions"),
        ("京東", "東京都"),
        ("東都", "東京都"),
        ("dog -cat", "a dog and a cat"),
        ('dog -"and a"', "a dog and a cat"),
        ("dog -ca*", "a dog and a cat"),
        ("か", "が"),
    ],
)
def test_a_query_does_not_find_what_is_not_there(query: str, text: str) -> None:
    assert not found(query, text)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        '""',
        "...",
        "-cat",
        "*",
        "a*",
        "x" * (MAX_CHARACTERS + 1),
        " ".join(f"w{number}" for number in range(MAX_TERMS + 1)),
    ],
)
def test_a_query_without_a_word_or_with_too_much_is_refused(query: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse(query)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_breaks_out_of_the_query(query: str, text: str) -> None:
    try:
        parse(query)
    except InvalidRequestError:
        return
    found(query, text)


@given(st.text(alphabet="ab OR AND NOT NEAR(){}:^+-*\"'\\\u3042東é", max_size=40))
def test_signs_of_fts5_are_only_signs(query: str) -> None:
    try:
        parsed = parse(query)
    except InvalidRequestError:
        return
    found(query, "a or b and not near あ東 é")
    for term in (*parsed.wanted, *parsed.unwanted):
        assert not set("".join(term.words)) & set("\"'*(){}:^+-\\ ")


@given(st.text(min_size=1, max_size=300))
def test_words_stand_where_they_say(text: str) -> None:
    text = normalized(text)
    places = [(word.start, word.end) for word in words(text)]

    assert all(0 <= start < end <= len(text) for start, end in places)
    assert places == sorted(places, key=lambda place: place[0])


def test_the_snippet_shows_most_words_and_where_they_are() -> None:
    text = normalized("alpha " + "filler " * 60 + "alpha then beta. " + "filler " * 60)
    query = parse("alpha beta")

    shown = snippet(text, len(text), matches_of(query, text))

    assert shown is not None
    assert [shown.text[start:end] for start, end in shown.matches] == ["alpha", "beta"]
    assert shown.text.startswith("…filler")
    assert shown.text.endswith("…")
    assert text[shown.place :].startswith("alpha then")


def test_matches_that_overlap_are_one() -> None:
    text = normalized("東京都")
    shown = snippet(text, 3, matches_of(parse("東京 京都"), text))

    assert shown is not None
    assert shown.matches == ((0, 3),)


def test_what_begins_in_the_next_passage_is_not_of_this_one() -> None:
    text = normalized("one two three")

    assert snippet(text, 7, matches_of(parse("three"), text)) is None
    assert snippet(text, 7, matches_of(parse('"two three"'), text)) is not None
