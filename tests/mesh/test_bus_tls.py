"""The connection to a NATS server with TLS: verified both ways, and never in plain text."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.bus import Bus
from mesh.errors import UnavailableError
from mesh.stores import Limits
from mesh.tls import Tls
from tests.support.broker import Broker, running_broker
from tests.support.certificates import Authority

LIMITS = Limits(storage_bytes=64 * 1024**2)


@asynccontextmanager
async def encrypted_broker(folder: Path, authority: Authority) -> AsyncIterator[Broker]:
    """Wants a certificate of its clients, too."""
    own = authority.issue("nats")

    def demand_tls(configuration: Path) -> None:
        with configuration.open("a") as file:
            file.write(
                f'tls {{ cert_file: "{own.certificate}", key_file: "{own.key}", '
                f'ca_file: "{own.ca}", verify: true }}\n'
            )

    async with running_broker(folder, configure=demand_tls) as broker:
        yield replace(broker, url=broker.url.replace("nats://", "tls://"))


async def test_a_broker_with_tls_is_used_with_the_own_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    own = authority.issue("orchestrator")
    async with (
        encrypted_broker(tmp_path / "nats", authority) as broker,
        Bus.connected(
            broker.url,
            credentials=broker.credentials,
            limits=LIMITS,
            tls=own,
            answer_seconds=60,
        ) as bus,
    ):
        await bus.jobs.put("key", b"value")
        authority.issue("orchestrator")
        await bus.client.force_reconnect()  # with the certificate that is there now
        assert (await bus.jobs.get("key")).value == b"value"


@pytest.mark.parametrize("wrong", ["foreign authority", "no certificate", "foreign certificate"])
async def test_a_broker_or_client_that_cannot_be_verified_is_refused(
    tmp_path: Path, wrong: str
) -> None:
    authority, foreign = Authority(tmp_path / "certs"), Authority(tmp_path / "foreign")
    caller = {
        "foreign authority": replace(authority.issue("orchestrator"), ca=str(foreign.file)),
        "no certificate": Tls(ca=str(authority.file)),
        "foreign certificate": replace(foreign.issue("orchestrator"), ca=str(authority.file)),
    }[wrong]
    async with encrypted_broker(tmp_path / "nats", authority) as broker:
        with pytest.raises(UnavailableError, match="no NATS server answers"):
            async with Bus.connected(
                broker.url, credentials=broker.credentials, limits=LIMITS, tls=caller
            ):
                pass


async def test_a_broker_without_tls_is_refused_where_tls_is_asked_for(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    async with running_broker(tmp_path / "nats") as broker:
        url = broker.url.replace("nats://", "tls://")
        with pytest.raises(UnavailableError, match="no NATS server answers at tls://"):
            async with Bus.connected(url, limits=LIMITS, tls=authority.issue("orchestrator")):
                pass
