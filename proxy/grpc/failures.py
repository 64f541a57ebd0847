"""How a call ended: the answer's parts, or the failure's, and whose words a failure has.

Rule of this file: values and one table, no call is made here. What the database said passes as it said it; the core's own
words pass too, because a client would have read the same from its own core, unless they name addresses behind us.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from vecsieve.proxy.failures import FailureKind
from vecsieve.proxy.grpc.metadata import Pairs, for_client
from vecsieve.proxy.trouble import ORIGIN, WORDING, trouble_of

STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
UNSENDABLE_WORDS = "A metadata value is not printable ASCII text, which cannot be passed on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One message and status 0. ``initial``, ``trailing``: as the client is to get them."""

    message: bytes
    initial: Pairs = ()
    trailing: Pairs = ()

    @property
    def body_bytes(self) -> int:
        """The size of its message."""
        return len(self.message)

    @property
    def is_success(self) -> bool:
        """It is one."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A status other than 0. ``code``: its number. ``kind``: how the way to the database failed, as far as the words tell;
    None where the status is the database's own. ``is_local``: the words are ours.
    """

    code: int
    details: str
    initial: Pairs = ()
    trailing: Pairs = ()
    kind: FailureKind | None = None
    is_local: bool = False

    @property
    def body_bytes(self) -> int:
        """It has no message."""
        return 0

    @property
    def is_success(self) -> bool:
        """It is none."""
        return False

    @property
    def status_code(self) -> grpc.StatusCode:
        """The code as the library wants it."""
        return STATUS_CODES[self.code]


# The words of the core (grpcio 1.66 to 1.85) where no peer has spoken; first match wins. Since 1.8x nothing but the words
# tells a status the core made from one that came over the wire.
_WORDS: tuple[tuple[grpc.StatusCode, str, FailureKind], ...] = (
    (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", FailureKind.CONNECT),
    (grpc.StatusCode.UNAVAILABLE, "errors resolving ", FailureKind.DNS),
    (grpc.StatusCode.UNAVAILABLE, "DNS resolution failed", FailureKind.DNS),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", FailureKind.TIMEOUT),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "Stream removed (Deadline Exceeded)", FailureKind.TIMEOUT),
    (grpc.StatusCode.UNAVAILABLE, "Stream removed", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "Socket closed", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "Connection reset by peer", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "Cancelling all calls", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "GOAWAY received", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "recvmsg:", FailureKind.RESET),
    (grpc.StatusCode.UNAVAILABLE, "sendmsg:", FailureKind.RESET),
)
_HANDSHAKE = ("handshake", "certificate", "verification")


def failure_of(error: grpc.aio.AioRpcError, *, is_connected: bool) -> Failure:
    """The failure that a call was ended with. ``is_connected``: whether its connection stands, and the words are a peer's."""
    details = error.details() or ""
    kind = _kind_of(error.code(), details)
    if kind in {FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS}:
        if not is_connected:
            return unreachable(kind)
        kind = None
    code: int = error.code().value[0]
    initial, trailing = for_client(error.initial_metadata() or ()), for_client(error.trailing_metadata() or ())
    return Failure(code=code, details=details, initial=initial, trailing=trailing, kind=kind)


def unreachable(kind: FailureKind) -> Failure:
    """No connection, in our words: the core's name the addresses that were tried."""
    return _local(grpc.StatusCode.UNAVAILABLE, WORDING[trouble_of(kind)][1], kind)


def no_message() -> Failure:
    """Status 0 without a message, which no client takes for an answer."""
    kind = FailureKind.PROTOCOL
    return _local(grpc.StatusCode.INTERNAL, WORDING[trouble_of(kind)][1], kind)


def unsendable() -> Failure:
    """The request's metadata cannot be passed on as it came."""
    return _local(grpc.StatusCode.INVALID_ARGUMENT, UNSENDABLE_WORDS, None)


def invented(code: int, words: str) -> Failure:
    """An answer of our own."""
    return _local(STATUS_CODES[code], words, None)


def _local(code: grpc.StatusCode, words: str, kind: FailureKind | None) -> Failure:
    number: int = code.value[0]
    return Failure(code=number, details=words, trailing=(ORIGIN,), kind=kind, is_local=True)


def _kind_of(code: grpc.StatusCode, details: str) -> FailureKind | None:
    kind = next((kind for of, words, kind in _WORDS if of is code and details.startswith(words)), None)
    if kind is FailureKind.CONNECT and any(word in details.lower() for word in _HANDSHAKE):
        return FailureKind.TLS
    return kind
