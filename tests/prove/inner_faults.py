"""F: exceptions of our own at every stage of a search, in a data plane within this process: the client sees the plain answer"""

from __future__ import annotations

from unittest.mock import patch

from prove.answer_faults import Rounds, planned, query
from prove.faults import seen
from prove.finding import Finding, Scale
from support.exchanges.widened_faults import ERRORS, STAGES
from support.network.faulty_upstream import FaultyUpstream
from support.process.running import running


async def prove(scale: Scale) -> list[Finding]:
    """F7: one row for each stage."""
    return [await stage(place, max(2, scale.fault_rounds // 10)) for place in STAGES]


async def stage(place: str, rounds: int) -> Finding:
    """Raise each error there, so many times."""
    done = Rounds()
    for error in ERRORS:
        async with FaultyUpstream(planned) as upstream, running(upstream.url) as proxy:
            direct = await seen(upstream.port, query())
            with patch(place, side_effect=error("a fault of ours")) as broken:
                for _ in range(rounds):
                    through = await seen(proxy.port, query())
                    done.requested += 1
                    if through.plainly() != direct:
                        done.wrong[f"{error.__name__}: {through.kind} {through.line.decode()}"] += 1
                if broken.call_count < rounds:
                    done.wrong[f"{error.__name__}: raised {broken.call_count} times only"] += 1
    what = f"{', '.join(error.__name__ for error in ERRORS)} in {place.removeprefix('vecsieve.')}"
    return done.finding("F7", what, "100 % as direct")
