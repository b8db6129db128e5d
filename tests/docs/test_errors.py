"""docs/errors.md lists every warning and every reason, with its retryability and gRPC codes."""

from downloader.reasons import ERROR_TYPES
from mesh.errors import MeshError
from mesh.reasons import RETRYABLE, Reason, WarningReason
from mesh.status import CODES
from tests.docs.pages import code, page, rows

REASONS, _, WARNINGS = page("docs/errors.md").partition("## Warnings")
TABLE = [row for row in rows(REASONS) if code(row[0])]


def test_every_reason_is_listed_once_and_nothing_else_is() -> None:
    listed = [code(row[0]) for row in TABLE]

    assert sorted(listed) == sorted(Reason)


def test_every_warning_is_listed_once_and_nothing_else_is() -> None:
    listed = [code(row[0]) for row in rows(WARNINGS) if code(row[0])]

    assert sorted(listed) == sorted(WarningReason)


def test_a_reason_is_called_retryable_exactly_if_it_is() -> None:
    said = {code(row[0]): row[2] for row in TABLE}

    assert said == {reason: "yes" if reason in RETRYABLE else "no" for reason in Reason}


def test_only_codes_our_errors_travel_in_are_named() -> None:
    possible = {status.name for status in CODES.values()} | {"only in dead letters"}

    for row in TABLE:
        assert set(row[3].split(", ")) <= possible, row[0]


def test_the_code_of_every_reason_the_downloader_gives_is_named() -> None:
    for reason, kind in ERROR_TYPES.items():
        assert _code(kind) in _codes_of(reason), reason


def test_every_row_says_what_it_means_and_what_to_do() -> None:
    for row in TABLE:
        assert len(row) == 5, row
        assert all(row), row


def _code(kind: type[MeshError]) -> str:
    return CODES[kind].name


def _codes_of(reason: Reason) -> list[str]:
    return next(row[3].split(", ") for row in TABLE if code(row[0]) == reason)
