"""T6: settings that are wrong are refused with a line for each key; those that are right are the ones in effect."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.processes import environment
from unit.config.test_bad_files import FILES

from prove.finding import Finding
from prove.stack import proxy
from support.network.faulty_upstream import FaultyUpstream, answering, raw_exchange, reply

ROOT = Path(__file__).resolve().parent.parent.parent
REFUSED = 2
# Each is counted from the outside: a library that drops a setting without a word shows here.
LIMITS = {
    "VECSIEVE_LIMITS_HEAD_LINE_BYTES": "2000",
    "VECSIEVE_LIMITS_HEAD_TIMEOUT_SECONDS": "1",
}
AROUND: tuple[tuple[str, bytes, bytes], ...] = (
    ("limits.head_line_bytes 2000", b"GET /%s HTTP/1.1\r\nHost: c\r\n" % (b"a" * 1_900), b"GET /%s HTTP/1.1\r\nHost: c\r\n" % (b"a" * 2_100)),
    ("limits.head_line_bytes 2000, a field", b"GET / HTTP/1.1\r\nHost: c\r\nX: %s\r\n" % (b"a" * 1_900), b"GET / HTTP/1.1\r\nHost: c\r\nX: %s\r\n" % (b"a" * 2_100)),
    ("128 header fields", b"GET / HTTP/1.1\r\nHost: c\r\n" + b"X: 1\r\n" * 120, b"GET / HTTP/1.1\r\nHost: c\r\n" + b"X: 1\r\n" * 140),
)  # fmt: skip
LEAF = re.compile(r"^( *)([\w-]+):(?: (.*))?$")


def checked(file: Path) -> tuple[int, str]:
    """What `vecsieve check` says of a file, and its exit status."""
    command = [sys.executable, "-m", "vecsieve.proxy", "check", "--show", "--config", str(file)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def unspoken(output: str, expected: Sequence[str]) -> list[str]:
    """The lines that must be there and are not."""
    text = " ".join(output.split())
    return [line for line in expected if " ".join(line.split()) not in text]


async def settings(commands: int) -> list[Finding]:
    """Through the command itself. ``commands``: how many of the bad files."""
    names = sorted(FILES)
    chosen = names[:: max(1, len(names) // commands)]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            file = Path(folder, f"{name}.yaml")
            content, words = FILES[name]
            file.write_bytes(content)
            code, output = await asyncio.to_thread(checked, file)
            missing = unspoken(output, words.splitlines())
            if code != REFUSED or missing:
                wrong.append(f"{name}: exit {code}, not said: {missing[:1]}")
    words = f"{len(chosen) - len(wrong)} of {len(chosen)}{''.join('; ' + fault for fault in wrong[:2])}"
    bad = Finding("T6", "bad settings", "each refused with exit 2 and a line that names its key", words, not wrong)
    return [bad, await written(), *await effective()]


async def written() -> Finding:
    """Every value of the examples is the one that `check` shows."""
    wrong, count = [], 0
    for file in sorted((ROOT / "config/examples").glob("*.yaml")):
        _, output = await asyncio.to_thread(checked, file)
        expected, printed = leaves(file.read_text(encoding="utf-8")), leaves(output)
        count += len(expected)
        wrong += [
            f"{file.name}: {path} is {printed.get(path)}"
            for path, value in expected.items()
            if not _is_same(value, printed.get(path))
        ]
    measured = f"{count - len(wrong)} of {count}{''.join('; ' + fault for fault in wrong[:2])}"
    return Finding("T6", "values of the examples", "shown as effective", measured, not wrong and count > 0)


def leaves(text: str) -> dict[str, str]:
    """The scalars of plain settings by their path, lists left out: read by indentation, not by the reader that is judged."""
    values: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = LEAF.match(line.split(" #")[0].rstrip())
        if match is None or (above and above[0][1] == "rules" and match[1]):
            continue  # which rule a line belongs to is not told by its indentation
        depth = len(match[1])
        above = [pair for pair in above if pair[0] < depth]
        if match[3] is None:
            above.append((depth, match[2]))
        elif not match[3].startswith(("[", "{")):
            values[".".join([*(name for _, name in above), match[2]])] = match[3].strip("'\"")
    return values


def _is_same(written: str, printed: str | None) -> bool:
    """A number may be written 5 and shown 5.0."""
    try:
        return printed is not None and (written == printed or float(written) == float(printed))
    except ValueError:
        return False


async def effective() -> list[Finding]:
    """Limits of the running process, tried on both sides."""
    findings = []
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream, proxy(upstream.url, environment=LIMITS) as running:
        for name, within, beyond in AROUND:
            seen = [
                (await raw_exchange(running.port, raw + b"Connection: close\r\n\r\n"))[9:12] for raw in (within, beyond)
            ]
            met = seen[0] == b"200" and seen[1] in {b"400", b"414", b"431"}
            findings.append(Finding("T6", name, "within 200, beyond refused", b" ".join(seen).decode(), met))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        answer = await raw_exchange(running.port, b"GET / HTTP/1.1\r\nHost: c\r\n")
        took = loop.time() - begun
    met = answer[9:12] == b"408" and 0.5 <= took <= 5.0
    measured = f"{answer[9:12].decode()} after {took:.1f} s"
    return [*findings, Finding("T6", "limits.head_timeout_seconds 1", "408 after 1 s", measured, met)]
