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
    messages: tuple[Message, ...]
    is_ended: bool


def _second(line: bytes) -> bytes:
    return line.split(b" ")[1] if b" " in line else b""


def messages(raw: bytes, *, bodiless: bool = False, is_answer: bool = True) -> tuple[Message, ...]:
    """The messages in the bytes of a connection, leniently: what follows a message without framing is its body."""
    parsed: list[Message] = []
    while raw:
        head, separator, rest = raw.partition(b"\r\n\r\n")
        line, *listed = head.lstrip(b"\r\n").split(b"\r\n")
        fields = tuple(
            (name, value.strip(b" \t")) for name, _, value in (field.partition(b":") for field in listed if field)
        )
        known = {name.lower(): value for name, value in fields}
        status = _second(line)
        if not separator:
            return (*parsed, Message(line, fields, b"", is_whole=False))
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
        parsed.append(Message(line, fields, content, whole))
    return tuple(parsed)


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
    differing = {*_of_requests(direct.got, through.got), *_of_answers(direct.messages, through.messages)}
    if direct.is_ended and not through.is_ended:
        differing.add("kept open")
    return frozenset(differing)


def _of_requests(direct: Sequence[Message], through: Sequence[Message]) -> set[str]:
    if len(direct) != len(through):
        return {f"arrives {len(through)} times" if through else "never arrives"}
    differing: set[str] = set()
    for original, other in zip(direct, through, strict=True):
        differing |= {"request line"} if original.line != other.line else set()
        differing |= {"content"} if (original.content, original.is_whole) != (other.content, other.is_whole) else set()
        differing |= _of_fields(original.fields, other.fields)
    return differing


def _of_answers(direct: Sequence[Message], through: Sequence[Message]) -> set[str]:
    if [answer.status for answer in direct] != [answer.status for answer in through]:
        statuses = " ".join(answer.status.decode("latin-1") for answer in through)
        return {f"answered {statuses}" if statuses else "no answer"}
    differing: set[str] = set()
    for original, other in zip(direct, through, strict=True):
        differing |= {"status line"} if original.line != other.line else set()
        if original.is_whole != other.is_whole:
            differing.add("answer whole" if other.is_whole else "answer cut")
        elif original.content != other.content:
            differing.add("answer's content")
        differing |= {f"answer: {word}" for word in _of_fields(original.fields, other.fields)}
    return differing


def _of_fields(direct: Fields, through: Fields) -> set[str]:
    original, other = end_to_end(direct), end_to_end(through)
    if original == other:
        return set()
    names = [Counter(name.lower() for name, _ in fields) for fields in (original, other)]
    lost, gained = names[0] - names[1], names[1] - names[0]
    differing = {f"loses {name.decode('latin-1')}" for name in lost} | {
        f"gains {name.decode('latin-1')}" for name in gained
    }
    values = [Counter((name.lower(), value) for name, value in fields) for fields in (original, other)]
    changed = {name for name, _ in values[0] - values[1]} - lost.keys() - gained.keys()
    differing |= {f"changes {name.decode('latin-1')}" for name in changed}
    if differing:
        return differing
    return {"order"} if [name.lower() for name, _ in original] != [name.lower() for name, _ in other] else {"case"}
