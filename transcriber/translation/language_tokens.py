"""How a translation model is told which language is which."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mesh.errors import InvalidRequestError, UnavailableError
from mesh.languages import WHISPER, primary, tag_of
from mesh.reasons import Reason
from transcriber.flores import FLORES

_OPUS = re.compile(r">>([a-z]{2,3})(_[A-Za-z]+)?<<")
_ISO3 = {name[:3]: code for code, name in FLORES.items()} | {
    "ara": "ar",
    "aze": "az",
    "bre": "br",
    "cmn": "zh",
    "fas": "fa",
    "lat": "la",
    "lav": "lv",
    "mlg": "mg",
    "mon": "mn",
    "msa": "ms",
    "nep": "ne",
    "nor": "no",
    "pus": "ps",
    "sqi": "sq",
    "swa": "sw",
    "uzb": "uz",
    "yid": "yi",
}
"""By ISO 639-3, as Opus-MT has them: FLORES names dialects where it names the language."""

Tokens = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Naming:
    """Tokens that name a language, by Whisper's code; none where there is no choice."""

    sources: Tokens
    """Before the text, for the language it is in."""
    asked: Tokens
    """Before the text, for the language it is wanted in: Opus-MT with several targets."""
    forced: Tokens
    """What the translation must begin with: NLLB and M2M100."""

    @property
    def targets(self) -> frozenset[str]:
        """What it writes."""
        return frozenset(self.asked)


def read_naming(vocabulary: frozenset[str], languages: str) -> Naming:
    """From the vocabulary; a model that has no names for languages needs "en>de" or "de,fr>en"."""
    for name in (_nllb, _m2m100):
        named: Tokens = {code: (name(code),) for code in WHISPER if name(code) in vocabulary}
        if named:
            return Naming(named, dict.fromkeys(named, ()), named)
    sources, targets = _parse(languages)
    tokens = _opus(vocabulary)
    if len(targets) > 1 and (nameless := [one for one in targets if one not in tokens]):
        raise _misconfigured(
            f"the model has no name for {', '.join(nameless)}, so it writes one language only"
        )
    asked: Tokens = {one: tokens.get(one, ()) for one in targets}
    return Naming(dict.fromkeys(sources, ()), asked, dict.fromkeys(targets, ()))


def _nllb(code: str) -> str:
    return FLORES.get(code, "")


def _m2m100(code: str) -> str:
    return f"__{tag_of(code)}__"


def _opus(vocabulary: Iterable[str]) -> Tokens:
    """The plainest name of each language: ">>por<<" before ">>por_Latn<<"."""
    found: dict[str, tuple[str, ...]] = {}
    for token in sorted(vocabulary, key=len):
        if match := _OPUS.fullmatch(token):
            found.setdefault(_ISO3.get(match[1], match[1]), (token,))
    return found


def _parse(languages: str) -> tuple[list[str], list[str]]:
    sources, arrow, targets = languages.partition(">")
    if not arrow:
        raise _misconfigured(
            "the model does not name its languages: set TRANSCRIBER_TRANSLATION_LANGUAGES, "
            'such as "en>de"'
        )
    return _codes(sources), _codes(targets)


def _codes(tags: str) -> list[str]:
    try:
        return [primary(tag) for tag in tags.split(",")]
    except InvalidRequestError as error:
        raise _misconfigured(f"TRANSCRIBER_TRANSLATION_LANGUAGES: {error}") from error


def _misconfigured(why: str) -> UnavailableError:
    return UnavailableError(why, reason=Reason.MODEL_UNAVAILABLE)
