"""Child processes: announced addresses, failures told, always ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from vecsieve.proxy.demo.database import ChildFailedError, ChildTimeouts, child

PYTHON = (sys.executable, "-c")
READY = "fake listening on"
WAITS = "import time\ntime.sleep(60)\n"


def announcing(*lines: str, then: str = WAITS) -> str:
    return f"print({chr(10).join(lines)!r}, flush=True)\n{then}"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def run(script: str, *announces: str, seconds: float = 20.0) -> Mapping[str, str]:
    with child((script,), announces=announces, program=PYTHON, timeouts=ChildTimeouts(start_seconds=seconds)) as urls:
        return urls


def test_each_announced_address_is_found_among_other_lines() -> None:
    script = announcing("hello", f"{READY} http://127.0.0.1:4711", "noise http://no.where", "b admin on http://[::1]:9")
    urls = run(script, READY, "b admin on")
    assert urls == {READY: "http://127.0.0.1:4711", "b admin on": "http://[::1]:9"}


def test_the_process_is_gone_after_the_block() -> None:
    with child((announcing_pid(),), announces=("pid",), program=PYTHON) as urls:
        pid = int(urls["pid"].rpartition(":")[2])
        assert is_alive(pid)
    assert not is_alive(pid)


def announcing_pid(then: str = WAITS) -> str:
    return f"import os\nprint(f'pid http://x:{{os.getpid()}}', flush=True)\n{then}"


def test_the_process_is_gone_after_an_error_in_the_block() -> None:
    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(seen)
    assert not is_alive(seen[0])


def interrupted(seen: list[int]) -> None:
    with child((announcing_pid(),), announces=("pid",), program=PYTHON) as urls:
        seen.append(int(urls["pid"].rpartition(":")[2]))
        raise KeyboardInterrupt


def test_a_process_that_ends_early_is_told_with_its_code_and_last_words() -> None:
    with pytest.raises(ChildFailedError, match=r"ended with code 3(.|\n)*address in use") as caught:
        run("import sys\nsys.stderr.write('address in use')\nsys.exit(3)", READY)
    assert "did not come up" in str(caught.value)


def test_a_silent_process_is_given_up_and_ended() -> None:
    started = time.monotonic()
    with pytest.raises(ChildFailedError, match="still silent"):
        run(WAITS, READY, seconds=0.2)
    assert time.monotonic() - started < 10


def test_an_address_that_never_comes_is_missed_even_when_others_came() -> None:
    with pytest.raises(ChildFailedError):
        run(announcing(f"{READY} http://127.0.0.1:1", then=""), READY, "other")


def test_only_the_last_lines_are_told() -> None:
    with pytest.raises(ChildFailedError) as caught:
        run("for number in range(500): print('line', number)", READY)
    assert "line 499" in str(caught.value)
    assert "line 0\n" not in str(caught.value)


def test_a_child_that_talks_on_is_never_blocked_by_a_full_pipe() -> None:
    flood = "import sys\nfor _ in range(300): print('x' * 1000)\nprint('done http://x:1', flush=True)\n" + WAITS
    assert run(flood, "done") == {"done": "http://x:1"}


def test_output_that_is_no_utf_8_does_no_harm() -> None:
    script = "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe\\n')\n" + announcing(f"{READY} http://127.0.0.1:1")
    assert run(script, READY) == {READY: "http://127.0.0.1:1"}


def test_the_users_own_settings_do_not_reach_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECSIEVE_MODE", "off")
    script = "import os\nprint('seen', 'VECSIEVE_MODE' in os.environ, 'http://x:1', flush=True)\n" + WAITS
    assert run(script, "seen False") == {"seen False": "http://x:1"}


def test_ctrl_c_in_the_terminal_does_not_reach_the_child() -> None:
    script = f"import os\nprint('group', os.getsid(0) == os.getpid(), 'http://x:{os.getpid()}', flush=True)\n" + WAITS
    assert run(script, "group True")


def test_a_child_that_ignores_the_request_to_end_is_killed() -> None:
    stubborn = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + announcing_pid()
    with child((stubborn,), announces=("pid",), program=PYTHON, timeouts=ChildTimeouts(stop_seconds=0.2)) as urls:
        pid = int(urls["pid"].rpartition(":")[2])
    assert not is_alive(pid)


def test_a_child_that_has_already_ended_is_no_trouble() -> None:
    with child((announcing_pid(then=""),), announces=("pid",), program=PYTHON) as urls:
        pid = int(urls["pid"].rpartition(":")[2])
        deadline = time.monotonic() + 10
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not is_alive(pid)


def is_running(pid: int) -> bool:
    """Alive and not merely waiting to be collected."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"


def test_the_command_line_is_the_program_by_default() -> None:
    with (
        pytest.raises(ChildFailedError, match="vecsieve no-such-command did not come up"),
        child(("no-such-command",), announces=(READY,)),
    ):
        pass


def test_a_signal_while_a_child_is_being_started_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    real = subprocess.Popen

    def interrupted(*arguments: object, **options: object) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = real(*arguments, **options)  # type: ignore[call-overload]  # - passed through
        started.append(process.pid)
        signal.raise_signal(signal.SIGINT)  # as if it came between fork and return
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(announcing(f"{READY} http://127.0.0.1:1"), READY)
    assert len(started) == 1
    assert not is_alive(started[0])
