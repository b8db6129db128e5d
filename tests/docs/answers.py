"""Compares an answer with the one a page shows: `…` matches anything, ids and times by shape."""

import json
import re
from dataclasses import dataclass, field
from mimetypes import guess_type
from typing import Any, Self

from tests.docs.curl import Printed

LEFT_OUT = "…"
ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
SHAPES = (
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC",
    r"\d\d:\d\d(?::\d\d)?[.,]\d{2,3}",
    r"^\d+\t\d+(?=\t)",
)
"""Timestamps: of the clock, in captions, and in TSV."""
VARIABLE = re.compile("|".join((f"(?P<id>{ID})", f"(?P<gap>{LEFT_OUT})", *SHAPES)))


class DifferentError(AssertionError):
    """The answer differs from the one on the page."""

    def __init__(self, shown: object, real: object, at: str = "") -> None:
        super().__init__(f"{at}\nshown: {shown}\nreal:  {real}")


@dataclass(frozen=True, slots=True)
class Names:
    """Names on the page, and the real ones."""

    places: dict[str, str]
    ids: dict[str, str] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    """Ids of server-sent events, which are numbers."""

    def here(self, shown: str) -> str:
        """A command of the page with the real names."""
        for name, real in (self.places | self.ids).items():
            shown = shown.replace(name, real)
        return re.sub(
            r"(Last-Event-ID: )(\d+)", lambda at: at[1] + self.events.get(at[2], at[2]), shown
        )

    def shown(self, real: str) -> str:
        """A real answer with the names of the page."""
        for name, place in (self.places | self.ids).items():
            real = real.replace(place, name)
        return real

    def copy(self) -> Self:
        return type(self)(self.places, dict(self.ids), dict(self.events))

    def adopt(self, other: Self) -> None:
        self.ids.update(other.ids)
        self.events.update(other.events)


def compare(shown: str, printed: Printed, names: Names) -> None:
    """Records new names; raises if the page shows another answer."""
    found = names.copy()
    if printed.head:
        head, _, shown = shown.partition("\n\n")
        _compare_head(head.splitlines(), printed.head.splitlines(), found)
    elif printed.saved and (printed.status, printed.kind) != (200, guess_type(printed.saved)[0]):
        raise DifferentError(printed.saved, f"{printed.status} {printed.kind}")
    if printed.kind == "text/event-stream":
        _compare_parts(_events(shown), _events(printed.body), found)
    elif printed.kind.endswith("json") and printed.body:
        real = json.loads(printed.body)
        if printed.status >= 400 and printed.status != real.get("status") and not printed.head:
            raise DifferentError(shown, f"{printed.status} {printed.body}")
        _compare_json(read(shown), real, found)
    else:
        _compare_parts(shown.strip().splitlines(), printed.body.strip().splitlines(), found)
    names.adopt(found)


def _compare_head(shown: list[str], real: list[str], names: Names) -> None:
    _compare_text(shown[0], real[0], names)
    headers = dict(line.split(": ", 1) for line in real[1:])
    for line in shown[1:]:
        name, _, value = line.partition(": ")
        _compare_text(value, headers.get(name, f"(no {name})"), names)


def _compare_text(shown: str, real: str, names: Names) -> None:
    """Times may differ; an id must be the same each time."""
    pattern, new, end = "", [], 0
    for found in VARIABLE.finditer(shown):
        pattern += re.escape(shown[end : found.start()])
        end = found.end()
        if found["gap"]:
            pattern += ".*"
        elif not found["id"]:
            pattern += next(one for one in SHAPES if re.match(one, f"{found[0]}\t"))
        elif found["id"] in names.ids:
            pattern += found["id"]
        else:
            new.append(found["id"])
            pattern += f"({ID})"
    match = re.fullmatch(pattern + re.escape(shown[end:]), names.shown(real), re.DOTALL)
    if match is None or not names.ids.keys().isdisjoint(match.groups()):
        raise DifferentError(shown, names.shown(real))
    names.ids.update(zip(new, match.groups(), strict=True))


def _compare_json(shown: Any, real: Any, names: Names, at: str = "") -> None:
    match shown, real:
        case str(), _ if shown == LEFT_OUT:
            pass
        case str(), str():
            _compare_text(shown, real, names)
        case dict(), dict():
            _compare_objects(shown, real, names, at)
        case list(), list():
            _compare_lists(shown, real, names, at)
        case float(), float() if not shown.is_integer() and not real.is_integer():
            pass  # measured, so it differs each time; a whole number must match
        case _ if type(shown) is not type(real) or shown != real:
            raise DifferentError(shown, real, at)


def _compare_objects(shown: dict[str, Any], real: dict[str, Any], names: Names, at: str) -> None:
    wanted = [key for key in shown if key != LEFT_OUT]
    if missing := [key for key in wanted if key not in real]:
        raise DifferentError(missing, sorted(real), at)
    if LEFT_OUT not in shown and len(real) > len(wanted):
        raise DifferentError(sorted(shown), sorted(real), at)
    for key in wanted:
        _compare_json(shown[key], real[key], names, f"{at}.{key}")


def _compare_lists(shown: list[Any], real: list[Any], names: Names, at: str) -> None:
    open_ended = shown[-1:] == [LEFT_OUT]
    wanted = shown[:-1] if open_ended else shown
    if len(real) < len(wanted) or (len(real) > len(wanted) and not open_ended):
        raise DifferentError(shown, real, at)
    for number, one in enumerate(wanted):
        _compare_json(one, real[number], names, f"{at}[{number}]")


def read(shown: str) -> Any:
    """Parses JSON in which `…` stands for a value, or for further members or items."""
    text, last = "", ""
    within: list[str] = []
    for piece in re.findall(
        rf'"(?:[^"\\]|\\.)*"|[{{}}\[\]:{LEFT_OUT}]|\s+|[^\s"{{}}\[\]:…]+', shown
    ):
        if piece == LEFT_OUT:
            is_member = within[-1:] == ["{"] and last != ":"
            text += f'"{LEFT_OUT}": true' if is_member else f'"{LEFT_OUT}"'
        else:
            text += piece
        if piece in ("{", "["):
            within.append(piece)
        elif piece in ("}", "]"):
            within.pop()
        last = piece if piece.strip() else last
    return json.loads(text)


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event, not yet parsed."""

    fields: dict[str, str]


def _events(text: str) -> list[str | Event]:
    """Splits a stream into events; long data may be wrapped on a page."""
    return [
        part
        if part == LEFT_OUT
        else Event(dict(line.split(": ", 1) for line in re.sub(r"\n +", " ", part).splitlines()))
        for part in re.split(r"\n{2,}", text.strip())
    ]


def _compare_parts(
    shown: "list[str] | list[str | Event]", real: "list[str] | list[str | Event]", names: Names
) -> None:
    """Compares lines or events in order; `…` stands for any number of them."""
    at, gap = 0, False
    for part in shown:
        if part == LEFT_OUT:
            gap = True
            continue
        error = DifferentError(part, "(nothing more)")
        for place in range(at, len(real) if gap else min(at + 1, len(real))):
            trial = names.copy()
            try:
                _compare_part(part, real[place], trial)
            except DifferentError as different:
                error = different
            else:
                names.adopt(trial)
                break
        else:
            raise error
        at, gap = place + 1, False
    if at < len(real) and not gap:
        raise DifferentError("(nothing more)", real[at])


def _compare_part(shown: "str | Event", real: "str | Event", names: Names) -> None:
    if isinstance(shown, str) and isinstance(real, str):
        _compare_text(shown, real, names)
        return
    if isinstance(shown, str) or isinstance(real, str) or shown.fields.keys() != real.fields.keys():
        raise DifferentError(shown, real)
    for name, value in shown.fields.items():
        if name == "data":
            _compare_json(read(value), json.loads(real.fields[name]), names)
        elif name == "id":
            if names.events.setdefault(value, real.fields[name]) != real.fields[name]:
                raise DifferentError(f"id {value}", f"id {real.fields[name]}")
        else:
            _compare_text(value, real.fields[name], names)
