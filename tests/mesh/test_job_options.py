"""The table of job options and the contract name the same options with the same types."""

from typing import Any

import pytest

from captions.rules import DURATIONS, LIMITS
from mesh.job_options import (
    CUE_RULES,
    DOWNLOAD,
    GROUPS,
    JOB_OPTIONS,
    NAMES,
    UNGROUPED,
    Group,
    Kind,
    Option,
    grouped,
)
from mesh.messages import enum_names
from ytcaption.v1 import job_pb2, media_pb2

JOB = job_pb2.JobOptions.DESCRIPTOR
DURATION = "google.protobuf.Duration"


def kind_of(field: Any) -> Kind | str:
    """The kind of option a field of the contract is, or the message it is a group of."""
    if field.message_type is not None:
        name = str(field.message_type.full_name)
        return Kind.SECONDS if name == DURATION else name
    if field.is_repeated and field.type == field.TYPE_STRING:
        return Kind.TEXTS
    return {
        field.TYPE_BOOL: Kind.BOOL,
        field.TYPE_STRING: Kind.TEXT,
        field.TYPE_INT32: Kind.INT,
        field.TYPE_UINT64: Kind.INT64,
        field.TYPE_DOUBLE: Kind.NUMBER,
        field.TYPE_ENUM: Kind.CHOICE,
    }[field.type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (UNGROUPED, JOB),
        (CUE_RULES.options, media_pb2.CueRules.DESCRIPTOR),
        (DOWNLOAD.options, media_pb2.DownloadOptions.DESCRIPTOR),
    ],
    ids=["JobOptions", "CueRules", "DownloadOptions"],
)
def test_every_field_of_the_contract_has_one_row_of_its_type(
    options: tuple[Option, ...], message: Any
) -> None:
    groups = {group.name for group in GROUPS}
    fields = {
        f.name: kind_of(f) for f in message.fields if message is not JOB or f.name not in groups
    }

    assert {option.name: option.kind for option in options} == fields


def test_rows_stand_in_the_order_of_the_contract_and_groups_are_its_messages() -> None:
    assert [entry.name for entry in JOB_OPTIONS] == [field.name for field in JOB.fields]
    assert {group.name: kind_of(JOB.fields_by_name[group.name]) for group in GROUPS} == {
        "cue_rules": media_pb2.CueRules.DESCRIPTOR.full_name,
        "download": media_pb2.DownloadOptions.DESCRIPTOR.full_name,
    }


def test_a_choice_is_between_the_values_of_its_enum() -> None:
    for option in UNGROUPED:
        if option.kind is Kind.CHOICE:
            assert option.choices == enum_names(JOB.fields_by_name[option.name].enum_type)
            assert option.default in option.choices


def test_names_are_unique_even_side_by_side() -> None:
    rows = [*JOB_OPTIONS, *(option for group in GROUPS for option in group.options)]

    assert len(rows) == len(NAMES)
    assert all(row.help.endswith(".") for row in rows)


def test_cue_limits_are_those_of_the_rules() -> None:
    assert [option.name for option in CUE_RULES.options] == list(LIMITS)
    for option in CUE_RULES.options:
        low, high = LIMITS[option.name]
        assert option.minimum is not None
        assert option.maximum is not None
        if option.name in DURATIONS:
            assert option.kind is Kind.SECONDS
            assert 1000 * option.minimum <= low <= high <= 1000 * option.maximum
        else:
            assert (option.minimum, option.maximum) == (low, high)


def test_values_side_by_side_are_sorted_into_their_groups() -> None:
    flat = {"language": "pt", "max_lines": 1, "proxy": None}

    assert grouped(flat) == {
        "language": "pt",
        "cue_rules": {"max_lines": 1},
        "download": {"proxy": None},
    }
    assert grouped({"cue_rules": {"max_lines": 1}}) == {"cue_rules": {"max_lines": 1}}


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("beam_size", 10, None),
        ("beam_size", 11, "beam_size must be 1 to 10"),
        ("loudness_lufs", float("nan"), "loudness_lufs must be -70 to -5"),
        ("hotwords", "x" * 1000, None),
        ("hotwords", "x" * 1001, "hotwords is over 1000 characters"),
        ("remove_noise", True, None),
        ("languages", ["pt"] * 20, None),
        ("languages", ["pt"] * 21, "languages has over 20 entries"),
        ("languages", ["pt", "x" * 65], "languages is over 64 characters"),
    ],
)
def test_a_value_out_of_bounds_is_refused_in_words(
    name: str, value: Any, fault: str | None
) -> None:
    option = next(row for row in JOB_OPTIONS if row.name == name)
    assert not isinstance(option, Group)

    assert option.fault(value) == fault
