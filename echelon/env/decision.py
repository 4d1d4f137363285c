"""One decision of a block of battles: from orders to state, observation and reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from echelon.env import outcome, reward
from echelon.env.objectives import goals, zone
from echelon.env.observation.build import Observation, observe
from echelon.env.outcome import Ending
from echelon.env.reward import RewardTerm
from echelon.rules.actions import Orders
from echelon.sim.model import SimModel
from echelon.state import State, Terrain


@dataclass(frozen=True)
class DecisionResult:
    """Result of a decision."""

    state: State
    streams: Observation
    """Observation streams of all mechs, `[B, N, ...]` each."""
    reward_terms: Tensor
    """[B, N, K] float32 weighted reward terms, K terms."""
    flags: dict[str, Tensor]
    """`done`, `terminated`, `truncated`, [B, 1] bool each."""
    outcome: dict[str, Tensor]
    """Outcomes by name, [B, ...] each; for running battles, the winner is -1 and all else 0."""


Statistics = Callable[[State, Tensor, SimModel], Tensor]
"""`outcome.final_statistics`, or the same function in loops."""


def score_observe_reward(
    before: State,
    after: State,
    orders: Orders,
    sim_model: SimModel,
    out: Observation | None = None,
) -> DecisionResult:
    """Score objectives, observe, judge and compute rewards, after the substeps; `out` as in `observe`."""
    state, streams = observe(goals.score_goals(zone.score(after, sim_model), sim_model), orders, sim_model, out)
    return judge_and_reward(before, state, streams, sim_model)


def judge_and_reward(
    before: State,
    after: State,
    streams: Observation,
    sim_model: SimModel,
    final_statistics: Statistics = outcome.final_statistics,
) -> DecisionResult:
    """Judge battles and compute rewards, after objectives were scored."""
    after = outcome.update_last_event(before, after, sim_model)
    ending = outcome.judge(after, sim_model)
    rewards = reward.weighted(reward.terms(before, after, ending, sim_model), sim_model.config.reward, sim_model)

    flags, result = outcome_tensors(after, ending, sim_model, final_statistics)
    return DecisionResult(after, streams, rewards, flags, result)


def add_extra_reward_terms(
    before: State, played: DecisionResult, sim_model: SimModel, extra: Mapping[str, RewardTerm]
) -> DecisionResult:
    """Append the user's reward terms to the reward terms of a decision, outside of graphs."""
    if not extra:
        return played
    flags, ended = played.flags, played.outcome
    ending = Ending(
        *(flags[name][:, 0] for name in ("terminated", "truncated")),
        *(ended[name][:, 0] for name in ("winner", "reason")),
    )
    named = reward.extra_terms(before, played.state, ending, sim_model, extra)
    paid = reward.weighted(named, sim_model.config.reward, sim_model, extra)
    return replace(played, reward_terms=torch.cat((played.reward_terms, paid), -1))


def outcome_tensors(
    after: State, ending: Ending, sim_model: SimModel, final_statistics: Statistics = outcome.final_statistics
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return `DecisionResult.flags` and `DecisionResult.outcome` of judged battles."""
    done = ending.done[:, None]
    decisions = after.tick[:, None] // sim_model.rules.decision_repeat
    result = {
        "winner": ending.winner[:, None],
        "reason": ending.reason[:, None],
        "score": after.score * done,
        "decisions": decisions * done,
        "idle_s": outcome.idle_s(after, sim_model)[:, None] * done,
        "stats": final_statistics(after, ending.done, sim_model),
    }
    flags = {"done": done, "terminated": ending.terminated[:, None], "truncated": ending.truncated[:, None]}
    return flags, result


def concat_blocks(parts: list[DecisionResult], terrain: Terrain) -> DecisionResult:
    """Concatenate the results of consecutive blocks; `terrain` is that of all blocks, which they changed in place."""
    if len(parts) == 1:
        return parts[0]
    states = [block.state for block in parts]
    names = [name for name in State.__dataclass_fields__ if name != "terrain"]
    leaves = {name: torch.cat([getattr(state, name) for state in states]) for name in names}

    def each(name: str) -> dict[str, Tensor]:
        return {key: torch.cat([getattr(block, name)[key] for block in parts]) for key in getattr(parts[0], name)}

    return DecisionResult(
        state=State(**leaves, terrain=terrain, batch_size=leaves["seed"].shape),
        streams=each("streams"),
        reward_terms=torch.cat([block.reward_terms for block in parts]),
        flags=each("flags"),
        outcome=each("outcome"),
    )
