"""The login: who a token stands for, whether it is still valid, and what is done with tokens."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from structlog import get_logger

from mesh.errors import (
    ForbiddenError,
    InvalidRequestError,
    MeshError,
    UnauthenticatedError,
    UnsupportedError,
)
from mesh.identity import METHODS, PACKAGE, STRANGER, Caller, Role, current
from mesh.reasons import Reason
from mesh.tokens import ID_BYTES, digest_of, id_of, matches, new_token
from orchestrator.access.audit import about
from orchestrator.access.oidc import (
    FIRST_SUBJECT,
    LOGIN_TIME,
    MAX_SUBJECT,
    Answer,
    Oidc,
    state_refused,
)
from orchestrator.access.tokens import TokenStore
from orchestrator.queue.paging import MAX_PAGE_BYTES, Page, fitting, page_size
from ytcaption.v1 import token_pb2

log = get_logger(__name__)

CHECK_SECONDS = 1.0
"""How often changes of other replicas are read: a revoked token is refused after about this."""
NOTE_SECONDS = 30.0
"""How often last uses are stored."""
LINK_TIME = timedelta(minutes=10)
MAX_LIFETIME = timedelta(days=36_500)
MAX_GROUPS = 20
MAX_CHILDREN = 100
"""Sessions and links of one token, or of one person of the provider; the oldest makes room."""

ACCESS, SESSION, LINK, COMPLETED = (
    token_pb2.TOKEN_KIND_ACCESS,
    token_pb2.TOKEN_KIND_SESSION,
    token_pb2.TOKEN_KIND_LINK,
    token_pb2.TOKEN_KIND_COMPLETED_LOGIN,
)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token with its secret, which is not stored."""

    secret: str
    token: token_pb2.Token


@dataclass(frozen=True, slots=True)
class EndedSessions:
    """What a logout ended."""

    count: int
    logout_url: str
    """Where the provider ends its own session; empty if there is nothing to end."""


class Login:
    """Decides who may call what; remembers which calls run with which token."""

    def __init__(
        self,
        store: TokenStore,
        *,
        on: bool,
        first_token: str = "",
        session_time: timedelta,
        oidc: Oidc | None = None,
    ) -> None:
        self.on = on
        self._store = store
        self._oidc = oidc
        self._first_id = id_of(first_token)
        self._first_digest = digest_of(first_token)
        self._session_time = session_time
        self._used: set[str] = set()
        self._open: dict[str, set[asyncio.Task[Any]]] = {}

    async def identify(self, token: str, method: str) -> Caller:
        """The caller with this token; raises without a valid one, unless anyone may call."""
        try:
            return await self._identify(token)
        except UnauthenticatedError:
            if METHODS.get(method.removeprefix(PACKAGE)) is Role.ANYONE:
                return STRANGER
            raise

    async def _identify(self, token: str) -> Caller:
        if not token:
            raise UnauthenticatedError(
                "this call needs a token: authorization: Bearer ytc_…", reason=Reason.TOKEN_REQUIRED
            )
        token_id = id_of(token)
        if token_id == self._first_id and matches(token, self._first_digest) and token_id:
            return Caller(Role.ADMIN, FIRST_SUBJECT, token_id)
        record = self._store.find(token_id)
        if record is None and token_id:
            await self._store.catch_up()  # another replica may have made it
            record = self._store.find(token_id)
        digest = record.digest if record else b""
        if (
            not matches(token, digest)
            or record is None
            or record.token.kind not in (ACCESS, SESSION)
        ):
            raise UnauthenticatedError("the token is not valid", reason=Reason.TOKEN_INVALID)
        self._check(record.token)
        self._used.add(token_id)
        token_ = record.token
        return Caller(Role(token_.role), token_.subject, token_id, tuple(token_.groups))

    def _check(self, token: token_pb2.Token) -> None:
        """Raises if the token, or the one it was made with, has ended."""
        if token.HasField("revoke_time"):
            raise UnauthenticatedError("the token was revoked", reason=Reason.TOKEN_INVALID)
        if _expired(token):
            raise UnauthenticatedError("the token has expired", reason=Reason.TOKEN_EXPIRED)
        if token.issuer and (self._oidc is None or token.issuer != self._oidc.issuer):
            raise UnauthenticatedError(
                "the provider of the session is not trusted any more", reason=Reason.TOKEN_INVALID
            )
        if token.parent_id and token.parent_id != self._first_id:
            parent = self._store.find(token.parent_id)
            if parent is None:
                raise UnauthenticatedError("the token was revoked", reason=Reason.TOKEN_INVALID)
            self._check(parent.token)

    @contextmanager
    def running(self, caller: Caller) -> Iterator[None]:
        """Ends the block's task with an error once the caller's token has ended."""
        task = asyncio.current_task()
        if task is None or not caller.token_id or caller.token_id == self._first_id:
            yield
            return
        tasks = self._open.setdefault(caller.token_id, set())
        tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task in tasks:  # the client's doing, or the server's
                raise
            task.uncancel()
            self._check_id(caller.token_id)
            raise
        finally:
            tasks.discard(task)
            if not tasks:
                self._open.pop(caller.token_id, None)

    def _let_end(self, caller: Caller) -> None:
        """The call under way ends by itself, although it ends its own token."""
        if (task := asyncio.current_task()) is not None:
            self._open.get(caller.token_id, set()).discard(task)

    def _check_id(self, token_id: str) -> None:
        record = self._store.find(token_id)
        if record is None:
            raise UnauthenticatedError("the session has ended", reason=Reason.TOKEN_INVALID)
        self._check(record.token)

    async def run(self) -> None:
        """Reads changes, ends the calls of tokens that have ended, and stores last uses."""
        if not self.on:
            return
        clock = asyncio.get_running_loop().time
        note_at = clock() + NOTE_SECONDS
        while True:
            try:
                await self._store.catch_up()
                self._end_calls()
                if clock() >= note_at:
                    await self._keep()
                    note_at = clock() + NOTE_SECONDS
            except MeshError as error:
                log.warning("tokens cannot be read", error=str(error))
            await asyncio.sleep(CHECK_SECONDS)

    def _end_calls(self) -> None:
        for token_id, tasks in list(self._open.items()):
            try:
                self._check_id(token_id)
            except UnauthenticatedError:
                for task in list(tasks):
                    tasks.discard(task)
                    task.cancel()

    async def _keep(self) -> None:
        """Stores last uses; removes sessions and links that are over."""
        used, self._used = self._used, set()
        for token_id in used:
            await self._store.use(token_id)
        for token in self._store.all():
            if token.kind != ACCESS and _expired(token):
                await self._store.remove(token.token_id)
        # By then a replica that was away, and did not read of it, knows that it has expired.
        await self._store.forget_removed((self._session_time + LINK_TIME).total_seconds())

    async def ready(self) -> None:
        """Returns once tokens are known; warns if there is none to begin with."""
        await self._store.catch_up()
        admins = (one for one in self._store.all() if int(one.role) == Role.ADMIN)
        if self.on and not self._first_id and not any(map(self._valid, admins)):
            log.warning("no token of an admin is valid; set ORCHESTRATOR_TOKEN_FILE")

    def _valid(self, token: token_pb2.Token) -> bool:
        with suppress(UnauthenticatedError):
            self._check(token)
            return True
        return False

    async def create(
        self,
        subject: str,
        role: int,
        lifetime: timedelta | None,
        note: str,
        groups: Sequence[str] = (),
    ) -> NewToken:
        """Makes a token for a program or a person."""
        check_name(subject, "subject")
        for group in groups:
            check_name(group, "a group")
        if len(groups) > MAX_GROUPS or len(set(groups)) < len(groups):
            raise InvalidRequestError(f"at most {MAX_GROUPS} groups, each named once")
        if not note.isprintable():
            raise InvalidRequestError("note must be printable")
        if role not in set(Role) - {Role.ANYONE}:
            raise InvalidRequestError("role must be one of the roles")
        if lifetime is not None and not timedelta(0) < lifetime <= MAX_LIFETIME:
            raise InvalidRequestError("lifetime must be positive and at most a hundred years")
        token = token_pb2.Token(subject=subject, kind=ACCESS, note=note, groups=groups)
        token.role = Role(role)  # type: ignore[assignment] # the same numbers
        made = await self._make(token, lifetime)
        log.info("token created", token_id=made.token.token_id, subject=subject, by=current())
        return made

    async def revoke(self, token_id: str) -> token_pb2.Token:
        """Ends a token, with the sessions that were opened with it."""
        about(token_id)
        revoked = await self._store.revoke(token_id)
        self._end_calls()
        log.info("token revoked", token_id=token_id, subject=revoked.subject, by=current())
        return revoked

    async def page(self, size: int, token: str, subject: str) -> Page[token_pb2.Token]:
        """Tokens of programs and persons, newest first."""
        size = page_size(size)
        if token and not id_of_page(token):
            raise InvalidRequestError("page_token is not one we gave out")
        await self._store.catch_up()
        listed = [
            one for one in self._store.all() if one.kind == ACCESS and subject in ("", one.subject)
        ]
        ids = [one.token_id for one in listed]
        begin = ids.index(token) + 1 if token in ids else 0
        found = listed[begin : begin + size]
        end = fitting((one.ByteSize() for one in found), MAX_PAGE_BYTES)
        more = len(listed) > begin + end
        return Page(found[:end], found[end - 1].token_id if more and found else "")

    async def of_subject(self, subject: str) -> list[token_pb2.Token]:
        """Every token that stands for a subject, with sessions and links; newest first."""
        await self._store.catch_up()
        return [one for one in self._store.all() if one.subject == subject]

    def has_first_token(self, subject: str) -> bool:
        """Whether the token of the setting, which no call can end, stands for the subject."""
        return subject == FIRST_SUBJECT and bool(self._first_id)

    async def forget(self, token: token_pb2.Token) -> bool:
        """Removes a token for good; its calls end. False if it was removed already."""
        removed = await self._store.remove(token.token_id)
        self._end_calls()
        return removed

    async def create_link(self) -> str:
        """A code that opens one session of the caller, once."""
        return (await self._child(LINK, LINK_TIME)).secret

    async def open_link(self, code: str) -> NewToken:
        """The session of a link; the link is used up."""
        link = self._store.find(id_of(code))
        if link is None:
            await self._store.catch_up()
            link = self._store.find(id_of(code))
        matching = matches(code, link.digest if link else b"")
        if link is None or not matching or link.token.kind != LINK:
            raise UnauthenticatedError(
                "the link is not valid, or was used already", reason=Reason.TOKEN_INVALID
            )
        self._check(link.token)
        if not await self._store.remove(link.token.token_id):
            raise UnauthenticatedError("the link was used already", reason=Reason.TOKEN_INVALID)
        token = token_pb2.Token(subject=link.token.subject, role=link.token.role, kind=SESSION)
        token.parent_id = link.token.parent_id
        token.groups.extend(link.token.groups)
        return await self._make(token, self._session_time)

    async def create_session(self) -> NewToken:
        """A session of the caller."""
        return await self._child(SESSION, self._session_time)

    @property
    def provider_name(self) -> str:
        """What people call the provider; "" if there is none."""
        return self._oidc.name if self._oidc else ""

    async def begin_login(self) -> tuple[str, str]:
        """Where to send the browser for a login by the provider, and the secret it keeps."""
        return await self._provider().begin()

    async def complete_login(self, answer: Answer) -> NewToken:
        """The session of the person that the provider names; a login is completed once."""
        oidc = self._provider()
        mark = token_pb2.Token(token_id=derived_id(answer.secret), kind=COMPLETED)
        if self._store.find(mark.token_id):
            raise state_refused()
        person = await oidc.identify(answer)
        await self._store.catch_up()
        mark.expire_time.FromDatetime(datetime.now(UTC) + 2 * LOGIN_TIME)
        if not await self._store.mark(mark):
            raise state_refused()
        token = token_pb2.Token(subject=person.subject, kind=SESSION, issuer=oidc.issuer)
        token.role = person.role  # type: ignore[assignment] # the same numbers
        await self._make_room(
            one for one in self._store.all() if one.issuer and one.subject == person.subject
        )
        made = await self._make(token, self._session_time, person.id_token)
        log.info("login by the provider", subject=person.subject, role=person.role.name)
        return made

    def _provider(self) -> Oidc:
        if self._oidc is None:
            raise UnsupportedError("this mesh has no login by a provider", reason=Reason.OIDC_OFF)
        return self._oidc

    @property
    def session_time(self) -> timedelta:
        """How long a session lasts."""
        return self._session_time

    async def end_sessions(self, *, everywhere: bool, subject: str = "") -> EndedSessions:
        """Ends the caller's session, or all sessions of the caller or of another subject."""
        caller = current()
        if subject not in ("", caller.subject) and caller.role < Role.ADMIN:
            raise ForbiddenError(
                "only an admin may end another's sessions", reason=Reason.ROLE_REQUIRED
            )
        await self._store.catch_up()
        self._let_end(caller)
        own = self._store.find(caller.token_id)
        everyone_of = subject or (caller.subject if everywhere else "")
        ended = 0
        for token in self._store.all():
            meant = (
                token.subject == everyone_of if everyone_of else token.token_id == caller.token_id
            )
            if token.kind in (SESSION, LINK) and meant:
                about(token.token_id)
                ended += await self._store.remove(token.token_id)
        is_over = own is not None and self._store.find(caller.token_id) is None
        return EndedSessions(ended, await self._logout_url(own) if own and is_over else "")

    async def _logout_url(self, record: token_pb2.TokenRecord) -> str:
        if self._oidc is None or not record.token.issuer:
            return ""
        try:
            return await self._oidc.logout_url(record.id_token)
        except MeshError as error:  # our session is over all the same
            log.warning("no logout at the provider", error=str(error))
            return ""

    async def _child(self, kind: "token_pb2.TokenKind.ValueType", time: timedelta) -> NewToken:
        """A token that stands for the caller, and ends with the caller's."""
        caller = current()
        if not caller.token_id:
            raise ForbiddenError("this mesh has no login", reason=Reason.ROLE_REQUIRED)
        own = self._store.find(caller.token_id)
        parent = (own.token.parent_id if own else "") or caller.token_id
        await self._make_room(one for one in self._store.all() if one.parent_id == parent)
        token = token_pb2.Token(
            subject=caller.subject, kind=kind, parent_id=parent, groups=caller.groups
        )
        token.role = caller.role  # type: ignore[assignment] # the same numbers
        return await self._make(token, time)

    async def _make_room(self, children: Iterable[token_pb2.Token]) -> None:
        for token in list(children)[MAX_CHILDREN - 1 :]:
            await self._store.remove(token.token_id)

    async def _make(
        self, token: token_pb2.Token, lifetime: timedelta | None, id_token: str = ""
    ) -> NewToken:
        secret = new_token()
        token.token_id = id_of(secret)
        about(token.token_id)
        if lifetime is not None:
            token.expire_time.FromDatetime(datetime.now(UTC) + lifetime)
        await self._store.add(token, digest_of(secret), id_token)
        return NewToken(secret, token)


def check_name(name: str, what: str) -> None:
    """Raises unless this can be the name of an owner or a group."""
    if not name.strip() or len(name) > MAX_SUBJECT or not name.isprintable():
        raise InvalidRequestError(f"{what} must be 1 to {MAX_SUBJECT} printable characters")


def derived_id(secret: str) -> str:
    """The id of the record that marks a login as completed."""
    return digest_of(secret).hex()[: 2 * ID_BYTES]


def id_of_page(token: str) -> bool:
    """Whether a page token has the form of those we give out: the id of a token."""
    return bool(id_of(f"ytc_{token}_{'0' * 64}"))


def _expired(token: token_pb2.Token) -> bool:
    return token.HasField("expire_time") and token.expire_time.ToDatetime(UTC) <= datetime.now(UTC)
