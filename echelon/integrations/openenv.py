"""An OpenEnv server of commanded battles: an action is a language model's reply, an observation a report in words.

>>> app = server_app(EnvConfig.small())          # then: uvicorn module:app
>>> client = GenericEnvClient("http://localhost:8000")
"""

from __future__ import annotations

from typing import Any

from echelon.arena.ordered_battle import OrderedBattle
from echelon.command.chat_prompt import system_text
from echelon.command.pack_policy import MECHS
from echelon.command.report import WINNERS
from echelon.integrations import missing
from echelon.rules.config import EnvConfig

try:
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
    from pydantic import Field
except ModuleNotFoundError as error:
    raise missing("openenv", error) from None


class CommandAction(Action):
    """An action: the reply of a language model."""

    text: str = Field(description='Reply of the model, such as {"orders": [{"pack": 0, "kind": "hold"}]}')


class CommandObservation(Observation):
    """Observation: a report. `reward` is the reward for the last reply."""

    report: str = Field(default="", description="Report in words; empty after the end")
    instructions: str = Field(default="", description="System prompt; after a reset")
    refused: list[str] = Field(default_factory=list, description="One error line for each refused order")


class CommandState(State):
    """State of a battle."""

    seed: int = Field(default=0, description="Seed of the battle")
    won_by: str | None = Field(default=None, description=f"{', '.join(WINNERS)}; null while the battle runs")


class CommandEnvironment(Environment[CommandAction, CommandObservation, CommandState]):
    """A battle in which a language model's replies command blue's packs.

    The last step's reward includes 1 for a win, 0.5 for a draw and 0 for a loss.

    Args:
        config: config of the battles.
        mechs, opponent: names of the policies of the commanded mechs and of the other team; both must ship with
            Echelon.
        branches: if above 0, each reply also gets the reward `OrderedBattle.advantage`, estimated with this number of
            branches.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self, config: EnvConfig = EnvConfig.small(), mechs: str = MECHS, opponent: str = MECHS, branches: int = 0
    ) -> None:
        super().__init__()
        self.config, self.mechs, self.opponent, self.branches = config, mechs, opponent, branches
        self._battle: OrderedBattle | None = None
        self._state = CommandState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> CommandObservation:
        """Start the battle of a seed; the default is the last seed plus 1."""
        seed = self._state.seed + 1 if seed is None else seed
        self._battle = OrderedBattle(self.config, "blue", self.mechs, self.opponent, seed)
        self._state = CommandState(episode_id=episode_id, seed=seed)
        return CommandObservation(report=self._battle.words(), instructions=system_text(self._battle.seat, None))

    def step(self, action: CommandAction, timeout_s: float | None = None, **kwargs: Any) -> CommandObservation:
        """Apply the orders in a reply, and play until the next report."""
        if self._battle is None:
            self.reset()
        battle = self._battle
        assert battle is not None
        reward = battle.advantage(action.text, self.branches) if self.branches else 0.0
        refused = battle.reply(action.text)
        battle.step()
        self._state.step_count += 1
        self._state.won_by = battle.winner
        is_over = battle.winner is not None
        report = "" if is_over else battle.words()
        return CommandObservation(report=report, refused=refused, done=is_over, reward=reward + battle.points)

    @property
    def state(self) -> CommandState:
        """State of the battle."""
        return self._state


def server_app(config: EnvConfig = EnvConfig.small(), sessions: int = 16, **settings: Any) -> Any:
    """Return the FastAPI application that serves the environment. Each session has a battle of its own.

    Args:
        config: config of the battles.
        sessions: maximum number of concurrent sessions.
        settings: further arguments of `CommandEnvironment`.
    """
    return create_app(
        lambda: CommandEnvironment(config, **settings),
        CommandAction,
        CommandObservation,
        env_name="echelon",
        max_concurrent_envs=sessions,
    )
