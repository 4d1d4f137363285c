"""Headless Chromium, controlled over its DevTools pipe with JSON messages, each ended by a zero byte."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from patience import STUCK_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    *("--remote-debugging-pipe", "--no-first-run", "--disable-extensions", "--hide-scrollbars", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-default-browser-check"),
)
LOOK_S = 0.05
"""Polling interval of conditions in the page, in seconds."""


class Browser:
    """One Chromium with one page. Use it as a context manager."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self.home = tempfile.TemporaryDirectory(prefix="chromium")
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        # The browser reads commands from descriptor 3 and writes to 4; the shell puts the pipes there.
        flags = " ".join((*FLAGS, f"--user-data-dir={self.home.name}", "about:blank"))
        line = f"exec {CHROMIUM} {flags} 3<&{to_read} 4>&{to_write} >/dev/null 2>&1"
        self.process = subprocess.Popen(["bash", "-c", line], pass_fds=(to_read, to_write))
        os.close(to_read)
        os.close(to_write)
        self.sent, self.pending, self.session, self.clicks = 0, b"", "", 0
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.process.terminate()
        self.process.wait()
        for _ in range(int(STUCK_S / LOOK_S)):  # helper processes write to the folder until they exit
            try:
                self.home.cleanup()
                return
            except OSError:
                time.sleep(LOOK_S)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its response; other messages are stored in `events`."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.sent:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def read(self) -> dict[str, Any]:
        """Return the next message of the browser."""
        while b"\0" not in self.pending:
            found = os.read(self.from_browser, 1 << 16)
            assert found, "the browser has exited"
            self.pending += found
        message, _, self.pending = self.pending.partition(b"\0")
        return json.loads(message)

    def resize(self, width: int, height: int, mobile: bool = False) -> None:
        """Set the viewport size, in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def prefer(self, scheme: str) -> None:
        """Set the preferred colour scheme, light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, page: Path, address: str = "") -> None:
        """Load a page and wait until its viewer is ready."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"file://{page}{address}")
        self.wait("!!window.echelon && window.echelon.state().frames > 0")

    def run(self, script: str) -> Any:
        """Run a script in the page and return its value; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until a script is true in the page."""
        for _ in range(int(STUCK_S / LOOK_S)):
            if self.run(script):
                return
            time.sleep(LOOK_S)
        raise AssertionError(f"never came true: {script}")

    def materialize(self) -> None:
        """Wait until the page has drawn everything that changed."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def mouse(self, kind: str, x: float, y: float, buttons: int = 0) -> None:
        """Press, move or release the left button at a point of the viewport."""
        button = "none" if kind == "mouseMoved" and not buttons else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1)

    def click(self, x: float, y: float) -> None:
        """Click a point of the viewport, and count it in `clicks`."""
        self.clicks += 1
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, 1)
        self.mouse("mouseReleased", x, y)
        self.materialize()

    def click_on(self, selector: str) -> None:
        """Click the middle of an element."""
        self.click(*self.middle_of(selector))

    def middle_of(self, selector: str) -> tuple[float, float]:
        """Return the position of the middle of an element in the viewport."""
        place = self.run(
            f"(e => {{ e.scrollIntoView({{block: 'nearest'}}); const r = e.getBoundingClientRect();"
            f" return [r.x + r.width / 2, r.y + r.height / 2]; }})(document.querySelector({json.dumps(selector)}))"
        )
        return place[0], place[1]

    def press(self, key: str, modifiers: int = 0, code: str = "") -> None:
        """Press a key: 8 is shift as a modifier, `code` the place of the key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=code, modifiers=modifiers, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code, modifiers=modifiers)
        self.materialize()

    def screenshot(self, path: Path | None = None) -> bytes:
        """Return the viewport as a PNG, and write it to `path` if given."""
        picture = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(picture)
        return picture

    def complaints(self) -> list[Any]:
        """Return the errors, warnings and exceptions of the page so far."""
        found: list[Any] = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"])
            if event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(params["args"])
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"])
        return found

    def requests(self) -> list[str]:
        """Return the URLs that the page requested, except for itself and data URLs."""
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("file:", "data:", "about:", "blob:"))]
