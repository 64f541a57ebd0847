"""What the database got and the client was told of one probe, and how two such views differ, in a few closed words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from prove.hops import Fields, end_to_end
from support.network.faulty_upstream import unchunked

BODILESS = frozenset({b"204", b"304"})


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``is_whole``: by its own framing."""

    line: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    content: bytes
    is_whole: bool

    @property
    def status(self) -> bytes:
        """Of an answer."""
        return _second(self.line)


@dataclass(frozen=True, slots=True)
class View:
    """Both sides of a probe. ``is_ended``: the client's connection was ended by the other side."""

    got: tuple[Message, ...]
    told: tuple[Message, ...]
    is_ended: bool


def _second(line: bytes) -> bytes:
    return line.split(b" ")[1] if b" " in line else b""


def messages(raw: bytes, *, bodiless: bool = False, is_answer: bool = True) -> tuple[Message, ...]:
    """The messages in the bytes of a connection, leniently: what follows a message without framing is its body."""
    found: list[Message] = []
    while raw:
        head, separator, rest = raw.partition(b"\r\n\r\n")
        line, *listed = head.lstrip(b"\r\n").split(b"\r\n")
        fields = tuple(
            (name, value.strip(b" \t")) for name, _, value in (each.partition(b":") for each in listed if each)
        )
        known = {name.lower(): value for name, value in fields}
        status = _second(line)
        if not separator:
            return (*found, Message(line, fields, b"", is_whole=False))
        if is_answer and (bodiless or status in BODILESS or status[:1] == b"1"):
            content, raw, whole = b"", (rest if status[:1] == b"1" and status != b"101" else b""), True
        elif known.get(b"transfer-encoding", b"").lower() == b"chunked":
            content, raw, whole = _chunked(rest)
        elif known.get(b"content-length", b"").isdigit():
            size = int(known[b"content-length"])
            content, raw, whole = rest[:size], rest[size:], len(rest) >= size
        elif is_answer:
            content, raw, whole = rest, b"", True
        else:
            content, raw, whole = b"", rest, True
        found.append(Message(line, fields, content, whole))
    return tuple(found)


def _chunked(rest: bytes) -> tuple[bytes, bytes, bool]:
    """A chunked body, what stands behind it, and whether it ended. A trailer is part of the body's end."""
    at = 0
    while (line := rest.find(b"\r\n", at)) >= 0:
        size = rest[at:line].split(b";")[0]
        try:
            length = int(size, 16)
        except ValueError:
            break
        if length == 0:
            end = rest.find(b"\r\n\r\n", line)
            return (unchunked(rest[:line] + b"\r\n"), rest[end + 4 :], True) if end >= 0 else (b"", b"", False)
        at = line + 2 + length + 2
        if at > len(rest):
            break
    return rest, b"", False


def differences(direct: View, through: View) -> frozenset[str]:
    """In words."""
    found = {*_of_requests(direct.got, through.got), *_of_answers(direct.told, through.told)}
    if direct.is_ended and not through.is_ended:
        found.add("kept open")
    return frozenset(found)


def _of_requests(direct: Sequence[Message], through: Sequence[Message]) -> set[str]:
    if len(direct) != len(through):
        return {f"arrives {len(through)} times" if through else "never arrives"}
    found: set[str] = set()
    for own, other in zip(direct, through, strict=True):
        found |= {"request line"} if own.line != other.line else set()
        found |= {"content"} if (own.content, own.is_whole) != (other.content, other.is_whole) else set()
        found |= _of_fields(own.fields, other.fields)
    return found


def _of_answers(direct: Sequence[Message], through: Sequence[Message]) -> set[str]:
    if [answer.status for answer in direct] != [answer.status for answer in through]:
        said = " ".join(answer.status.decode("latin-1") for answer in through)
        return {f"answered {said}" if said else "no answer"}
    found: set[str] = set()
    for own, other in zip(direct, through, strict=True):
        found |= {"status line"} if own.line != other.line else set()
        if own.is_whole != other.is_whole:
            found.add("answer whole" if other.is_whole else "answer cut")
        elif own.content != other.content:
            found.add("answer's content")
        found |= {f"answer: {word}" for word in _of_fields(own.fields, other.fields)}
    return found


def _of_fields(direct: Fields, through: Fields) -> set[str]:
    own, other = end_to_end(direct), end_to_end(through)
    if own == other:
        return set()
    names = [Counter(name.lower() for name, _ in fields) for fields in (own, other)]
    lost, gained = names[0] - names[1], names[1] - names[0]
    found = {f"loses {name.decode('latin-1')}" for name in lost} | {
        f"gains {name.decode('latin-1')}" for name in gained
    }
    values = [Counter((name.lower(), value) for name, value in fields) for fields in (own, other)]
    changed = {name for name, _ in values[0] - values[1]} - lost.keys() - gained.keys()
    found |= {f"changes {name.decode('latin-1')}" for name in changed}
    if found:
        return found
    return {"order"} if [name.lower() for name, _ in own] != [name.lower() for name, _ in other] else {"case"}
