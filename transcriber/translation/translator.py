"""What the streaming engine needs from a translation model: text in, text out, no sound."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from transcriber.decoder import Decoder


class Translator(Protocol):
    """A loaded model; any of its sources may be put into any of its targets."""

    model: str
    sources: frozenset[str]
    """Whisper's codes of what it reads."""
    targets: frozenset[str]
    """Whisper's codes of what it writes."""

    @property
    def is_loaded(self) -> bool:
        """Whether it has its memory now; if not, it loads for the next text by itself."""
        ...

    def wake(self) -> None:
        """Returns when it is loaded."""
        ...

    def translate(self, order: "Translate", abandoned: Callable[[], bool]) -> list[str]:
        """One text for each, the same for the same texts, always.

        Nobody waits for the result any more once `abandoned` says so.
        """
        ...

    def close(self) -> None:
        """Frees the model, even in the middle of a text; may be called from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Translate:
    """Asks for texts in another language."""

    texts: tuple[str, ...]
    source: str
    target: str
    beam_size: int


@dataclass(frozen=True, slots=True)
class Models:
    """Everything that has to be loaded before the first recording."""

    decoder: Decoder
    translator: Translator | None = None

    @property
    def translations(self) -> Sequence["Ability"]:
        """What can be translated, the preferred way first."""
        found = []
        if self.translator is not None:
            found.append(
                Ability(self.translator.model, self.translator.sources, self.translator.targets)
            )
        if self.decoder.translates:
            found.append(Ability(self.decoder.model, self.decoder.languages, ENGLISH))
        return found


@dataclass(frozen=True, slots=True)
class Ability:
    """Languages a model translates: each of the first into each of the others."""

    model: str
    sources: frozenset[str]
    targets: frozenset[str]


ENGLISH = frozenset({"en"})
"""All Whisper was taught to translate into."""
