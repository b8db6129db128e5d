"""The login by an OpenID Connect provider: what the orchestrator believes, and what it refuses."""

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import grpc
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, UnavailableError
from mesh.reasons import Reason
from mesh.status import retry_after_of
from orchestrator.access import provider as provider_module
from orchestrator.access.tokens import TokenStore
from orchestrator.settings import Settings
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import Start
from tests.support.client import Client, refusal
from tests.support.oidc_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    Claims,
    Key,
    Provider,
    new_key,
    serving_provider,
)
from tests.support.polling import until
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import auth_service_pb2 as pb
from ytcaption.v1 import token_pb2

PAGE = "http://127.0.0.1:8000"
WELL_KNOWN = "/.well-known/openid-configuration"


@pytest.fixture(scope="module")
def first_key() -> Key:
    return new_key("first")


@pytest.fixture
def provider(first_key: Key) -> Iterator[Provider]:
    with serving_provider() as running:
        running.rotate(first_key)
        yield running


@pytest.fixture
def with_provider(provider: Provider, first_token: str, tmp_path: Path) -> dict[str, Any]:
    secret = tmp_path / "client.secret"
    secret.write_text(CLIENT_SECRET)
    secret.chmod(0o600)
    return {
        "login": True,
        "token_file": str(tmp_path / "first.token"),
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret_file": str(secret),
        "oidc_redirect": PAGE,
        "oidc_roles": "writers=submitter; CN=it,OU=staff=operator; bosses=admin",
    }


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider may be asked as often as a test with many faults needs."""
    monkeypatch.setattr(provider_module, "FETCH_BURST", 1000)


@pytest.fixture
async def stranger(start: Start, with_provider: dict[str, Any]) -> AsyncIterator[Client]:
    async with start(**with_provider) as client:
        yield client


async def begun(client: Client) -> pb.BeginLoginResponse:
    return await client.auth.BeginLogin(pb.BeginLoginRequest())


async def answered(login: pb.BeginLoginResponse) -> pb.CompleteLoginRequest:
    """What the browser brings back from the provider."""
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(login.authorization_url)
    query = dict(parse_qsl(urlsplit(answer.headers["Location"]).query))
    return pb.CompleteLoginRequest(
        secret=login.secret, state=query["state"], code=query["code"], issuer=query["iss"]
    )


async def session_of(client: Client) -> Client:
    """The same server, called with the session of a new login."""
    opened = await client.auth.CompleteLogin(await answered(await begun(client)))
    return client.with_token(opened.session)


async def refused_login(client: Client) -> str:
    return await refusal(client.auth.CompleteLogin(await answered(await begun(client))))


async def caller(client: Client) -> tuple[str, int]:
    found = await client.auth.GetCaller(pb.GetCallerRequest())
    return found.subject, found.role


async def test_the_provider_names_the_subject_and_its_groups_the_role(
    stranger: Client, provider: Provider
) -> None:
    ana = await session_of(stranger)
    assert await caller(ana) == ("ana", token_pb2.ROLE_SUBMITTER)

    provider.claims = {"sub": "bia", "groups": ["writers", "CN=it,OU=staff", "others"]}
    assert await caller(await session_of(stranger)) == ("bia", token_pb2.ROLE_OPERATOR)
    provider.claims = {"sub": "eva", "groups": "bosses"}
    assert await caller(await session_of(stranger)) == ("eva", token_pb2.ROLE_ADMIN)


async def test_a_login_asks_for_a_code_with_pkce_and_derived_values(
    stranger: Client, provider: Provider
) -> None:
    one, other = await begun(stranger), await begun(stranger)
    query = parse_qs(urlsplit(one.authorization_url).query)

    assert one.authorization_url.startswith(f"{provider.issuer}/authorize?flow=usual&")
    assert query["redirect_uri"] == [f"{PAGE}/login/callback"]
    assert query["scope"] == ["openid profile email"]
    assert query["code_challenge_method"] == ["S256"]
    values = [query[name][0] for name in ("state", "nonce", "code_challenge")]
    assert len({one.secret, *values}) == 4
    assert one.secret not in one.authorization_url
    assert not {one.secret, *values} & {other.secret, *parse_qs(other.authorization_url)}
    assert one.lifetime.seconds == 600


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_each_accepted_signature_opens_a_session(
    stranger: Client, provider: Provider, algorithm: str
) -> None:
    provider.rotate(new_key("other", algorithm))

    assert await caller(await session_of(stranger)) == ("ana", token_pb2.ROLE_SUBMITTER)


LIES: dict[str, tuple[Claims, Reason]] = {
    "the nonce of another login": ({"nonce": "other"}, Reason.OIDC_NONCE_MISMATCH),
    "no nonce": ({"nonce": None}, Reason.OIDC_NONCE_MISMATCH),
    "a nonce that is no text": ({"nonce": 7}, Reason.OIDC_NONCE_MISMATCH),
    "another audience": ({"aud": "another"}, Reason.OIDC_AUDIENCE_MISMATCH),
    "no audience": ({"aud": None}, Reason.OIDC_TOKEN_MALFORMED),
    "two audiences and no party": ({"aud": [CLIENT_ID, "x"]}, Reason.OIDC_AUDIENCE_MISMATCH),
    "another party": ({"azp": "another"}, Reason.OIDC_AUDIENCE_MISMATCH),
    "another issuer": ({"iss": "https://evil.example"}, Reason.OIDC_ISSUER_MISMATCH),
    "no issuer": ({"iss": None}, Reason.OIDC_TOKEN_MALFORMED),
    "a token that has expired": ({"exp": 1_000_000_000}, Reason.OIDC_TOKEN_EXPIRED),
    "a token without an end": ({"exp": None}, Reason.OIDC_TOKEN_MALFORMED),
    "a token of tomorrow": ({"iat": time() + 86_400}, Reason.OIDC_TOKEN_EXPIRED),
    "a token not valid yet": ({"nbf": time() + 86_400}, Reason.OIDC_TOKEN_EXPIRED),
    "a token of an hour ago": ({"iat": time() - 3600}, Reason.OIDC_TOKEN_EXPIRED),
    "a time that is no number": ({"iat": "now"}, Reason.OIDC_TOKEN_MALFORMED),
    "a number in quotes": ({"iat": str(int(time()))}, Reason.OIDC_TOKEN_MALFORMED),
    "no subject": ({"sub": None}, Reason.OIDC_TOKEN_MALFORMED),
    "a blank subject": ({"sub": "  "}, Reason.OIDC_SUBJECT_INVALID),
    "a subject with a line break": ({"sub": "ana\nbia"}, Reason.OIDC_SUBJECT_INVALID),
    "a subject too long": ({"sub": "a" * 129}, Reason.OIDC_SUBJECT_INVALID),
    "the subject of the first token": ({"sub": "admin"}, Reason.OIDC_SUBJECT_INVALID),
    "a group without a role": ({"groups": ["readers"]}, Reason.OIDC_ROLE_MISSING),
    "no groups": ({"groups": None}, Reason.OIDC_ROLE_MISSING),
    "groups that are none": ({"groups": {"writers": 1}}, Reason.OIDC_ROLE_MISSING),
    "a group of all groups": ({"groups": ["*"]}, Reason.OIDC_ROLE_MISSING),
}


async def test_an_id_token_that_lies_is_refused(stranger: Client, provider: Provider) -> None:
    for lie, (provider.lies, reason) in LIES.items():
        assert (lie, await refused_login(stranger)) == (lie, reason)

    provider.lies = {}
    assert await caller(await session_of(stranger)) == ("ana", token_pb2.ROLE_SUBMITTER)


async def test_two_audiences_with_us_as_the_party_are_accepted(
    stranger: Client, provider: Provider
) -> None:
    provider.lies = {"aud": [CLIENT_ID, "x"], "azp": CLIENT_ID}

    assert await caller(await session_of(stranger)) == ("ana", token_pb2.ROLE_SUBMITTER)


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def assembled_token(header: dict[str, Any], claims: Claims, sign: Callable[[bytes], bytes]) -> str:
    """A token as an attacker writes it: no library checks what it is made of."""
    parts = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims).encode())}"
    return f"{parts}.{base64url(sign(parts.encode()))}"


def public_pem(key: Key) -> bytes:
    return bytes(
        key.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


FORGERIES: dict[str, tuple[Callable[[Key, Claims], str], Reason]] = {
    "alg none": (
        lambda _, claims: assembled_token({"alg": "none"}, claims, lambda _: b""),
        Reason.OIDC_ALGORITHM_FORBIDDEN,
    ),
    "alg NONE": (
        lambda _, claims: assembled_token({"alg": "nOnE"}, claims, lambda _: b""),
        Reason.OIDC_ALGORITHM_FORBIDDEN,
    ),
    "an alg that is no word": (
        lambda _, claims: assembled_token({"alg": ["RS256"]}, claims, lambda _: b""),
        Reason.OIDC_ALGORITHM_FORBIDDEN,
    ),
    "HS256 with the public key": (
        lambda key, claims: assembled_token(
            {"alg": "HS256", "kid": key.kid},
            claims,
            lambda signed: hmac.digest(public_pem(key), signed, "sha256"),
        ),
        Reason.OIDC_ALGORITHM_FORBIDDEN,
    ),
    "HS256 with the client's secret": (
        lambda key, claims: assembled_token(
            {"alg": "HS256", "kid": key.kid},
            claims,
            lambda signed: hmac.digest(CLIENT_SECRET.encode(), signed, "sha256"),
        ),
        Reason.OIDC_ALGORITHM_FORBIDDEN,
    ),
    "RS256 stripped of its signature": (
        lambda key, claims: assembled_token(
            {"alg": "RS256", "kid": key.kid}, claims, lambda _: b""
        ),
        Reason.OIDC_SIGNATURE_INVALID,
    ),
    "an unknown key": (
        lambda _, claims: new_key("never published").sign(claims),
        Reason.OIDC_KEY_UNKNOWN,
    ),
    "another key under a known name": (
        lambda key, claims: new_key(key.kid).sign(claims),
        Reason.OIDC_SIGNATURE_INVALID,
    ),
    "a key in the token itself": (
        lambda _, claims: new_key("own").sign(claims, jwk=new_key("own").jwk),
        Reason.OIDC_KEY_UNKNOWN,
    ),
    "another algorithm than the key's": (
        lambda key, claims: new_key(key.kid, "ES256").sign(claims),
        Reason.OIDC_KEY_UNKNOWN,
    ),
    "claims changed after signing": (
        lambda key, claims: _with_claims(key.sign(claims), {**claims, "groups": ["bosses"]}),
        Reason.OIDC_SIGNATURE_INVALID,
    ),
    "no token at all": (lambda *_: "words", Reason.OIDC_TOKEN_MALFORMED),
    "claims that are no object": (
        lambda key, _: jwt.api_jws.PyJWS().encode(b"[]", key.private, "RS256", {"kid": key.kid}),
        Reason.OIDC_TOKEN_MALFORMED,
    ),
    "a token too large": (
        lambda key, claims: key.sign({**claims, "x": "x" * 20_000}),
        Reason.OIDC_TOKEN_MALFORMED,
    ),
}


def _with_claims(token: str, claims: Claims) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{base64url(json.dumps(claims).encode())}.{signature}"


async def test_an_id_token_that_is_not_the_providers_is_refused(
    unlimited: None, stranger: Client, provider: Provider
) -> None:
    for name, (forge, reason) in FORGERIES.items():
        provider.forge = partial(forge, provider.key)
        assert (name, await refused_login(stranger)) == (name, reason)


async def test_a_new_key_is_fetched_and_an_old_one_forgotten(
    stranger: Client, provider: Provider, first_key: Key
) -> None:
    await session_of(stranger)
    await session_of(stranger)
    assert provider.requests.count("/keys") == 1, "keys are kept"

    provider.rotate(new_key("second"))
    await session_of(stranger)
    assert provider.requests.count("/keys") == 2
    provider.forge = first_key.sign
    assert await refused_login(stranger) == Reason.OIDC_KEY_UNKNOWN


async def test_keys_are_not_fetched_for_every_unknown_one(
    stranger: Client, provider: Provider
) -> None:
    await session_of(stranger)
    provider.forge = new_key("unknown").sign

    reasons = [await refused_login(stranger) for _ in range(10)]

    assert reasons[0] == Reason.OIDC_KEY_UNKNOWN
    assert reasons[-1] == Reason.OIDC_UNAVAILABLE
    assert provider.requests.count("/keys") <= provider_module.FETCH_BURST
    provider.forge = None
    assert await caller(await session_of(stranger)) == ("ana", token_pb2.ROLE_SUBMITTER)


async def test_a_key_without_a_name_must_be_the_only_one(
    stranger: Client, provider: Provider
) -> None:
    def nameless(claims: Claims) -> str:
        return jwt.encode(claims, provider.key.private, "RS256")

    provider.forge = nameless
    assert await caller(await session_of(stranger)) == ("ana", token_pb2.ROLE_SUBMITTER)


async def test_a_key_for_encryption_signs_nothing(stranger: Client, provider: Provider) -> None:
    provider.published = [{**provider.key.jwk, "use": "enc"}]

    assert await refused_login(stranger) == Reason.OIDC_KEY_UNKNOWN


async def test_an_answer_counts_once_and_in_the_browser_that_asked(
    stranger: Client, provider: Provider
) -> None:
    one, other = await begun(stranger), await begun(stranger)
    answer = await answered(one)
    complete = stranger.auth.CompleteLogin

    foreign = pb.CompleteLoginRequest()
    foreign.CopyFrom(answer)
    foreign.secret = other.secret
    assert await refusal(complete(foreign)) == Reason.OIDC_STATE_INVALID
    foreign.secret = foreign.state = ""
    assert await refusal(complete(foreign)) == Reason.OIDC_STATE_INVALID
    assert "/token" not in provider.requests, "the provider was not even asked"

    await complete(answer)
    assert await refusal(complete(answer)) == Reason.OIDC_STATE_INVALID
    again = await answered(one)  # a new code for the same login
    assert await refusal(complete(again)) == Reason.OIDC_STATE_INVALID


async def test_of_two_completions_at_once_one_counts(stranger: Client, provider: Provider) -> None:
    login = await begun(stranger)
    answers = [await answered(login) for _ in range(4)]

    outcomes = await asyncio.gather(
        *(stranger.auth.CompleteLogin(answer) for answer in answers), return_exceptions=True
    )

    assert sum(isinstance(one, pb.CompleteLoginResponse) for one in outcomes) == 1


async def test_a_code_that_was_used_or_stolen_is_refused(
    stranger: Client, provider: Provider
) -> None:
    first = await answered(await begun(stranger))
    await stranger.auth.CompleteLogin(first)

    victim = await answered(await begun(stranger))
    for code in (first.code, victim.code, "never given out"):
        attacker = await answered(await begun(stranger))
        attacker.code = code  # PKCE: the code of another login has another verifier
        refused = await refusal(stranger.auth.CompleteLogin(attacker))
        assert refused == Reason.OIDC_CODE_REFUSED


async def test_an_answer_of_another_provider_is_refused(
    stranger: Client, provider: Provider
) -> None:
    answer = await answered(await begun(stranger))
    for issuer in ("https://evil.example", ""):
        answer.issuer = issuer
        refused = await refusal(stranger.auth.CompleteLogin(answer))
        assert refused == Reason.OIDC_ISSUER_MISMATCH
    assert "/token" not in provider.requests, "no code goes to the wrong provider"


async def test_a_provider_that_names_no_issuer_in_answers_need_not(
    start: Start, with_provider: dict[str, Any], provider: Provider
) -> None:
    provider.discovered = {"authorization_response_iss_parameter_supported": None}
    async with start(**with_provider) as client:
        answer = await answered(await begun(client))
        answer.issuer = ""
        assert (await client.auth.CompleteLogin(answer)).session


async def test_a_refusal_of_the_provider_is_typed(stranger: Client) -> None:
    answer = await answered(await begun(stranger))
    answer.code, answer.error = "", "access_denied"

    assert await refusal(stranger.auth.CompleteLogin(answer)) == Reason.OIDC_DENIED


BAD_DOCUMENTS: dict[str, tuple[dict[str, Any], Reason]] = {
    "another issuer": ({"issuer": "https://evil.example"}, Reason.OIDC_ISSUER_MISMATCH),
    "no token endpoint": ({"token_endpoint": None}, Reason.OIDC_UNAVAILABLE),
    "a foreign host": ({"token_endpoint": "https://evil.example/t"}, Reason.OIDC_UNAVAILABLE),
    "foreign keys": ({"jwks_uri": "https://evil.example/k"}, Reason.OIDC_UNAVAILABLE),
    "a foreign page": (
        {"authorization_endpoint": "https://evil.example/a"},
        Reason.OIDC_UNAVAILABLE,
    ),
    "a file": ({"jwks_uri": "file:///etc/passwd"}, Reason.OIDC_UNAVAILABLE),
    "plain text": ({"jwks_uri": "http://192.0.2.1/keys"}, Reason.OIDC_UNAVAILABLE),
    "a user name": ({"jwks_uri": "https://localhost@evil.example/"}, Reason.OIDC_UNAVAILABLE),
}


async def test_endpoints_that_are_not_the_providers_are_refused(
    unlimited: None, stranger: Client, provider: Provider
) -> None:
    for fault, (provider.discovered, reason) in BAD_DOCUMENTS.items():
        assert (fault, await refusal(begun(stranger))) == (fault, reason)


async def test_endpoints_at_hosts_of_the_setting_are_used(
    start: Start, with_provider: dict[str, Any], provider: Provider
) -> None:
    elsewhere = provider.issuer.replace("localhost", "127.0.0.1")
    provider.discovered = {"jwks_uri": f"{elsewhere}/keys"}
    async with start(**with_provider) as client:
        assert await refusal(begun(client)) == Reason.OIDC_UNAVAILABLE
    async with start(**with_provider, oidc_hosts="127.0.0.1") as client:
        assert await caller(await session_of(client)) == ("ana", token_pb2.ROLE_SUBMITTER)


NONSENSE: list[tuple[str, tuple[int, dict[str, str], bytes]]] = [
    (WELL_KNOWN, (302, {"Location": "/keys"}, b"")),
    (WELL_KNOWN, (500, {}, b"{}")),
    (WELL_KNOWN, (200, {}, b"no json")),
    (WELL_KNOWN, (200, {}, b"[]")),
    (WELL_KNOWN, (200, {}, b"[" * 100_000)),
    (WELL_KNOWN, (200, {}, b" " * 300_000)),
    ("/keys", (302, {"Location": WELL_KNOWN}, b"")),
    ("/keys", (200, {}, b'{"keys": 7}')),
    ("/token", (302, {"Location": "/keys"}, b"")),
    ("/token", (500, {}, b"{}")),
    ("/token", (200, {}, b'{"id_token": 7}')),
    ("/token", (401, {}, b'{"error": "invalid_client"}')),
    ("/token", (400, {}, b"")),
]


async def test_an_answer_that_makes_no_sense_is_the_providers_fault(
    unlimited: None, stranger: Client, provider: Provider
) -> None:
    for path, answer in NONSENSE:
        provider.answers = {path: answer}
        reason = await (refusal(begun(stranger)) if path == WELL_KNOWN else refused_login(stranger))
        assert (path, answer, reason) == (path, answer, Reason.OIDC_UNAVAILABLE)


async def test_a_provider_that_is_away_is_asked_a_few_times_only(
    start: Start, with_provider: dict[str, Any]
) -> None:
    with serving_provider() as gone:
        issuer = gone.issuer
    async with start(**(with_provider | {"oidc_issuer": issuer})) as client:
        with pytest.raises(grpc.aio.AioRpcError, match="does not answer"):
            await begun(client)
        for _ in range(provider_module.FETCH_BURST):
            assert await refusal(begun(client)) == Reason.OIDC_UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError, match="asked too often") as refused:
            await begun(client)
        assert retry_after_of(refused.value) == provider_module.FETCH_SECONDS


async def test_a_provider_that_is_silent_is_given_up(
    stranger: Client, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_module, "ANSWER_SECONDS", 0.1)
    silent = await asyncio.start_server(lambda *_: asyncio.sleep(3600), "127.0.0.1", 0)
    async with silent:
        port = silent.sockets[0].getsockname()[1]
        provider.discovered = {"token_endpoint": f"http://localhost:{port}/token"}
        assert await refused_login(stranger) == Reason.OIDC_UNAVAILABLE


@pytest.mark.parametrize("methods", [["client_secret_post"], ["client_secret_basic", "none"], None])
async def test_the_secret_goes_where_the_provider_wants_it(
    stranger: Client, provider: Provider, methods: list[str] | None
) -> None:
    provider.discovered = {"token_endpoint_auth_methods_supported": methods}

    assert await caller(await session_of(stranger)) == ("ana", token_pb2.ROLE_SUBMITTER)


async def test_subjects_and_groups_come_from_the_claims_of_the_settings(
    start: Start, with_provider: dict[str, Any], provider: Provider
) -> None:
    claims = {
        "sub": "7",
        "email": "ana@a.example",
        "realm_access": {"roles": ["writers"]},
        "https://a.example/roles": ["bosses"],
    }
    provider.claims = {**claims, "email_verified": True}
    changes = {"oidc_subject_claim": "email", "oidc_roles_claim": "realm_access.roles"}
    async with start(**with_provider, **changes) as client:
        found = await caller(await session_of(client))
        assert found == ("ana@a.example", token_pb2.ROLE_SUBMITTER)
        provider.claims = claims
        assert await refused_login(client) == Reason.OIDC_SUBJECT_INVALID
    async with start(**with_provider, oidc_roles_claim="https://a.example/roles") as client:
        assert await caller(await session_of(client)) == ("7", token_pb2.ROLE_ADMIN)
    everyone = with_provider | {"oidc_roles": "*=reader;bosses=admin"}
    async with start(**everyone) as client:
        assert await caller(await session_of(client)) == ("7", token_pb2.ROLE_READER)


async def test_a_session_of_the_provider_ends_here_and_there(
    stranger: Client, provider: Provider
) -> None:
    here, there = await session_of(stranger), await session_of(stranger)
    ended = await here.auth.EndSessions(pb.EndSessionsRequest())

    query = dict(parse_qsl(urlsplit(ended.provider_logout_url).query))
    assert ended.provider_logout_url.startswith(f"{provider.issuer}/logout?")
    assert query["client_id"] == CLIENT_ID
    assert query["post_logout_redirect_uri"] == f"{PAGE}/login"
    hint = jwt.decode(query["id_token_hint"], options={"verify_signature": False})
    assert (hint["sub"], hint["aud"]) == ("ana", CLIENT_ID)
    assert await refusal(caller(here)) == Reason.TOKEN_INVALID
    assert await caller(there) == ("ana", token_pb2.ROLE_SUBMITTER)

    last = await session_of(stranger)
    everywhere = await last.auth.EndSessions(pb.EndSessionsRequest(everywhere=True))
    assert (everywhere.sessions_ended, bool(everywhere.provider_logout_url)) == (2, True)
    assert await refusal(caller(there)) == Reason.TOKEN_INVALID


async def test_a_logout_works_without_the_provider(
    start: Start, with_provider: dict[str, Any], provider: Provider, stranger: Client
) -> None:
    session = await session_of(stranger)
    async with start(**with_provider) as restarted:
        provider.answers = {WELL_KNOWN: (500, {}, b"")}
        here = restarted.with_token(session.channel.token)  # type: ignore[attr-defined]
        ended = await here.auth.EndSessions(pb.EndSessionsRequest())
        assert (ended.sessions_ended, ended.provider_logout_url) == (1, "")


async def test_a_provider_without_a_logout_page_gets_no_id_token_kept(
    stranger: Client, provider: Provider, broker_bus: Bus
) -> None:
    provider.discovered = {"end_session_endpoint": None}
    here = await session_of(stranger)
    store = TokenStore(broker_bus)
    await store.catch_up()
    records = [store.find(token.token_id) for token in store.all()]
    assert {record.id_token for record in records if record} == {""}
    assert not (await here.auth.EndSessions(pb.EndSessionsRequest())).provider_logout_url


async def test_an_admin_ends_the_sessions_of_another(
    stranger: Client, first_token: str, provider: Provider
) -> None:
    admin = stranger.with_token(first_token)
    ana, bia = await session_of(stranger), stranger.with_token((await token_for(admin, "b")).secret)

    request = pb.EndSessionsRequest(subject="ana")
    assert await refusal(bia.auth.EndSessions(request)) == Reason.ROLE_REQUIRED
    assert (await admin.auth.EndSessions(request)).sessions_ended == 1
    assert await refusal(caller(ana)) == Reason.TOKEN_INVALID
    assert await caller(admin) == ("admin", token_pb2.ROLE_ADMIN)


async def test_sessions_end_with_the_trust_in_their_provider(
    start: Start, with_provider: dict[str, Any], stranger: Client
) -> None:
    session = (await session_of(stranger)).channel.token  # type: ignore[attr-defined]
    for changes in ({"oidc_issuer": ""}, {"oidc_issuer": "https://other.example"}):
        async with start(**(with_provider | changes)) as restarted:
            refused = await refusal(caller(restarted.with_token(session)))
            assert refused == Reason.TOKEN_INVALID
    async with start(**with_provider) as restarted:
        assert await caller(restarted.with_token(session)) == ("ana", token_pb2.ROLE_SUBMITTER)


async def test_a_person_has_at_most_a_hundred_sessions(
    stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.access.login.MAX_CHILDREN", 2)
    sessions = [await session_of(stranger) for _ in range(3)]

    assert await refusal(caller(sessions[0])) == Reason.TOKEN_INVALID
    assert [await caller(one) for one in sessions[1:]] == [("ana", token_pb2.ROLE_SUBMITTER)] * 2


async def test_the_audit_names_who_logged_in_and_who_had_no_role(
    stranger: Client, first_token: str, provider: Provider
) -> None:
    await session_of(stranger)
    provider.claims = {"sub": "bia", "groups": []}
    await refused_login(stranger)
    provider.lies = {"aud": "another"}
    await refused_login(stranger)

    async def logins() -> list[tuple[str, str]]:
        admin = stranger.with_token(first_token)
        listed = await admin.admin.ListAudit(admin_pb.ListAuditRequest())
        return [
            (entry.subject, entry.reason)
            for entry in listed.entries
            if entry.method == "AuthService/CompleteLogin"
        ]

    async def are_written() -> bool:
        return len(await logins()) == 3

    await until(are_written)
    assert await logins() == [
        ("", Reason.OIDC_AUDIENCE_MISMATCH),
        ("bia", Reason.OIDC_ROLE_MISSING),
        ("ana", ""),
    ]


async def test_methods_name_the_provider_to_everyone(
    start: Start, with_provider: dict[str, Any], client: Client
) -> None:
    request = pb.GetLoginMethodsRequest()
    off = await client.auth.GetLoginMethods(request)
    assert (off.login, off.provider) == (False, "")
    assert await refusal(begun(client)) == Reason.OIDC_OFF
    assert await refusal(client.auth.CompleteLogin(pb.CompleteLoginRequest())) == Reason.OIDC_OFF

    async with start(**with_provider) as on:
        named = await on.auth.GetLoginMethods(request)
        assert (named.login, named.provider) == (True, "localhost")
    async with start(**with_provider, oidc_name="A & Co") as on:
        assert (await on.auth.GetLoginMethods(request)).provider == "A & Co"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"login": False}, "OIDC_ISSUER needs ORCHESTRATOR_LOGIN"),
        ({"oidc_issuer": "http://a.example"}, "OIDC_ISSUER=.* is no https"),
        ({"oidc_issuer": "https://a.example/?x"}, "OIDC_ISSUER=.* is no https"),
        ({"oidc_redirect": ""}, "OIDC_REDIRECT"),
        ({"oidc_redirect": "http://captions.example"}, "OIDC_REDIRECT=.* is no https"),
        ({"oidc_client_id": ""}, "OIDC_CLIENT_ID"),
        ({"oidc_scopes": "profile"}, "OIDC_SCOPES"),
        ({"oidc_roles": " ; "}, "OIDC_ROLES"),
    ],
)
def test_a_provider_that_cannot_work_is_refused_at_start(
    with_provider: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    Settings(**with_provider).check()
    with pytest.raises(InvalidRequestError, match=f"ORCHESTRATOR_{words}"):
        Settings(**(with_provider | changes)).check()


@pytest.mark.parametrize("table", ["writers", "writers=", "=admin", "writers=root", "a=anyone"])
def test_a_table_of_roles_that_makes_no_sense_is_refused(table: str) -> None:
    with pytest.raises(ValueError, match="oidc_roles"):
        Settings(oidc_roles=table)


@pytest.mark.parametrize(
    ("mode", "content"), [(0o644, b"word"), (0o600, b" \n"), (0o600, b"\xff"), (0, None)]
)
def test_a_client_secret_that_others_can_read_or_that_is_none_is_refused(
    tmp_path: Path, mode: int, content: bytes | None
) -> None:
    file = tmp_path / "client.secret"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    with pytest.raises(UnavailableError, match="client secret") as refused:
        provider_module.read_secret(str(file))
    assert "word" not in str(refused.value)
