"""No spelling of a special-purpose address, nor of this machine's own, is ever connected to."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from pydantic import SecretStr

from mesh.errors import SourceRefusedError
from mesh.public_addresses import SPECIAL, is_public
from orchestrator.settings import Settings
from orchestrator.webhooks.addresses import check_webhook


def _listed(text: str) -> list[str]:
    return text.split()


V4 = _listed("""
0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.0 10.0.0.1 10.255.255.255 100.64.0.0 100.100.100.200
100.127.255.255 127.0.0.0 127.0.0.1 127.9.9.9 127.255.255.255 169.254.0.0 169.254.0.1
169.254.169.253 169.254.169.254 169.254.170.2 169.254.255.255 168.63.129.16 172.16.0.0 172.16.5.4
172.31.255.255 192.0.0.0 192.0.0.1 192.0.0.8 192.0.0.9 192.0.0.10 192.0.0.170 192.0.0.171
192.0.0.192 192.0.0.255 192.0.2.0 192.0.2.1 192.0.2.255 192.31.196.1 192.31.196.255 192.52.193.1
192.88.99.1 192.88.99.2 192.168.0.0 192.168.1.1 192.168.255.255 192.175.48.1 192.175.48.6
198.18.0.0 198.18.0.1 198.19.255.255 198.51.100.0 198.51.100.7 198.51.100.255 203.0.113.0
203.0.113.77 203.0.113.255 224.0.0.0 224.0.0.1 224.0.0.251 239.255.255.255 240.0.0.0 240.0.0.1
250.1.2.3 255.255.255.254 255.255.255.255
""")

V6 = _listed("""
:: ::1 ::2 ::7f00:1 ::127.0.0.1 ::a9fe:a9fe ::ffff:0:7f00:1 64:ff9a:: 64:ff9b:1:: 64:ff9b:1::7f00:1
64:ff9b:1:ffff::1 64:ff9b:0:1::1 100:: 100::1 100:0:0:1::1 200::1 400::1 1000::1 1fff:ffff::1
2001:: 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:0:7f00:1::1 2001:1::1 2001:1::2 2001:1::3
2001:2::1 2001:3::1 2001:4:112::1 2001:10::1 2001:1f:ffff::1 2001:20::1 2001:2f::1 2001:30::1
2001:1ff:ffff::1 2001:db8:: 2001:db8::1 2001:db8:ffff:ffff::1 2002:: 2002:7f00:1:: 2002:7f00:1::1
2002:a00:1::1 2002:a9fe:a9fe::1 2002:c0a8:101::1 2002:808:808::1 2620:4f:8000::1
2620:4f:8000:ffff::1 3ffe::1 3ffe:ffff::1 3fff:: 3fff::1 3fff:fff:ffff::1 4000::1 5f00::1
5f00:ffff::1 8000::1 a000::1 c000::1 e000::1 fbff::1 fc00:: fc00::1 fd00::1 fd00:ec2::254
fd20:ce::254 fdff:ffff::1 fe00::1 fe80:: fe80::1 fe80::a9fe:a9fe febf::1 fec0::1 feff::1 ff00::1
ff01::1 ff02::1 ff02::fb ff05::2 ff0e::1 ffff::1
""")

ZONES = _listed("""
fe80::1%eth0 fe80::1%lo fe80::1%1 fe80::1%25eth0 ::1%lo fd00::1%eth0 2606:4700::1111%eth0
2606:4700::1111%1 ::ffff:127.0.0.1%lo ff02::1%eth0
""")

SPELLED = _listed("""
127.1 127.0.1 0177.0.0.1 0177.0.0.01 017700000001 0x7f.0.0.1 0x7f.1 0x7f000001 0X7F000001
2130706433 0x0a.0.0.1 012.0.0.1 167772161 0251.0376.0251.0376 0xa9fea9fe 2852039166
0xa9.0xfe.0xa9.0xfe 169.254.43518 169.16689662 0300.0.0.0300 0xc00000c0 3221225664 192.0.192
0xc0.0.0.0xc0 192.168.257 0300.0250.1.1 0xac100001 100.6579400 0 00 0x0 0.0 0.0.0 4294967295
0xffffffff 0xe0000001 224.1 127.0.0.1. 0177.1. 00000177.1 0x7f.0x0.0x0.0x1
""")

PUBLIC = _listed("""
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.215.14 100.63.255.255 100.128.0.0 126.255.255.255
128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0
191.255.255.255 192.0.1.0 192.0.1.255 192.0.3.0 192.31.195.255 192.31.197.0 192.88.98.255
192.88.100.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 203.0.112.255
203.0.114.0 223.255.255.255 2001:200::1 2001:db7:ffff::1 2001:db9::1 2003::1 2606:4700::1111
2620:4f:7fff::1 2620:4f:8001::1 2a00:1450:4009::1 3ffd::1 3fff:1000::1
""")


def embedded(number: str) -> list[str]:
    """IPv6 addresses that reach this IPv4 address."""
    value = int(IPv4Address(number))
    mapped = f"::ffff:{value >> 16:x}:{value & 0xFFFF:x}"
    nat64 = IPv6Address(int(IPv6Network("64:ff9b::/96").network_address) | value)
    return [f"::ffff:{number}", mapped, mapped.upper(), f"0:0:0:0:0:ffff:{number}", str(nat64)]


LITERALS = [*V4, *V6, *ZONES, *(each for number in V4 for each in embedded(number))]


def test_there_are_at_least_150_vectors_written_by_hand() -> None:
    assert len({*V4, *V6, *ZONES, *SPELLED}) >= 150


@pytest.mark.parametrize("host", LITERALS)
def test_a_special_purpose_address_is_not_public(host: str) -> None:
    assert not is_public(host)


@pytest.mark.parametrize("host", SPELLED)
def test_another_spelling_of_an_address_is_not_public(host: str) -> None:
    assert not is_public(host)


@pytest.mark.parametrize("host", PUBLIC)
def test_the_neighbours_of_special_purpose_blocks_are_public(host: str) -> None:
    assert is_public(host)
    if ip_address(host).version == 4:
        assert all(map(is_public, embedded(host)))


@pytest.mark.parametrize("block", SPECIAL)
def test_every_block_of_the_table_is_refused_from_its_first_to_its_last_address(block: str) -> None:
    network = ip_network(block)

    assert not is_public(str(network[0]))
    assert not is_public(str(network[-1]))


@pytest.mark.parametrize("host", [*V4, *(f"[{each}]" for each in V6), *SPELLED])
def test_a_webhook_to_such_an_address_is_refused_when_it_is_asked_for(host: str) -> None:
    settings = Settings(webhook_secret=SecretStr("whsec_" + "A" * 32))

    with pytest.raises(SourceRefusedError) as caught:
        check_webhook(f"http://{host}/hook", settings)

    assert caught.value.reason == "ADDRESS_FORBIDDEN"


CONFINED = """
import json, socket, sys, tempfile
from downloader.child.confinement import confine
from downloader.child.guard import ForbiddenAddressError, Guard

port, hosts, exempt = json.load(sys.stdin)
folder = tempfile.mkdtemp()
guard = Guard(exempt)
confine(folder, guard, {})
ends = {}
for host in hosts:
    try:
        socket.create_connection((host, port), timeout=60).close()
        ends[host] = "connected"
    except ForbiddenAddressError as error:
        ends[host] = f"refused: {error}"
    except OSError as error:
        ends[host] = "unreachable"
json.dump(ends, sys.stdout)
"""


@contextmanager
def canary() -> Iterator[tuple[int, list[str]]]:
    """A listener on every address of this machine; the list holds those that connected."""
    hits: list[str] = []
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:

        def count() -> None:
            with suppress(OSError):
                while True:
                    connection, client = listener.accept()
                    hits.append(client[0])
                    connection.close()

        counter = threading.Thread(target=count)
        counter.start()
        try:
            yield listener.getsockname()[1], hits
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            counter.join()


def confined(port: int, hosts: list[str], exempt: list[str]) -> dict[str, str]:
    """What a confined process makes of connecting to each host."""
    done = subprocess.run(
        [sys.executable, "-c", CONFINED],
        input=json.dumps([port, hosts, exempt]),
        capture_output=True,
        check=True,
        text=True,
    )
    ends: dict[str, str] = json.loads(done.stdout)
    return ends


def test_a_confined_process_connects_to_none_of_them_and_says_no_address() -> None:
    hosts = [*LITERALS, *SPELLED, "localhost", socket.gethostname()]
    with canary() as (port, hits):
        ends = confined(port, hosts, [])

    assert hits == []
    # A system without IPv6, or a name that does not resolve, fails before the guard is asked.
    assert set(ends.values()) <= {
        "refused: the source is not at a public address, or leads away from one",
        "unreachable",
    }
    assert all(ends[host].startswith("refused") for host in (*V4, "127.1", "0x7f000001"))


def test_the_canary_counts_what_does_connect() -> None:
    with canary() as (port, hits):
        ends = confined(port, ["127.0.0.1", "0x7f000001"], ["127.0.0.1", "0x7f000001"])

    assert set(ends.values()) == {"connected"}
    assert len(hits) == 2


OWN = """
import ctypes, fcntl, os, socket, struct, sys

user, network = 0x10000000, 0x40000000
if ctypes.CDLL(None).unshare(network if os.geteuid() == 0 else user | network):
    sys.exit("no namespace")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    for name, address in (("lo", "127.0.0.1"), ("lo:1", "93.184.215.14")):
        packed = socket.inet_aton(address)
        request = struct.pack("16sHH4s8x", name.encode(), socket.AF_INET, 0, packed)
        fcntl.ioctl(probe, 0x8916, request)  # SIOCSIFADDR
from mesh.public_addresses import is_public
hosts = ("93.184.215.14", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e", "93.184.215.15")
print(*map(is_public, hosts))
"""


def test_a_public_address_of_this_machine_is_refused_but_not_its_neighbour() -> None:
    done = subprocess.run([sys.executable, "-c", OWN], capture_output=True, check=False, text=True)
    if done.returncode == 1 and "no namespace" in done.stderr:
        pytest.skip("the system lets no network namespace be made")

    assert done.stdout.split() == ["False", "False", "False", "True"], done.stderr
