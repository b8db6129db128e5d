"""Interface of a translation model, and the set of loaded models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from transcriber.decoder import Decoder


class Translator(Protocol):
    """A loaded model; translates any of its sources into any of its targets."""

    model: str
    sources: frozenset[str]
    """Whisper's codes of the languages it reads."""
    targets: frozenset[str]
    """Whisper's codes of the languages it writes."""

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory; if not, the next text loads it."""
        ...

    def ensure_loaded(self) -> None:
        """Loads the model unless it is loaded, and returns when it is."""
        ...

    def translate(self, command: "Translate", abandoned: Callable[[], bool]) -> list[str]:
        """One translation for each text. The same texts always give the same translations.

        `abandoned` returns True once the caller no longer needs the result.
        """
        ...

    def close(self) -> None:
        """Frees the model, even during a call; may be called from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Translate:
    """Command: translate texts."""

    texts: tuple[str, ...]
    source: str
    target: str
    beam_size: int


@dataclass(frozen=True, slots=True)
class Models:
    """All loaded models."""

    decoder: Decoder
    translator: Translator | None = None

    @property
    def translations(self) -> Sequence["TranslationCapability"]:
        """Available translations, the preferred model first."""
        found = []
        if self.translator is not None:
            found.append(
                TranslationCapability(
                    self.translator.model, self.translator.sources, self.translator.targets
                )
            )
        if self.decoder.translates:
            found.append(TranslationCapability(self.decoder.model, self.decoder.languages, ENGLISH))
        return found


@dataclass(frozen=True, slots=True)
class TranslationCapability:
    """Languages a model translates: each source into each target."""

    model: str
    sources: frozenset[str]
    targets: frozenset[str]


ENGLISH = frozenset({"en"})
"""The only target Whisper was trained for."""
