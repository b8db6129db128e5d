"""Credentials files: what they may hold, and that no message shows it."""

from pathlib import Path

import pytest

from mesh.bus import without_login
from mesh.credentials import ROLES, login, make_keys, seed_file
from mesh.errors import UnavailableError
from mesh.reasons import Reason

CREDS = "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n"


def _file(folder: Path, text: str) -> str:
    path = folder / "file"
    path.write_text(text)
    return str(path)


def test_an_nkey_seed_a_creds_file_and_a_password_are_told_apart(tmp_path: Path) -> None:
    make_keys(tmp_path)
    seed = str(seed_file(tmp_path, "producer"))

    assert login("") == {}
    assert login(seed) == {"nkeys_seed": seed}
    assert login(_file(tmp_path, CREDS)) == {"user_credentials": str(tmp_path / "file")}
    assert login(_file(tmp_path, "SUE:a:b\n")) == {"user": "SUE", "password": "a:b"}


@pytest.mark.parametrize("text", ["", "secret", ":secret", "secret:", "a:secret\nb", "SUsecret"])
def test_another_content_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnavailableError, match="cannot log in to NATS with") as caught:
        login(_file(tmp_path, text))

    assert caught.value.reason is Reason.STORAGE_FORBIDDEN
    assert "secret" not in str(caught.value)


def test_a_deleted_key_is_made_anew_and_the_others_stay(tmp_path: Path) -> None:
    make_keys(tmp_path)
    before = {role: seed_file(tmp_path, role).read_text() for role in ROLES}
    seed_file(tmp_path, "listener").unlink()

    make_keys(tmp_path)

    after = {role: seed_file(tmp_path, role).read_text() for role in ROLES}
    assert [role for role in ROLES if after[role] != before[role]] == ["listener"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://a:4222,tls://b:4222", "nats://a:4222,tls://b:4222"),
        ("nats://me:p@ss@a:1,nats://token@b:2", "nats://a:1,nats://b:2"),
    ],
)
def test_addresses_are_shown_without_their_login(url: str, shown: str) -> None:
    assert without_login(url) == shown
