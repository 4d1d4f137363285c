#!/usr/bin/env bash
# Guess: POST /reset and POST /step of a server made by create_app play one episode, as a session of the client does.
# Seen: each request makes an environment of its own and closes it. Every /step is step 1 of an episode without a reset,
#   with status 200; GET /state says 0 steps. Through the WebSocket client the steps are 1, 2, 3.
# Versions: openenv-core 0.3.0, fastapi 0.165.0, Python 3.11 (2026-11-30).
# Hurt: clients in other languages, load tests and curl: their episodes never get past step 1, without an error.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q openenv-core==0.3.0 fastapi==0.165.0
"$work/v/bin/python" -W ignore - << 'END'
import socket
import sys
import threading
import time

import requests
import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.generic_client import GenericEnvClient


class Count(Environment):
    """Counts its steps and ends after three."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **options):
        self.steps = 0
        return Observation(done=False, reward=0.0)

    def step(self, action, timeout_s=None, **options):
        self.steps = getattr(self, "steps", 0) + 1
        return Observation(done=self.steps == 3, reward=float(self.steps))

    @property
    def state(self):
        return State(step_count=getattr(self, "steps", 0))


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
app = create_app(Count, Action, Observation, env_name="count")
server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical"))
thread = threading.Thread(target=server.run, daemon=True)
thread.start()
while not server.started:
    time.sleep(0.1)
address, told = f"http://127.0.0.1:{port}", {}
with requests.Session() as http:
    first = http.post(f"{address}/reset", json={})
    answers = [http.post(f"{address}/step", json={"action": {}}) for _ in range(4)]
    codes = {answer.status_code for answer in (first, *answers)}
    told["http"] = [(answer.json()["reward"], answer.json()["done"]) for answer in answers]
    steps = http.get(f"{address}/state").json()["step_count"]
with GenericEnvClient(base_url=address).sync() as client:
    client.reset()
    results = [client.step({}) for _ in range(3)]
    told["client"] = [(result.reward, result.done) for result in results]
server.should_exit = True
thread.join()
print(f"reward and done: {told}; status {codes}, steps by /state {steps}")
holds = told["http"] == [(1.0, False)] * 4 and codes == {200} and steps == 0
holds = holds and told["client"] == [(1.0, False), (2.0, False), (3.0, True)]
print("each step over HTTP is the first of a new environment:", holds)
sys.exit(not holds)
END
