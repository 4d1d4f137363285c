"""Train a language model to command, with GRPO of TRL: its tools play a battle.

python tests/examples/grpo.py MODEL
"""

import sys

from echelon import EnvConfig
from echelon.integrations.openenv import CommandAction, CommandEnvironment


class Battle:
    """An environment of TRL: `reset` begins a battle, public methods are tools."""

    def reset(self, **kwargs) -> str:
        self.env, self.reward = CommandEnvironment(EnvConfig.small(), branches=8), 0.0
        first = self.env.reset(seed=kwargs["seed"])
        return f"{first.instructions}\n{first.report}"

    def order(self, orders: str) -> str:
        """Give orders and play until the next report.

        Args:
            orders: A JSON object with orders.
        """
        after = self.env.step(CommandAction(text=orders))
        self.reward += after.reward
        return "The battle is over." if after.done else after.report


def reward(environments: list[Battle], **kwargs) -> list[float]:
    return [battle.reward for battle in environments]


def main(model: str, prompts: int = 512) -> None:
    """Train a model."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    message = {"role": "user", "content": "Command the battle."}
    rows = [{"prompt": [message], "seed": seed} for seed in range(prompts)]
    GRPOTrainer(
        model=model,
        reward_funcs=reward,
        train_dataset=Dataset.from_list(rows),
        environment_factory=Battle,
        args=GRPOConfig(num_generations=8, max_tool_calling_iterations=20),
    ).train()


if __name__ == "__main__":
    main(sys.argv[1])
