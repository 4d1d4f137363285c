"""The `verifiers` environment, run by the package with a stand-in model on a local server."""

import asyncio
import dataclasses
import json
import sys
import urllib.request

import pytest

pytest.importorskip("verifiers.v1")

import verifiers.v1 as vf
from chat_servers import chat_server, holds_then_fights
from verifiers.v1.runtimes import ProgramResult
from verifiers.v1.utils.loaders import environment_class, load_environment

from echelon.integrations.verifiers import CommanderConfig, CommanderEnv, CommanderTaskset, battle_of
from echelon.rules.config import ENV_PRESETS, EnvConfig

pytestmark = pytest.mark.integrations
PLUGIN = """
from echelon.integrations.verifiers import *
from echelon.integrations.verifiers import __all__ as names
from test_verifiers import InProcess

__all__ = [*names, "InProcess"]
"""


class InProcess(vf.Harness[vf.HarnessConfig]):
    """A harness with one call per segment in this process; the package's own harnesses would install software."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = SUPPORTS_MESSAGE_PROMPT = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, **further):
        system, prompt = self.resolve_prompt(data)
        said = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        messages = [one if isinstance(one, dict) else one.model_dump(exclude_none=True) for one in said]
        messages = [{key: one[key] for key in ("role", "content")} for one in messages]
        messages = ([{"role": "system", "content": system}] if system else []) + messages
        body = json.dumps({"model": ctx.model, "messages": messages}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
        request = urllib.request.Request(f"{endpoint}/chat/completions", body, headers)
        await asyncio.to_thread(lambda: urllib.request.urlopen(request).read())
        return ProgramResult(exit_code=0, stdout="", stderr="")


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Return the module name under which the package finds the taskset."""
    (tmp_path / "echelon_commander.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "echelon_commander"
    sys.modules.pop("echelon_commander", None)


def test_tasks_start_with_first_report(brief):
    taskset = CommanderTaskset(CommanderConfig(first_seed=3, style="Be brief."))
    one, two = taskset.take(2)
    assert one.data.info["seed"] == 3 and two.data.info["seed"] == 4 and one.data.prompt != two.data.prompt
    assert one.data.prompt == battle_of(one.data.info).words() and one.data.system_prompt.endswith("Be brief.")


@pytest.fixture
def brief(monkeypatch):
    """Shorten battles to 8 s on two maps."""
    config = EnvConfig.small()
    config = dataclasses.replace(config, map_pool=2, rules=dataclasses.replace(config.rules, max_episode_s=8.0))
    monkeypatch.setitem(ENV_PRESETS, "small", lambda: config)


@pytest.mark.filterwarnings("ignore")
def test_commanded_battle_is_rewarded(plugin, brief, monkeypatch):
    monkeypatch.setenv("STAND_IN_API_KEY", "none")
    assert issubclass(environment_class(plugin), CommanderEnv)
    with chat_server(holds_then_fights) as server:

        async def played():
            config_class = environment_class(plugin).__orig_bases__[0].__args__[0]
            config = config_class(taskset={"id": plugin}, branches=2, commander={"runtime": {"type": "subprocess"}})
            env = load_environment(config)
            client = vf.EvalClientConfig(base_url=server.url, api_key_var="STAND_IN_API_KEY")
            async with env.serving():
                (task,) = env.taskset.take(1)
                return await env.run_episode(task, vf.ModelContext(model="stand-in", client=client))

        episode = asyncio.run(played())
    assert episode.ok, episode.errors or [trace.errors for trace in episode.traces]
    (trace,) = episode.traces
    assert trace.rewards["outcome"].score in (0.0, 0.5, 1.0)
    assert -1 <= trace.rewards["whatif"].score <= 1 and trace.metrics["refused"] == 0
    assert trace.num_turns == len(server.requests) == 4
