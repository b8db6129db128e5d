"""Options: conversion to and from the contracts, and the operator's defaults."""

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.schemas.options import (
    CueRules,
    Download,
    Options,
    UngroupedOptions,
    options_for,
    options_of,
)
from gateway.settings import Settings
from ytcaption.v1 import job_pb2, media_pb2


def test_options_survive_a_round_trip_through_the_contract() -> None:
    options = Options.model_validate(
        {
            "language": "pt",
            "remove_noise": False,
            "captions_policy": "prefer_human",
            "loudness_lufs": -20,
            "cue_rules": {"max_lines": 1, "min_duration": 0.5},
            "download": {"user_agent": "x", "request_interval": 1.5},
        }
    )

    returned = options_of(options_for(options, Settings()))

    chosen = options.model_dump(exclude_none=True)
    assert returned.model_dump(exclude_none=True) == chosen | {
        "convert_to_mono": True,
        "set_sample_rate_16k": True,
    }


def test_every_option_of_the_contract_can_be_chosen() -> None:
    assert set(Options.model_fields) == {f.name for f in job_pb2.JobOptions.DESCRIPTOR.fields}
    assert set(CueRules.model_fields) == {f.name for f in media_pb2.CueRules.DESCRIPTOR.fields}
    assert set(Download.model_fields) == {
        f.name for f in media_pb2.DownloadOptions.DESCRIPTOR.fields
    }


def test_omitted_options_have_the_defaults_of_the_operator() -> None:
    settings = Settings(default_language="pt", default_remove_noise=False)

    omitted, chosen, mixed, several = (
        options_for(UngroupedOptions.model_validate(given), settings)
        for given in (
            {},
            {"language": "en", "remove_noise": True},
            {"mixed_languages": True},
            {"languages": ["pt", "en"]},
        )
    )

    assert (omitted.language, omitted.remove_noise) == ("pt", False)
    assert (chosen.language, chosen.remove_noise) == ("en", True)
    assert not mixed.HasField("language")
    assert not several.HasField("language")


@pytest.mark.parametrize(
    "given", [["pt", "en", "es"], "pt,en, es", ["pt,en", "es"]], ids=["list", "commas", "both"]
)
def test_a_list_may_be_written_with_commas(given: Any) -> None:
    options = options_for(UngroupedOptions.model_validate({"languages": given}), Settings())

    assert list(options.languages) == ["pt", "en", "es"]
    assert options_of(options).languages == ["pt", "en", "es"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", [7, [7], ["pt"] * 21, ["x" * 65]])
def test_a_list_of_something_else_or_too_long_is_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        UngroupedOptions.model_validate({"languages": given})
