"""What grpcio's server does not tell of a client's end: whether it has said everything or is gone, and whether it has got everything."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios

# A client that breaks off looks like one that has said everything (grpcio 1.85: read() returns EOF for both) until the
# cancellation follows: 0.1 ms later as a rule, 9 ms with three busy processes on two cores. A stream cut short must not be
# taken for a whole one, so its end is held back as long as that.
HELD_SECONDS = 0.02
HELD_TURNS = 3  # of the loop, for a cancellation that is already on its way to us when the time is over


async def hold_end() -> None:
    """Return once an end that was read is meant as one; cancelled where it was not."""
    await asyncio.sleep(HELD_SECONDS)
    for _ in range(HELD_TURNS):
        await asyncio.sleep(0)


def unacknowledged_bytes(descriptor: int) -> int:
    """What the kernel keeps of a TCP connection until its peer has it."""
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
    return int(count)
