"""How many bytes of what was stored are still read: spent in rank order, so that the same reply is read alike each time."""

from __future__ import annotations

# Of the payload fields of one pool that are wanted where they can be had: four times what selection reads of texts.
FIELD_BYTES = 4 << 20
# Of those that are made of parts and have to be spelled as JSON one part after another: 0.1 microseconds a byte.
NESTED_BYTES = 1 << 18


class Allowance:
    """Whoever reads asks before. What does not fit ends it: a smaller value behind a large one is not read either."""

    __slots__ = ("left_bytes",)

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes

    def covers(self, size: int) -> bool:
        """Whether so many bytes may still be read; they are spent then, otherwise all is."""
        self.left_bytes = max(-1, self.left_bytes - size)
        return self.left_bytes >= 0
