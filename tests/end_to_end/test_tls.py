"""A job over TLS on every wire, with certificates of `ytcaption certs init`."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from mesh.tls import ReloadingContext, Tls
from tests.conftest import DATA, RealMesh, running_mesh
from tests.end_to_end.spoken import plain, run
from tests.support.certificates import Authority
from tests.support.http import all_events, ended_job
from tests.support.site import Site

WORDS = plain((DATA / "short.txt").read_text())


@dataclass(frozen=True, slots=True)
class TlsMesh:
    """A mesh with certificates."""

    mesh: RealMesh
    certs: Path

    def variables(self, name: str) -> dict[str, str]:
        """The environment of a command that shows this certificate."""
        return {
            **os.environ,
            "YTCAPTION_SERVER": self.mesh.server,
            "YTCAPTION_TLS_CA": str(self.certs / "ca.crt"),
            "YTCAPTION_TLS_CERTIFICATE": str(self.certs / f"{name}.crt"),
            "YTCAPTION_TLS_KEY": str(self.certs / f"{name}.key"),
        }


@pytest.fixture(scope="module")
def tls_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsMesh]:
    folder = tmp_path_factory.mktemp("tls")
    certs = folder / "certs"
    made = run("certs", "init", str(certs))
    assert made.returncode == 0, made.stderr
    with running_mesh(folder, certs=str(certs)) as mesh:
        yield TlsMesh(mesh, certs)


def test_a_job_runs_over_grpc(tls_mesh: TlsMesh, spoken_url: str, tmp_path: Path) -> None:
    client = tls_mesh.variables("client")

    done = run("transcribe", spoken_url, "--force", "-o", str(tmp_path), "-f", "txt", env=client)

    assert done.returncode == 0, done.stderr
    (text,) = tmp_path.glob("*.txt")
    assert plain(text.read_text()) == WORDS
    assert run("health", env=client).returncode == 0


async def test_a_job_runs_over_http(tls_mesh: TlsMesh) -> None:
    trusted = ReloadingContext.for_client(Tls(ca=str(tls_mesh.certs / "ca.crt")))
    body = (DATA / "short.ogg").read_bytes()
    async with httpx2.AsyncClient(base_url=tls_mesh.mesh.http, verify=trusted, timeout=60) as http:
        query: dict[str, str | bool] = {"file_name": "short.ogg", "force": True}
        accepted = (await http.post("/uploads", params=query, content=body)).json()
        events = await all_events(http, f"/jobs/{accepted['job_id']}")
        job = await ended_job(http, accepted["job_id"])
        captions = await http.get(f"/jobs/{accepted['job_id']}/captions.txt")

    assert job["status"] == "completed", job
    assert events
    assert plain(captions.text) == WORDS


def test_commands_without_the_right_certificate_say_what_is_wrong(
    tls_mesh: TlsMesh, tmp_path: Path
) -> None:
    server = {**os.environ, "YTCAPTION_SERVER": tls_mesh.mesh.server}
    foreign = Authority(tmp_path).issue("client")
    own = tls_mesh.variables("client")
    for variables, code, said in (
        (server, 4, "speaks TLS: set YTCAPTION_TLS_CA"),
        (server | {"YTCAPTION_TLS_CA": own["YTCAPTION_TLS_CA"]}, 4, "YTCAPTION_TLS_CERTIFICATE"),
        (own | {"YTCAPTION_TLS_CA": foreign.ca}, 4, "CERTIFICATE_VERIFY_FAILED"),
        (
            own
            | {
                "YTCAPTION_TLS_CERTIFICATE": foreign.certificate,
                "YTCAPTION_TLS_KEY": foreign.key,
            },
            4,
            "with TLS",
        ),
        (tls_mesh.variables("downloader"), 3, "CALLER_FORBIDDEN"),
        (own | {"YTCAPTION_TLS_KEY": str(tmp_path / "gone")}, 3, "gone: No such file"),
    ):
        refused = run("jobs", env=variables)

        assert refused.returncode == code, refused.stderr
        assert said in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_renewed_certificates_are_used_without_a_restart(
    tls_mesh: TlsMesh, site: Site, tmp_path: Path
) -> None:
    """While a job runs: it ends well, and so does the next one."""
    client = tls_mesh.variables("client")
    authority = (tls_mesh.certs / "ca.crt").read_bytes()
    site.release.clear()
    job = run("submit", f"{site.url}/held/sample.ogg", "--force", env=client).stdout.strip()
    try:
        renewed = run("certs", "init", str(tls_mesh.certs))
    finally:
        site.release.set()
    watched = run("watch", job, env=client)
    after = run("transcribe", str(DATA / "short.ogg"), "--force", env=client)

    assert renewed.returncode == 0, renewed.stderr
    assert (tls_mesh.certs / "ca.crt").read_bytes() == authority
    assert watched.returncode == 0, watched.stderr
    assert after.returncode == 0, after.stderr
