"""Drives a real headless Chromium through the DevTools protocol, over a pipe: no driver and no port is needed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--mute-audio", "--remote-debugging-pipe",
)  # fmt: skip
TIMEOUT_SECONDS = 60
KEYS = {"+": "Equal", "-": "Minus", "0": "Digit0", ",": "Comma", ".": "Period", "c": "KeyC", "t": "KeyT"}


class BrowserError(Exception):
    """The browser answered with an error, or a script threw one."""


class Browser:
    """One Chromium with one page. ``problems`` are console errors, exceptions and failed or attempted requests."""

    def __init__(self, width: int = 1600, height: int = 1000) -> None:
        assert CHROMIUM
        self._profile = tempfile.mkdtemp(prefix="hwmodel-chromium-")
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()

        def pipes() -> None:
            os.dup2(to_child, 3)
            os.dup2(from_child, 4)

        # The ends of the child must not be 3 or 4 themselves, or one would overwrite the other.
        spare = [os.dup(to_child), os.dup(from_child)] if {to_child, from_child} & {3, 4} else []
        if spare:
            os.close(to_child)
            os.close(from_child)
            to_child, from_child = spare
        self._process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={self._profile}", f"--window-size={width},{height}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=pipes,
            pass_fds=(3, 4),
        )
        os.close(to_child)
        os.close(from_child)
        self._buffer = b""
        self._number = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", {"targetId": page["targetId"], "flatten": True})
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Set the size of the page."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path: Path) -> None:
        """Open a file and wait until the page says that it is ready."""
        self.problems.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait("document.body && document.body.dataset.ready === 'yes'")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while not self.run(condition):
            if time.monotonic() > end:
                raise BrowserError(f"not within {TIMEOUT_SECONDS} s: {condition}; {self.problems}")
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """Value of an expression; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"].get("exception", answer["exceptionDetails"])))
        return answer["result"].get("value")

    def frame(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        text = key if len(key) == 1 else ""
        base = {"key": key, "code": KEYS.get(key, key), "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **base)
        self.call("Input.dispatchKeyEvent", type="keyUp", **base)
        self.frame()

    def mouse(self, what: str, x: float, y: float, **more: Any) -> None:
        """``mouseMoved``, ``mousePressed``, ``mouseReleased`` or ``mouseWheel`` at a point of the window."""
        self.call("Input.dispatchMouseEvent", type=what, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Click with the left button."""
        for what in ("mousePressed", "mouseReleased"):
            self.mouse(what, x, y, button="left", clickCount=1)
        self.frame()

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save what the window shows, or the whole page, as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method: str, **params: Any) -> Any:
        """A command of the DevTools protocol, to the page."""
        return self._call(method, params, self._session)

    def close(self) -> None:
        """End the browser."""
        try:
            self._call("Browser.close")
        except (BrowserError, OSError):
            self._process.kill()
        self._process.wait(TIMEOUT_SECONDS)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _call(self, method: str, params: dict[str, Any] | None = None, session: str = "") -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 20)
            if not part:
                raise BrowserError("the browser has gone")
            self._buffer += part
        message, self._buffer = self._buffer.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method", ""), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


def texts(browser: Browser, selector: str) -> Sequence[str]:
    """Texts of all elements that a selector finds."""
    found: list[str] = browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")
    return found
