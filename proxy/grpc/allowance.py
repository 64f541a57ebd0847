"""What one HTTP/2 client may send that brings nothing: frames without content, and calls that are broken off at once.

Each frame costs something here and in the gRPC core, and most kinds ask for no credit of flow control: empty DATA, SETTINGS, PING,
PRIORITY, WINDOW_UPDATE, CONTINUATION, calls opened and reset (CVE-2023-44487). What clients need of them goes with their calls: a
WINDOW_UPDATE for what they are answered, a PING to measure a connection that carries something, an ACK for what the server asked.
So answers and content earn more than such frames cost, and besides a client may send some at any time.
"""

from __future__ import annotations

# Frames beyond what is earned: at once, and again each second. Following so many takes a few milliseconds. Idle clients send a
# PING in ten seconds; nghttp2, Envoy and Go's server let 1,000 to 10,000 such frames pass before they end a connection.
FRAMES = 10_000
FRAMES_A_SECOND = 1_000
# DATA shorter than a gRPC message can be (its prefix alone has five bytes) is counted as a frame without content.
LEAST_CONTENT_BYTES = 5
CONTENT_BYTES_A_FRAME = 256  # of content that earn one frame
# What an empty DATA without an end, or an empty piece of a block of fields, costs: no client has a use for one. The gRPC core ends a
# connection without a word after 100 of the latter (1.85); after half as many we say why.
EMPTY_FRAMES = 200
CALL_FRAMES = 4  # what a call costs until it is answered: a handler's start is dearer than a frame
ANSWER_FRAMES = 4  # what each frame of an answer earns; its last one gives back the call's own too
# Calls broken off before they are SHORT_SECONDS old and before they are answered, beyond one for each that was answered: at
# once, and again each second. As many as nghttp2 lets pass. Whoever waits longer, and then gives up, is not in a hurry.
RESETS = 1_000
RESETS_A_SECOND = 33
HASTY_RESETS = 250  # from so many on each is waited behind: the core gives many such calls to a handler before it hears of their end
SHORT_SECONDS = 0.1


class Allowance:
    """Of one connection. ``now``: monotonic seconds."""

    __slots__ = ("_at", "_frames", "_resets")

    def __init__(self, now: float) -> None:
        self._at = now
        self._frames: float = FRAMES
        self._resets: float = RESETS

    @property
    def is_spent(self) -> bool:
        """Whether the client has sent more than it may."""
        return self._frames < 0 or self._resets < 0

    @property
    def is_hasty(self) -> bool:
        """Whether calls are broken off as they are opened, again and again."""
        return self._resets < RESETS - HASTY_RESETS

    @property
    def frames(self) -> float:
        """How many frames without content may follow."""
        return self._frames

    def refill(self, now: float) -> None:
        """Time has passed; what was earned beyond the allowance is forgotten."""
        passed, self._at = now - self._at, now
        self._frames = min(FRAMES, self._frames + passed * FRAMES_A_SECOND)
        self._resets = min(RESETS, self._resets + passed * RESETS_A_SECOND)

    def frame(self) -> None:
        """One without content came."""
        self._frames -= 1

    def empty(self) -> None:
        """One came that should have had content."""
        self._frames -= EMPTY_FRAMES

    def content(self, size: int) -> None:
        """DATA came with so many bytes."""
        if size < LEAST_CONTENT_BYTES:
            self._frames -= 1
        else:
            self._frames += size // CONTENT_BYTES_A_FRAME

    def call(self) -> None:
        """A call was opened."""
        self._frames -= CALL_FRAMES

    def reset(self, age_seconds: float) -> None:
        """A call that was not answered was broken off."""
        self._frames -= 1
        if age_seconds < SHORT_SECONDS:
            self._resets -= 1

    def answer(self) -> None:
        """A frame of an answer went to the client."""
        self._frames += ANSWER_FRAMES

    def answered(self) -> None:
        """The last of an answer did."""
        self._frames += CALL_FRAMES
        self._resets += 1

    def question(self) -> None:
        """The server sent a frame that the client has to acknowledge."""
        self._frames += 1
