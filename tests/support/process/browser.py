"""A real Chromium, driven over its own protocol: pages are opened, read, photographed, and every request they make is known."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-sandbox",  # as root in a container; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    # A page that is left for another one of ours needs no process of its own: a fifth of the browser's processor time.
    "--process-per-site",
    "--disable-site-isolation-trials",
    "--disable-features=ProactivelySwapBrowsingInstance,BackForwardCache",
    "--num-raster-threads=1",
    "about:blank",
)
START_SECONDS = 90.0


def program() -> str | None:
    """Where a Chromium is installed; None where there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class CommandError(Exception):
    """The browser refused a command, as while a page loads itself again."""


class Page:
    """One page. ``requests``: the addresses it asked for. ``faults``: exceptions, and what its policy forbade."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())
        self.requests: list[str] = []
        self.faults: list[str] = []

    async def send(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = answered
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        answer = await asyncio.wait_for(answered, 60)
        if "error" in answer:
            raise CommandError(answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    async def begin(self) -> None:
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.send(f"{domain}.enable")

    async def seen_as(self, *, width: int, dark: bool) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 700
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def open(self, url: str) -> None:
        await self.send("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        answer = await self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def text(self) -> str:
        """What a person reads."""
        return str(await self.run("document.body ? document.body.innerText : ''"))

    async def until(self, script: str, seconds: float = 40.0) -> None:
        """Wait until the script is true; an exception in it, as of a page that is still empty or loads itself again, is not yet."""
        condition = f"(() => {{ try {{ return Boolean({script}); }} catch {{ return false; }} }})()"
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            with suppress(CommandError):
                if await self.run(condition):
                    return
            await asyncio.sleep(0.05)
        raise AssertionError(f"never true: {script}\n{await self.text()}\n{self.faults}")

    async def press(self, key: str) -> None:
        await self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def picture(self, path: Path) -> None:
        """What is in view, as PNG."""
        shot = await self.send("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    async def close(self) -> None:
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            content = message.json()
            waiting = self._waiting.pop(content.get("id", 0), None)
            if waiting is not None:
                waiting.set_result(content)
            elif content.get("method") == "Network.requestWillBeSent":
                self.requests.append(content["params"]["request"]["url"])
            elif content.get("method") == "Runtime.exceptionThrown":
                self.faults.append(str(content["params"]["exceptionDetails"]))
            elif content.get("method") == "Log.entryAdded" and content["params"]["entry"]["level"] == "error":
                self.faults.append(str(content["params"]["entry"]["text"]))


@contextmanager
def chromium() -> Iterator[int]:
    """A fresh browser, which ends with the block; the port of its protocol."""
    path = program()
    assert path is not None, "no Chromium is installed"
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        subprocess.Popen(
            [path, f"--user-data-dir={home}", *FLAGS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            yield _port(Path(home) / "DevToolsActivePort")
        finally:
            process.terminate()


@asynccontextmanager
async def page_of(port: int) -> AsyncIterator[Page]:
    """A new page of that browser, closed with the block."""
    api = f"http://127.0.0.1:{port}/json"
    async with aiohttp.ClientSession() as session:
        async with session.put(f"{api}/new?about:blank") as answer:
            target = await answer.json(content_type=None)
        async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            page = Page(socket)
            await page.begin()
            try:
                yield page
            finally:
                await page.close()
        async with session.get(f"{api}/close/{target['id']}"):
            """It answers once the page is told to close."""


def _port(file: Path) -> int:
    until = time.monotonic() + START_SECONDS
    while not file.exists() or not file.read_text().strip():
        assert time.monotonic() < until, "Chromium did not start"
        time.sleep(0.02)
    return int(file.read_text().split()[0])
