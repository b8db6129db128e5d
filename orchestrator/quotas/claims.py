"""Claims and charges: what an owner's record holds of uses that no stored job accounts for."""

from time import time

from google.protobuf.timestamp_pb2 import Timestamp

from orchestrator.quotas.usage import Heard, LimitId
from ytcaption.v1 import quota_pb2 as pb

LEASE_SECONDS = 60.0
"""A claim that is not renewed ends after this; clocks of replicas must differ by far less."""
MAX_CHARGES = 500
"""Charges of one owner; the older half becomes one for each hour."""
HOUR_SECONDS = 3600.0


def claim_of(limit: LimitId, id_: str, amount: float, revision: int | None = None) -> pb.QuotaClaim:
    """A claim from now on; with the revision of its record, until that changes."""
    return pb.QuotaClaim(
        limit=limit,
        claim_id=id_,
        amount=amount,
        revision=revision,
        expire_time=_timestamp(time() + LEASE_SECONDS),
    )


def renew_claim(record: pb.QuotaRecord, claim: pb.QuotaClaim) -> None:
    """Puts a claim into the record again, for another lease."""
    claim.expire_time.CopyFrom(_timestamp(time() + LEASE_SECONDS))
    for one in record.claims:
        if (one.limit, one.claim_id) == (claim.limit, claim.claim_id):
            one.CopyFrom(claim)
            return
    record.claims.append(claim)


def put_charge(record: pb.QuotaRecord, id_: str, heard: Heard) -> None:
    """Charges audio, in place of what was charged under the id before."""
    found = next((one for one in record.charges if one.charge_id == id_), None)
    charge = found if found is not None else record.charges.add(charge_id=id_)
    charge.seconds = heard.seconds
    charge.time.CopyFrom(_timestamp(heard.time))


def compacted(charges: list[pb.AudioCharge]) -> list[pb.AudioCharge]:
    """The same charges; if they are many, one for each hour in place of the older half.

    The sum of an hour counts from its last charge on.
    """
    if len(charges) <= MAX_CHARGES:
        return charges
    by_time = sorted(charges, key=lambda one: seconds_of(one.time))
    older, newer = by_time[: MAX_CHARGES // 2], by_time[MAX_CHARGES // 2 :]
    hours: dict[int, pb.AudioCharge] = {}
    for one in older:
        hour = hours.setdefault(int(seconds_of(one.time) // HOUR_SECONDS), pb.AudioCharge())
        hour.seconds += one.seconds
        hour.time.CopyFrom(one.time)
    return [*hours.values(), *newer]


def seconds_of(moment: Timestamp) -> float:
    """A time as seconds since 1970."""
    return moment.seconds + moment.nanos / 1e9


def _timestamp(seconds: float) -> Timestamp:
    found = Timestamp()
    found.FromNanoseconds(int(seconds * 1e9))
    return found
