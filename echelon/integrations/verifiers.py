"""Commanded battles as an environment of `verifiers.v1`: the battle takes the user's turns, the model commands.

The package finds a taskset by the name of a module, so export this module from your own module::

    # echelon_commander.py
    from echelon.integrations.verifiers import *
    from echelon.integrations.verifiers import __all__
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, Literal

from echelon.arena.ordered_battle import OrderedBattle
from echelon.command.chat_prompt import system_text
from echelon.command.pack_policy import MECHS
from echelon.integrations import missing
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.errors import require

try:
    import verifiers.v1 as vf
except ModuleNotFoundError as error:
    raise missing("verifiers", error) from None

__all__ = ["CommanderConfig", "CommanderEnv", "CommanderEnvConfig", "CommanderTask", "CommanderTaskset"]


class CommanderConfig(vf.TasksetConfig):
    """Settings of the battles."""

    env: Literal["small", "standard", "large"] = "small"
    mechs: str = MECHS
    opponent: str = MECHS
    style: str = ""
    """Additional instructions in the prompt."""
    first_seed: int = 0
    """Seed of the first task; each next task uses the next seed."""


class CommanderData(vf.TaskData):
    """Data of one battle."""

    info: dict[str, Any]
    """Arguments of the battle: `env`, `mechs`, `opponent` and `seed`."""


class CommanderTask(vf.Task[CommanderData, vf.State, vf.TaskConfig]):
    """One battle to command."""


class CommanderTaskset(vf.Taskset[CommanderTask, CommanderConfig]):
    """An infinite set of tasks: battles with consecutive seeds."""

    INFINITE = True

    def load(self) -> Iterator[CommanderTask]:
        """Yield the tasks; the prompt of each task is the first report of its battle."""
        for seed in itertools.count(self.config.first_seed):
            info = {name: getattr(self.config, name) for name in ("env", "mechs", "opponent")} | {"seed": seed}
            battle = battle_of(info)
            system_prompt = system_text(battle.seat, self.config.style)
            data = CommanderData(name=f"battle {seed}", prompt=battle.words(), system_prompt=system_prompt, info=info)
            yield CommanderTask(data, self.config.task)


class CommanderEnvConfig(vf.EnvConfig):
    """Settings of the rewards."""

    commander: vf.AgentConfig = vf.AgentConfig()
    branches: int = 0
    """If above 0, the reward `whatif` is the mean of `OrderedBattle.advantage` over replies, with as many branches."""
    whatif_weight: float = 1.0


class CommanderEnv(vf.Env[CommanderEnvConfig]):
    """The environment.

    Rewards: those named `outcome` (win 1, draw 0.5, loss 0) and, if `branches` is above 0, `whatif`.
    """

    async def run(self, task: Any, agents: Any) -> None:
        """Play one battle, with one turn of the model per report."""
        require(self.config.branches >= 0, "branches", "0 or more", self.config.branches)
        battle = await asyncio.to_thread(battle_of, task.data.info)
        refused, advantages = 0, []
        async with agents.commander.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                reply = segment.last_reply
                if self.config.branches:
                    advantages.append(await asyncio.to_thread(battle.advantage, reply, self.config.branches))
                lines = battle.reply(reply)
                refused += len(lines)
                await asyncio.to_thread(battle.step)
                if battle.winner is not None:
                    break
                segment = await interaction.turn("\n".join([*lines, battle.words()]))
        trace = interaction.trace
        trace.record_reward("outcome", battle.points, 1.0)
        if advantages:
            trace.record_reward("whatif", sum(advantages) / len(advantages), self.config.whatif_weight)
        trace.record_metric("refused", float(refused))


def battle_of(info: dict[str, Any]) -> OrderedBattle:
    """Create the battle that a task describes."""
    return OrderedBattle(ENV_PRESETS[info["env"]](), "blue", info["mechs"], info["opponent"], info["seed"])
