"""T: what arrives and what comes back is what a direct call has, in modes off, shadow and on; beside nginx on the raw corpus"""

from __future__ import annotations

from prove.differential import alongside
from prove.finding import Finding, Scale
from prove.transparency_answers import replies
from prove.transparency_requests import requests
from prove.transparency_searches import searches
from prove.transparency_settings import settings


async def prove(scale: Scale) -> list[Finding]:
    """T1, T2, T4, T5 and T6; T3, the real clients' own calls, is `make clients` and tests/clients."""
    count = scale.transparent_messages
    return [
        *await requests(count),
        *await replies(count),
        *await searches(count * 2 // 5),
        *await alongside(),
        *await settings(count // 50),
    ]
