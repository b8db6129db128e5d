"""The texts of a member in the order they are read: what was said, then what it was made into."""

from dataclasses import dataclass

from reports.languages import named
from reports.model import Member, Text
from reports.words import on_one_line


@dataclass(frozen=True, slots=True)
class Passage:
    """Text in one language."""

    label: str
    """What stands above it; empty if it is the only one."""
    language: str
    paragraphs: list[str]


def passages(member: Member, text: Text) -> list[Passage]:
    """One, or two if it was translated; none if there is no text."""
    language = on_one_line(text.language or member.language)
    if not text.translation:
        return [Passage("", language, text.paragraphs)] if text.paragraphs else []
    other = on_one_line(text.translation.language)
    return [
        Passage(_label("Original", language), language, text.paragraphs),
        Passage(_label("Translation", other), other, text.translation.paragraphs),
    ]


def _label(kind: str, language: str) -> str:
    return f"{kind}: {named(language)}" if language else kind
