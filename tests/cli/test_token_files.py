"""Which token a command sends, and where; and the files that hold them."""

import stat
from pathlib import Path

import pytest

from cli.exits import CommandError
from cli.token_files import VARIABLE, token_file_of_up, token_of_command
from mesh.errors import UnavailableError
from mesh.tls import PLAIN, Tls
from mesh.tokens import id_of, new_token
from tests.support.command import run

LOCAL, REMOTE = "127.0.0.1:50051", "captions.example:50051"
ENCRYPTED = Tls(ca="system")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "state"


async def test_the_first_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "first.token"

    made = await run("token", "init", str(path))
    again = await run("token", "init", str(path))

    assert (made.code, made.out) == (0, "")
    assert id_of(path.read_text().strip())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert again.code == 3
    assert "exists already" in again.err


def test_the_token_of_up_is_found_by_its_port_on_loopback_while_it_runs() -> None:
    with token_file_of_up(LOCAL) as path:
        token = token_of_command("localhost:50051", PLAIN)

        assert id_of(token)
        assert token_of_command("[::1]:50051", PLAIN) == token
        assert token_of_command("127.0.0.1:50052", PLAIN) == ""
        assert token_of_command(REMOTE, ENCRYPTED) == ""
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    assert token_of_command(LOCAL, PLAIN) == ""


def test_each_start_makes_another_token() -> None:
    with token_file_of_up(LOCAL) as path:
        first = path.read_text()
    with token_file_of_up(LOCAL) as path:
        assert path.read_text() != first


def test_a_named_token_file_takes_precedence_and_is_not_sent_in_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, token = tmp_path / "own.token", new_token()
    path.write_text(token)
    path.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(path))

    with token_file_of_up(LOCAL):
        assert token_of_command(LOCAL, PLAIN) == token
    assert token_of_command(REMOTE, ENCRYPTED) == token
    with pytest.raises(CommandError, match="plain text"):
        token_of_command(REMOTE, PLAIN)
    path.chmod(0o640)
    with pytest.raises(UnavailableError, match="chmod 600"):
        token_of_command(LOCAL, PLAIN)
