"""A client of a Chat Completions server: concurrent prompts, retries, a timeout and a size limit for replies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from echelon.command.reply import MOST_BYTES
from echelon.runtime.errors import ConfigError, missing_package, one_line, require
from echelon.runtime.limits import Limits, Settings

Prompt = list[dict[str, str]]
"""Messages of a chat, each with `role` and `content`."""
MOST_BODY = 8 * MOST_BYTES
"""Maximum size of a response body, in bytes."""
MOST_TOKENS = 1 << 40
LONGEST_STYLE = 10_000
KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
NO_KEY = "none"
"""Placeholder key for a server without authentication, because the client rejects an empty key."""
HIDDEN = "[API key]"
TIMEOUT, CONNECTION, NO_JSON, EMPTY, TOO_LONG = "timeout", "connection", "not JSON", "empty", "too long"
"""Fault names of an answer. The fault of an HTTP status is named `status 429`, for example."""
SCHEMA_REFUSED = (400, 415, 422, 501)
"""HTTP statuses of a server that does not support JSON schemas for replies."""


@dataclass(frozen=True)
class ModelSettings(Settings):
    """Settings of a language model on a Chat Completions server, and of the requests to it."""

    base_url: str = ""
    """Address of the server, such as http://localhost:8000/v1."""
    model: str = ""
    """Name of the model on the server."""
    api_key_env: str = ""
    """Environment variable that contains the API key; its name ends in KEY or TOKEN. Empty: the server needs no key."""
    report: Literal["words", "json"] = "words"
    """Reports in plain English or as JSON."""
    style: str | None = None
    """Additional instructions in the prompt, at most 10,000 characters."""
    history: Annotated[int, Limits(0, 64, "reports")] = 4
    """Number of earlier reports and replies of the battle in the prompt."""
    temperature: Annotated[float, Limits(-1, 2)] = 0.7
    """Sampling temperature; -1: the server's default."""
    max_tokens: Annotated[int, Limits(0, 1 << 20, "tokens")] = 1024
    """Maximum length of a reply; 0: the server's default."""
    deadline_s: Annotated[float, Limits(0, 3600, "s")] = 0.0
    """Deadline for a reply, in seconds. For each deadline that passes, orders take effect one report later. 0: none."""
    timeout_s: Annotated[float, Limits(0.01, 3600, "s")] = 60.0
    """Timeout of a call including its retries, in seconds. After it, the fallback order is used."""
    retries: Annotated[int, Limits(0, 100)] = 2
    """Maximum retries of a call, with exponential backoff, after a lost connection or a status such as 429 or 500."""
    concurrency: Annotated[int, Limits(1, 4096, "calls")] = 64
    """Maximum number of concurrent calls."""
    fallback: Literal["free", "hold"] = "free"
    """Order to all packs if a call fails. free: mechs play as without orders."""
    schema: Literal["auto", "on", "off"] = "auto"
    """Whether to request replies that match a JSON schema. auto: until the server rejects the schema."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.model.isprintable(), "model", "printable letters", self.model)
        is_style = self.style is None or (isinstance(self.style, str) and len(self.style) <= LONGEST_STYLE)
        require(is_style, "style", f"a text of at most {LONGEST_STYLE:,} letters", self.style)
        if self.base_url:
            url = urlsplit(self.base_url)
            # Results contain the URL, so it must not contain a password.
            is_plain = url.scheme in ("http", "https") and bool(url.hostname) and "@" not in url.netloc
            limit = "http://HOST[:PORT]/PATH or https://..., without a user, a query or a fragment"
            shown = self.base_url if "@" not in self.base_url else "one with a user"
            require(is_plain and not url.query and not url.fragment, "base_url", limit, shown)
        is_key = not self.api_key_env or self.api_key_env.endswith(("KEY", "TOKEN"))
        is_name = not self.api_key_env or KEY_NAME.fullmatch(self.api_key_env) is not None
        # An invalid variable name may be the API key itself, so the message does not show it.
        limit = "the name of an environment variable that ends in KEY or TOKEN, not the key itself"
        require(is_key and is_name, "api_key_env", limit, "another text")

    def require_server(self) -> None:
        """Raise `ConfigError` if `base_url` or `model` is empty."""
        require(self.base_url != "", "base_url", "the address of a Chat Completions server", self.base_url)
        require(self.model != "", "model", "the name of a model at the server", self.model)

    def key(self) -> str:
        """Return the API key, or an empty string if the server needs no key.

        Raises:
            ConfigError: if the environment variable `api_key_env` is not set.
        """
        if not self.api_key_env:
            return ""
        key = os.environ.get(self.api_key_env, "")
        require(key != "", "api_key_env", "the name of an environment variable that is set", self.api_key_env)
        return key


class ChatResponse(NamedTuple):
    """Result of a call."""

    text: str
    """The reply; empty after a fault."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Token count reported by the server."""
    latency_s: float = 0.0
    """Wall-clock time of the call including its retries, in seconds."""
    fault: str = ""
    """Reason for a missing reply; empty if there is a reply."""
    detail: str = ""
    """Error message of the server, one line with the API key removed."""


class ChatClient:
    """Client of one server. The client's event loop runs in a background thread.

    Args:
        settings: settings of the server.

    Raises:
        ConfigError: if the address or the model's name is empty, or the environment variable for the API key is not
            set.
        ModuleNotFoundError: if the package `openai` is missing.
    """

    def __init__(self, settings: ModelSettings) -> None:
        settings.require_server()
        try:
            import openai
        except ModuleNotFoundError as error:
            message = missing_package("a language model", error.name, "llm")
            raise ModuleNotFoundError(message, name=error.name) from None
        self.settings, self._errors = settings, openai
        self._key = settings.key()
        self._offers_schema = settings.schema != "off"
        self._client = openai.AsyncOpenAI(
            api_key=self._key or NO_KEY,
            base_url=settings.base_url,
            max_retries=settings.retries,
            timeout=settings.timeout_s,
        )
        self._loop = asyncio.new_event_loop()
        self._limit: asyncio.Semaphore | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.close = weakref.finalize(self, end_loop, self._loop, self._thread, self._client.close)
        """Close the connections. Also called when the program exits."""

    def ask(
        self,
        prompts: Sequence[Prompt],
        schemas: Sequence[Mapping[str, Any]],
        on_answer: Callable[[int, ChatResponse], object] = lambda index, answer: None,
    ) -> list[ChatResponse]:
        """Send prompts, at most `ModelSettings.concurrency` at a time, and return one response per prompt.

        Args:
            schemas: the JSON schema of each reply.
            on_answer: function of a prompt's index and response, called from another thread as soon as the response
                arrives.
        """
        future = asyncio.run_coroutine_threadsafe(self._all(prompts, schemas, on_answer), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _all(
        self,
        prompts: Sequence[Prompt],
        schemas: Sequence[Mapping[str, Any]],
        on_answer: Callable[[int, ChatResponse], object],
    ) -> list[ChatResponse]:
        if self._limit is None:
            self._limit = asyncio.Semaphore(self.settings.concurrency)
        limit = self._limit

        async def one(index: int) -> ChatResponse:
            async with limit:
                answer = await self._timed(prompts[index], schemas[index])
            on_answer(index, answer)
            return answer

        return list(await asyncio.gather(*map(one, range(len(prompts)))))

    async def _timed(self, prompt: Prompt, schema: Mapping[str, Any]) -> ChatResponse:
        start_s = time.perf_counter()
        try:
            answer = await asyncio.wait_for(self._call(prompt, schema), self.settings.timeout_s)
        except (asyncio.TimeoutError, self._errors.APITimeoutError):
            answer = ChatResponse("", fault=TIMEOUT, detail=f"no answer within {self.settings.timeout_s:g} s")
        except self._errors.APIStatusError as error:
            answer = ChatResponse("", fault=f"status {error.status_code}", detail=str(error))
        except self._errors.APIConnectionError as error:
            answer = ChatResponse("", fault=CONNECTION, detail=f"{error} {error.__cause__ or ''}")
        except Exception as error:  # A broken server may cause any error, even while its reply is read.
            answer = ChatResponse("", fault=CONNECTION, detail=f"{type(error).__name__}: {error}")
        latency_s = time.perf_counter() - start_s
        return answer._replace(
            text=self._hidden(answer.text), detail=one_line(self._hidden(answer.detail), 200), latency_s=latency_s
        )

    async def _call(self, prompt: Prompt, schema: Mapping[str, Any]) -> ChatResponse:
        if self._offers_schema:
            try:
                return await self._sent(prompt, {"response_format": response_format(schema)})
            except self._errors.APIStatusError as error:
                if self.settings.schema == "on" or error.status_code not in SCHEMA_REFUSED:
                    raise
                self._offers_schema = False
        return await self._sent(prompt, {})

    async def _sent(self, prompt: Prompt, further: dict[str, Any]) -> ChatResponse:
        settings = self.settings
        if settings.temperature >= 0:
            further["temperature"] = settings.temperature
        if settings.max_tokens > 0:
            further["max_tokens"] = settings.max_tokens
        body = b""
        # Read the reply in chunks, because the client library does not limit its size.
        create: Any = self._client.chat.completions.with_streaming_response.create
        async with create(model=settings.model, messages=prompt, **further) as response:
            async for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MOST_BODY:
                    return ChatResponse("", fault=TOO_LONG, detail=f"more than {MOST_BODY:,} bytes")
        return read_answer(body)

    def _hidden(self, text: str) -> str:
        """Remove the API key from a text, because a server may repeat the key in its messages."""
        return text.replace(self._key, HIDDEN) if self._key else text


def end_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, close: Callable[[], Any]) -> None:
    """Close a client in the thread of its event loop; then stop the loop and the thread."""
    if loop.is_closed():
        return
    # If closing fails, the connection closes when the program exits.
    with contextlib.suppress(Exception):
        asyncio.run_coroutine_threadsafe(close(), loop).result(2.0)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(2.0)
    if not thread.is_alive():
        loop.close()


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "orders", "schema": dict(schema)}}


def read_answer(body: bytes) -> ChatResponse:
    """Parse the body of an HTTP response into a reply with token counts, or into a fault."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ChatResponse("", fault=NO_JSON, detail=body[:100].decode("utf-8", "replace"))
    usage = document.get("usage") if isinstance(document, dict) else None
    tokens = [usage.get(name) if isinstance(usage, dict) else 0 for name in ("prompt_tokens", "completion_tokens")]
    prompt, written = (count if type(count) is int and 0 <= count <= MOST_TOKENS else 0 for count in tokens)
    try:
        content = document["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        content = None
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str) or not content.strip():
        return ChatResponse("", prompt, written, fault=EMPTY, detail="no text in the first choice")
    # Replace lone surrogates: UTF-8 cannot encode them, so the text could be neither sent nor written.
    text = content.encode("utf-8", "replace").decode("utf-8")
    if len(text) > MOST_BYTES:
        return ChatResponse("", prompt, written, fault=TOO_LONG, detail=f"more than {MOST_BYTES:,} letters")
    return ChatResponse(text, prompt, written)


def settings_of(fields: Mapping[str, Any]) -> ModelSettings:
    """Create settings from JSON values.

    Raises:
        ConfigError: if a field is unknown or a value is out of range.
    """
    known = set(ModelSettings.__dataclass_fields__)
    unknown = [name for name in fields if name not in known]
    require(not unknown, "settings of a language model", f"chosen from {', '.join(sorted(known))}", unknown)
    try:
        return ModelSettings(**fields)
    except TypeError as error:
        raise ConfigError(str(error)) from None
