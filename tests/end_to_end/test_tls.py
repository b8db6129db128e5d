"""A job over TLS on every wire, with certificates of `ytcaption certs init`."""

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from mesh.broker import CREDENTIALS
from tests.conftest import DATA, RealMesh, running_mesh
from tests.end_to_end.spoken import plain, run
from tests.support.certificates import Authority
from tests.support.http import all_events, ended_job
from tests.support.site import Site

WORDS = plain((DATA / "short.txt").read_text())


@pytest.fixture(scope="module")
def tls_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    folder = tmp_path_factory.mktemp("tls")
    certs = folder / "certs"
    made = run("certs", "init", str(certs))
    assert made.returncode == 0, made.stderr
    with running_mesh(folder, certs=str(certs)) as mesh:
        yield mesh


def test_a_job_runs_over_grpc(tls_mesh: RealMesh, spoken_url: str, tmp_path: Path) -> None:
    output = ("-o", str(tmp_path), "-f", "txt")
    done = run("transcribe", spoken_url, "--force", *output, mesh=tls_mesh)

    assert done.returncode == 0, done.stderr
    (text,) = tmp_path.glob("*.txt")
    assert plain(text.read_text()) == WORDS
    assert run("health", mesh=tls_mesh).returncode == 0


async def test_a_job_runs_over_http(tls_mesh: RealMesh) -> None:
    body = (DATA / "short.ogg").read_bytes()
    async with tls_mesh.browser() as http:
        query: dict[str, str | bool] = {"file_name": "short.ogg", "force": True}
        accepted = (await http.post("/uploads", params=query, content=body)).json()
        events = await all_events(http, f"/jobs/{accepted['job_id']}")
        job = await ended_job(http, accepted["job_id"])
        captions = await http.get(f"/jobs/{accepted['job_id']}/captions.txt")

    assert job["status"] == "completed", job
    assert events
    assert plain(captions.text) == WORDS


async def test_a_program_reaches_the_broker_over_tls_alone(tls_mesh: RealMesh) -> None:
    printed = (tls_mesh.data_dir / "up.log").read_text()
    found = re.search(r"^events: tls://(\S+),", printed, re.MULTILINE)
    assert found
    once = {
        "nkeys_seed": str(tls_mesh.data_dir / "nats" / CREDENTIALS / "producer.nk"),
        "allow_reconnect": False,
        "connect_timeout": 60,
    }
    trusted = ssl.create_default_context(cafile=tls_mesh.tls().ca)

    client = await nats.connect(f"tls://{found[1]}", tls=trusted, **once)
    stored = await client.jetstream().publish("ytc.in.noise", b"noise", timeout=60)
    await client.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await nats.connect(f"nats://{found[1]}", **once)

    assert stored.stream == "YTC_INBOX"


def test_commands_without_the_right_certificate_say_what_is_wrong(
    tls_mesh: RealMesh, tmp_path: Path
) -> None:
    server = {"YTCAPTION_SERVER": tls_mesh.server}
    foreign = Authority(tmp_path).issue("client")
    own = tls_mesh.variables()
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
    tls_mesh: RealMesh, site: Site, tmp_path: Path
) -> None:
    """While a job runs: it ends well, and so does the next one."""
    ca = Path(tls_mesh.certs, "ca.crt")
    authority = ca.read_bytes()
    site.release.clear()
    job = run("submit", f"{site.url}/held/sample.ogg", "--force", mesh=tls_mesh).stdout.strip()
    try:
        renewed = run("certs", "init", tls_mesh.certs)
    finally:
        site.release.set()
    watched = run("watch", job, mesh=tls_mesh)
    after = run("transcribe", str(DATA / "short.ogg"), "--force", mesh=tls_mesh)

    assert renewed.returncode == 0, renewed.stderr
    assert ca.read_bytes() == authority
    assert watched.returncode == 0, watched.stderr
    assert after.returncode == 0, after.stderr
