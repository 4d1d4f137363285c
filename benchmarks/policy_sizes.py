"""Print the sizes of the policies that ship, a row of docs/POLICIES.md each: parameters and operations, from the files.

python benchmarks/policy_sizes.py
"""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from echelon.learn.checkpoint.shipped import shipped_checkpoint, trained
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.export import MechStep
from echelon.rules.config import EnvConfig

LICENCE = "MIT"
"""Licence of the package and its weights."""


def flops_of(policy: ActorCritic, env: EnvConfig) -> int:
    """Return the FLOPs of matrix products in a decision of one mech, as torch counts them. This is the count for two
    mechs less the count for one, so constant work is excluded. It is that of the dense form, padding included, because
    torch does not count the loops of a CPU."""
    step, counts = MechStep(policy, env, "mean"), []
    inputs = [tensor.to("meta") for tensor in step.inputs.values()]
    step.to("meta")
    for mechs in (1, 2):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            step(*(torch.stack([tensor] * mechs) for tensor in inputs))
        counts.append(counter.get_total_flops())
    return counts[1] - counts[0]


def table() -> str:
    """Return the Markdown table; policies of one size share a row."""
    lines = ["| `trained:` | model | parameters that decide | of the critic | FLOPs a decision of a mech | licence |"]
    lines.append("|---|---|---|---|---|---|")
    names: dict[str, list[str]] = {}
    for name in trained():
        checkpoint = shipped_checkpoint(name)
        policy = checkpoint.policy()
        actor = sum(parameter.numel() for parameter in policy.network.parameters())
        critic, flops = policy.num_parameters() - actor, flops_of(policy, checkpoint.env)
        model = checkpoint.metadata["model"]
        cells = f"{model['kind']} {model['hidden']} | {actor:,} | {critic:,} | {flops:,} | {LICENCE} |"
        names.setdefault(cells, []).append(f"`{name}`")
    return "\n".join([*lines, *(f"| {', '.join(group)} | {cells}" for cells, group in names.items())])


if __name__ == "__main__":
    print(table())
