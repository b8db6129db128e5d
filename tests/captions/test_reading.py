"""Cues read well: cut at sentences, then clauses, then phrases; lines balanced, no word alone."""

import pytest

from captions.cues import cues
from captions.model import Segment
from captions.rules import Rules, changed, rules_for


def lines_of(text: str, language: str = "en", **limits: float) -> list[tuple[str, ...]]:
    """The lines of each cue of a text spoken without pauses, at an easy pace."""
    rules = changed(rules_for(language), **limits)
    pace = 1000 / (0.8 * rules.max_characters_per_second)
    segments = [Segment(0, round(len(text) * pace), text)]
    return [cue.lines for cue in cues(segments, rules, language=language)]


def test_a_short_sentence_is_one_line() -> None:
    assert lines_of("It simply goes on where it stopped.") == [
        ("It simply goes on where it stopped.",)
    ]


def test_sentences_are_cues() -> None:
    text = "The train leaves at nine in the morning. Nobody knows when it is going to arrive."

    assert lines_of(text) == [
        ("The train leaves at nine in the morning.",),
        ("Nobody knows when it is going to arrive.",),
    ]


def test_short_sentences_share_a_cue() -> None:
    assert lines_of("Yes. I know.") == [("Yes. I know.",)]


def test_a_long_sentence_is_cut_at_its_clause() -> None:
    text = (
        "Many of you have travelled a very long way to be with us, "
        "and nobody wants to keep you out in the cold any longer than that."
    )

    first, second = lines_of(text)

    assert " ".join(first).endswith("to be with us,")
    assert " ".join(second).startswith("and nobody")


@pytest.mark.parametrize(
    ("language", "text", "clinging"),
    [
        ("en", "She put the letters on the table in the kitchen of the house near the station "
               "and went to the garden with a book about the history of the town.",
         "the a of in on to with about near"),
        ("pt", "Ela deixou as cartas sobre a mesa da cozinha da casa perto da estação e foi para o "
               "jardim com um livro sobre a história da cidade.", "a as o um da sobre com para e"),
        ("es", "Dejó las cartas sobre la mesa de la cocina de la casa cerca de la estación y se "
               "fue al jardín con un libro sobre la historia de la ciudad.",
         "la las un de sobre con y se"),
        ("fr", "Elle a laissé les lettres sur la table de la cuisine près de la gare et elle est "
               "allée dans le jardin avec un livre sur l'histoire de la ville.",
         "la les un de sur dans le avec et"),
        ("de", "Sie hat die Briefe auf den Tisch in der Küche gelegt und ist mit einem Buch über "
               "die Geschichte der Stadt in den Garten gegangen.",
         "die den der einem auf in mit über und"),
    ],
)  # fmt: skip
def test_no_line_ends_in_a_word_that_belongs_to_the_next(
    language: str, text: str, clinging: str
) -> None:
    ends = [line.split()[-1] for lines in lines_of(text, language) for line in lines]

    assert len(ends) > 2
    assert not set(ends) & set(clinging.split())


def test_two_lines_have_similar_length() -> None:
    [(first, second)] = lines_of(
        "Big old brown dogs chase small wild grey cats round dark corners."
    )

    assert abs(len(first) - len(second)) < 12


def test_no_word_stands_alone_on_a_line_if_avoidable() -> None:
    [lines] = lines_of("Everything considered, nobody wanted anything.")

    assert all(len(line.split()) > 1 for line in lines)


def test_the_last_word_of_a_sentence_gets_no_cue_of_its_own() -> None:
    text = (
        "This particular sentence has been made so that exactly eighty-four characters are "
        "exceeded slightly."
    )

    assert all(len(" ".join(lines)) > 12 for lines in lines_of(text))


def test_names_titles_and_figures_stay_together() -> None:
    text = "It was the morning when the famous Dr. Smith told New York about all of the 300 people."

    ends = [line.split()[-1] for lines in lines_of(text) for line in lines]

    assert not {"Dr.", "New", "300"} & set(ends)


def test_an_abbreviation_ends_no_sentence() -> None:
    assert lines_of("Ask Dr. Smith.") == [("Ask Dr. Smith.",)]


def test_french_punctuation_stays_with_its_word() -> None:
    found = lines_of("Pouvez-vous m'expliquer pourquoi le train n'arrive jamais à l'heure ?", "fr")

    assert found[-1][-1].endswith("l'heure ?")


def test_an_address_longer_than_a_line_is_split_at_its_separators() -> None:
    address = "https://example.org/a/very/long/path/that-goes-on/and-on-and-on"

    found = [line for lines in lines_of(f"See {address} now.") for line in lines]

    assert "".join(found).replace("See", "").replace("now.", "").replace(" ", "") == address
    assert max(map(len, found)) <= 42
    assert next(line for line in found if "https" in line)[-1] in "/-"


def test_a_text_of_one_endless_word_is_cut_between_letters_not_marks() -> None:
    found = [line for lines in lines_of("e\u0323\u0301" * 100) for line in lines]

    assert [len(line) for line in found[:2]] == [84, 84]  # 42 letters, a mark that stays on each
    assert not any(line.startswith(("\u0323", "\u0301")) for line in found)


def test_japanese_breaks_between_phrases() -> None:
    found = lines_of("これから字幕をどこで区切ればよいのかについてご説明いたします。", "ja")

    assert [line for lines in found for line in lines] == [
        "これから字幕をどこで",
        "区切ればよいのかについて",
        "ご説明いたします。",
    ]


def test_thai_is_cut_at_its_spaces() -> None:
    text = "วันนี้อากาศดีมากเราไปเที่ยวกันเถอะครับ ผมอยากไปดูวัดที่สวยที่สุดในกรุงเทพมหานคร"

    assert lines_of(text, "th")[0][0] == text.split()[0]


def test_limits_can_be_changed() -> None:
    text = "This program listens to a video and writes down what is said by everybody in it."

    found = lines_of(text, max_lines=1, max_line_length=20)

    assert all(len(lines) == 1 and len(lines[0]) <= 20 for lines in found)


def test_three_lines_are_used_if_they_are_allowed() -> None:
    text = "This program listens to a video and writes down what is said by everybody in it."

    assert max(len(lines) for lines in lines_of(text, max_lines=3, max_line_length=30)) == 3


def test_a_sentence_without_full_stop_ends_with_its_segment() -> None:
    segments = [
        Segment(3040, 7280, "Ask not what your country can do for you"),
        Segment(8040, 10_040, "Ask what you can do for your country"),
    ]

    assert [cue.text for cue in cues(segments, Rules(), language="en")] == [
        one.text for one in segments
    ]


def test_a_sentence_over_two_segments_is_not_cut_where_they_meet() -> None:
    segments = [
        Segment(0, 2600, "We will meet in front of the"),
        Segment(2600, 3900, "old station."),
    ]

    [cue] = cues(segments, Rules(), language="en")

    assert cue.text == "We will meet in front of the old station."


def test_small_gaps_between_cues_are_closed() -> None:
    segments = [Segment(0, 2000, "This is the first."), Segment(2500, 5000, "And this the second.")]

    first, second = cues(segments, Rules(), language="en")

    assert second.start - first.end == 80


def test_slow_speech_is_cut_so_that_every_word_is_shown_while_spoken() -> None:
    segments = [Segment(0, 20_000, "I am sitting in a room different from yours")]

    found = cues(segments, Rules(), language="en")

    assert len(found) > 2
    assert all(cue.tokens[-1][-1].end <= cue.end + 80 for cue in found)  # the gap


def test_a_long_word_shares_its_line_even_if_alone_would_be_more_balanced() -> None:
    [lines] = lines_of("Donaudampfschifffahrtskapitän green small old bird", "en")

    assert all(len(line.split()) > 1 for line in lines)
