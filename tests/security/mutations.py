"""Seeded requests that are wrong in every way: random fields, mutated bytes, mutated HTTP."""

from random import Random
from typing import Any

from google.protobuf.message_factory import GetMessageClass

ID = "01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"
TEXTS = (
    *("", "x", ID, ID.upper(), "en", "auto", "pt-BR", "7", "-1", "9" * 5000, "2024-02-30"),
    *("http://127.0.0.1:9/x.mp3", "http://", "http://[::1", "ytsearch5:x", "file:///etc/passwd"),
    *("\x00", "\n", "é" * 300, "\u202e", "😀" * 2000, "x" * 9000, "*", ">", "a.b.c", "../../etc"),
    *("PERIOD_LAST_WEEK", "last week", "ERASE NOTHING", "%00", "' OR 1=1 --", "1e999", "NaN"),
)
NUMBERS = (0, 1, -1, 2, 7, 100, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1)
FLOATS = (0.0, -0.0, 1.5, -1.0, 1e308, 5e-324, float("nan"), float("inf"), float("-inf"))


def message_of(random: Random, descriptor: Any, depth: int = 0) -> Any:
    """A message of this type whose fields hold what clients should not send."""
    message: Any = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if random.random() < 0.4:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            put_entries(random, getattr(message, field.name), field.message_type, depth)
        elif field.is_repeated:
            count = random.choice((1, 2, 3, 120))
            values = [value_of(random, field, depth) for _ in range(count)]
            getattr(message, field.name).extend(values)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(value_of(random, field, depth))
        else:
            setattr(message, field.name, value_of(random, field, depth))
    return message


def put_entries(random: Random, entries: Any, entry: Any, depth: int) -> None:
    """Puts some entries into a map, such as an object of JSON."""
    key, value = (entry.fields_by_name[name] for name in ("key", "value"))
    for _ in range(random.choice((1, 2, 3, 120))):
        name, found = value_of(random, key, depth), value_of(random, value, depth)
        if value.message_type is not None:
            entries[name].CopyFrom(found)
        else:
            entries[name] = found


def value_of(random: Random, field: Any, depth: int) -> Any:
    """A value that fits the type of the field, and nothing else."""
    if field.message_type is not None:
        empty = GetMessageClass(field.message_type)()
        return empty if depth > 4 else message_of(random, field.message_type, depth + 1)
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            text = random.choice(TEXTS)
            return text.encode() if field.type == field.TYPE_BYTES else text
        case field.CPPTYPE_BOOL:
            return random.random() < 0.5
        case field.CPPTYPE_DOUBLE | field.CPPTYPE_FLOAT:
            return random.choice(FLOATS)
        case field.CPPTYPE_INT32 | field.CPPTYPE_ENUM:
            return random.choice([one for one in NUMBERS if -(2**31) <= one < 2**31])
        case field.CPPTYPE_UINT32:
            return random.choice([one for one in NUMBERS if 0 <= one < 2**32])
        case field.CPPTYPE_INT64:
            return random.choice([one for one in NUMBERS if -(2**63) <= one < 2**63])
        case _:
            return random.choice([one for one in NUMBERS if 0 <= one < 2**64])


def mutated(random: Random, data: bytes) -> bytes:
    """The bytes, changed in one to four places."""
    found = bytearray(data)
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(found) + 1)
        match random.randrange(6):
            case 0 if place < len(found):
                found[place] ^= 1 << random.randrange(8)
            case 1:
                del found[place:]
            case 2:
                found[place:place] = random.randbytes(random.choice((1, 2, 8, 64)))
            case 3:
                del found[place : place + random.randint(1, 8)]
            case 4:
                found[place:place] = found[: random.randint(0, 64)]
            case _:
                found[place : place + 8] = random.choice((b"\xff", b"\x00")) * 8
    return bytes(found)
