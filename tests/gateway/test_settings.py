"""Settings: variables of the earlier system."""

import pytest

from gateway.settings import Settings


def test_variables_of_the_earlier_system_apply_where_ours_are_unset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = {"HOST": "::1", "PORT": "9000", "DEFAULT_LANGUAGE": "pt", "DEFAULT_CONVERT_MONO": "no"}
    for name, value in old.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DEFAULT_REMOVE_NOISE", "")

    settings = Settings()
    monkeypatch.setenv("GATEWAY_LISTEN", "127.0.0.1:7")

    assert settings.listen == "[::1]:9000"
    assert (settings.default_language, settings.default_convert_to_mono) == ("pt", False)
    assert settings.default_remove_noise
    assert Settings().listen == "127.0.0.1:7"
