"""The tables of settings for `sweep.py`. Each row is a set of flags of `pipelines/train.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from echelon.env.tasks.task import latest


@dataclass(frozen=True)
class Table:
    """Settings compared with one budget."""

    name: str
    about: str
    """Heading: the question in words."""
    task: str
    """Task of the evaluation: its opponents, on maps that training does not use."""
    agent_steps: int
    seeds: tuple[int, ...]
    battles: int
    """Battles against each opponent."""
    flags: tuple[str, ...]
    """Flags of all rows."""
    rows: Mapping[str, tuple[str, ...]]
    """Additional flags of each row, keyed by row name."""

    def flags_of(self, row: str, seed: int) -> list[str]:
        """Return the flags of a run."""
        return [*self.flags, *self.rows[row], "--total-agent-steps", str(self.agent_steps), "--seed", str(seed)]


SMALL, STANDARD = latest("small-5v5"), latest("standard-10v10")
NO_ENTROPY = ("--ppo.entropy-coef.first", "0", "--ppo.entropy-coef.last", "0")
QUICK = ("--preset", "quick", "--device", "cpu")
AS_IT_IS: Mapping[str, tuple[str, ...]] = {"preset": ()}

TABLES = {
    table.name: table
    for table in (
        Table(
            "quick",
            "results of the preset quick",
            SMALL,
            2_000_000,
            (0, 1, 2, 3, 4),
            256,
            QUICK,
            {
                "lambda 0.9, the preset": ("--ppo.gae-lambda", "0.9"),
                "lambda 0.97": ("--ppo.gae-lambda", "0.97"),
                "lambda 0.8": ("--ppo.gae-lambda", "0.8"),
            },
        ),
        Table(
            "screen",
            "effect of each default of the preset quick, with lambda 0.97",
            SMALL,
            1_000_000,
            (0, 1),
            128,
            (*QUICK, "--ppo.gae-lambda", "0.97"),
            {
                **AS_IT_IS,
                "local critic": ("--model.critic", "local"),
                "evaluates with training noise": ("--model.eval-std-scale", "1.0"),
                "starts with trivial": ("--curriculum.opponents", "trivial", "easy", "normal", "hard"),
                "70 % per stage": ("--curriculum.advance-at-win-rate", "0.7"),
                "only easy": ("--opponent", "heuristic:easy"),
                "only hard": ("--opponent", "heuristic:hard"),
                "initial deviation 0.3": ("--model.initial-std", "0.3"),
                "initial deviation 1": ("--model.initial-std", "1.0"),
                "64 battles": ("--num-envs", "64"),
                "clip 0.4": ("--ppo.clip", "0.4", "--ppo.target-kl", "0"),
            },
        ),
        Table(
            "factors",
            "effect of each default of the preset quick, with its lambda 0.9",
            SMALL,
            1_000_000,
            (0, 1),
            128,
            QUICK,
            {
                **AS_IT_IS,
                "rate 4e-3": ("--ppo.learning-rate.first", "4e-3"),
                "rate 1e-3": ("--ppo.learning-rate.first", "1e-3"),
                "memory GRU": ("--model", "gru"),
                "no memory": ("--model", "mlp"),
                "width 128": ("--model.hidden", "128"),
                "discount 0.99": ("--env.reward.gamma", "0.99"),
                "2 epochs": ("--ppo.epochs", "2"),
                "4 minibatches": ("--ppo.minibatches", "4"),
                "KL divergence 0.06": ("--ppo.target-kl", "0.06"),
                "no entropy bonus": NO_ENTROPY,
                "25 % self-play": ("--self-share", "0.25"),
                "25 % snapshots": ("--snapshot-opponent-share", "0.25"),
                "only terminal reward at the end": (
                    "--curriculum.fight.last",
                    "0",
                    "--curriculum.approach.last",
                    "0",
                ),
                "local critic": ("--model.critic", "local"),
                "only hard": ("--opponent", "heuristic:hard"),
            },
        ),
        Table(
            "confirm",
            "the best of these at two million steps",
            SMALL,
            2_000_000,
            (0, 1, 2, 3, 4),
            256,
            QUICK,
            {
                "memory GRU": ("--model", "gru"),
                "width 128": ("--model.hidden", "128"),
                "rate 4e-3": ("--ppo.learning-rate.first", "4e-3"),
                "no entropy bonus": NO_ENTROPY,
                "no entropy bonus, rate 4e-3": (*NO_ENTROPY, "--ppo.learning-rate.first", "4e-3"),
                "the same, memory GRU": (*NO_ENTROPY, "--ppo.learning-rate.first", "4e-3", "--model", "gru"),
            },
        ),
        Table(
            "levels",
            "effect of prioritised level replay over the maps on the preset quick",
            SMALL,
            1_000_000,
            (0, 1, 2),
            128,
            QUICK,
            {"uniform maps": (), "level replay": ("--curriculum.map-sampling", "plr")},
        ),
        Table(
            "standard",
            "results of the preset standard with 256 battles",
            STANDARD,
            10_000_000,
            (0, 1, 2),
            256,
            ("--preset", "standard", "--device", "cpu", "--num-envs", "256"),
            {
                "lambda 0.9, the preset": ("--ppo.gae-lambda", "0.9"),
                "lambda 0.97": ("--ppo.gae-lambda", "0.97"),
            },
        ),
    )
}
