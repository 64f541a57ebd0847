"""Which trace a request belongs to, by W3C's traceparent. Nothing but 32 hexadecimal digits ever comes out.

Only a trace that its sender records: an exemplar must lead somewhere. The header itself goes on to the database untouched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

NAME = "traceparent"
SAMPLED = 0x01
# Version ff and ids of zeros are invalid; versions after 00 may say more behind the flags.
_FORM = re.compile(
    r"(?:00|(?P<later>(?!00|ff)[0-9a-f]{2}))"
    r"-(?P<trace>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})(?(later)(?:-.*)?)"
)


def sampled_trace_id(values: Sequence[str]) -> str | None:
    """The id in a request's traceparent fields; None unless there is exactly one, well formed, of a recorded trace."""
    found = _FORM.fullmatch(values[0]) if len(values) == 1 else None
    if found is None or not int(found["flags"], 16) & SAMPLED:
        return None
    return found["trace"]
