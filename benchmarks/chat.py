"""Throughput of the language-model client, compared with the limit of its stand-in server, in calls per second.

python benchmarks/chat.py --concurrency 64 --calls 1280

Threads measure the limit: they send the same bodies over persistent connections and do not parse the
replies. Prints a JSON line. Needs the extra `llm`.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from echelon.command.chat_client import ChatClient, ModelSettings
from echelon.command.chat_prompt import prompt_of, reply_schema, system_text
from echelon.command.pack_policy import OrderTargets
from echelon.runtime.command_line import settings
from echelon.runtime.terminal import run

REPLY = '{"orders": [{"pack": 0, "kind": "hold"}]}'
PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    concurrency: int = 64
    calls: int = 1280


class Handler(BaseHTTPRequestHandler):
    """Respond to every request immediately."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    body = json.dumps(
        {"choices": [{"message": {"content": REPLY}}], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}
    ).encode()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 1024


def serve(pipe: Any) -> None:
    """Run the server in its own process."""
    server = Server(("127.0.0.1", 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


def limit_of(port: int, body: bytes, args: Args) -> float:
    """Return the calls per second of the server, measured by threads without other work."""

    def calls(count: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(count):
            connection.request("POST", PATH, body, {"Content-Type": "application/json"})
            connection.getresponse().read()

    start_s = time.perf_counter()
    with ThreadPoolExecutor(args.concurrency) as pool:
        list(pool.map(calls, [args.calls // args.concurrency] * args.concurrency))
    return args.calls // args.concurrency * args.concurrency / (time.perf_counter() - start_s)


def measure(args: Args) -> dict[str, Any]:
    """Return both rates; the client first opens its connections in one round."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,), daemon=True)
    process.start()
    port = here.recv()
    seat = OrderTargets(2, [f"red_{n}" for n in range(10)], (80, 80))
    prompt = prompt_of(system_text(seat, None), [], "You command blue." * 50)
    client = ChatClient(ModelSettings(f"http://127.0.0.1:{port}/v1", "stand-in", concurrency=args.concurrency))
    schema = reply_schema(seat)
    client.ask([prompt] * args.concurrency, [schema] * args.concurrency)
    start_s = time.perf_counter()
    answers = client.ask([prompt] * args.calls, [schema] * args.calls)
    own = args.calls / (time.perf_counter() - start_s)
    client.close()
    assert all(answer.text == REPLY for answer in answers)
    limit = limit_of(port, json.dumps({"messages": prompt, "schema": schema}).encode(), args)
    process.terminate()
    return {**vars(args), "calls_per_s": round(own, 1), "limit_per_s": round(limit, 1)}


if __name__ == "__main__":
    run(lambda: print(json.dumps(measure(settings(Args, __doc__)))))
