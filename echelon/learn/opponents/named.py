"""Opponents given by commander name. A battle keeps its commander; the commander of new battles can change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.utils import expand_as_right
from torch import Tensor
from torchrl.data import Composite, Unbounded

from echelon.agents.compiled import compiled_commander
from echelon.agents.heuristic import Heuristic, full_name, is_scripted, scripted
from echelon.agents.scenario_opponents import ScenarioOpponents
from echelon.agents.team_policy import TeamPolicy, check_evaluation_mode, graph_key_of, is_policy, memory_spec_of
from echelon.agents.tiers import TIERS
from echelon.learn.checkpoint.provenance import name_entry, weight_hash
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.assignment import SLOT, current_slot
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.files import expect
from echelon.runtime.json_checks import integer, number, of_type
from echelon.runtime.tensor_files import StateDict

OpponentOf = Callable[[str, EnvConfig, torch.device], TeamPolicy]
"""Builds the policy of a commander name for a config on a device; `scripted` supports only scripted commanders."""
WEAPON_USE = "weapon_use"
NUM_SLOTS = 2
"""Slots for the commander of new battles and for the previous one, until its battles end."""


class NamedOpponents:
    """A named commander that can change from battle to battle, and the weapon use (the fraction of decisions in which
    it may fire) of a scripted commander.

    All scripted tiers share one set of memory entries, next to the slot and the weapon use of the battle. Every other
    commander has its own entry, `commander_I` for the I-th of `names`, so commanders with different memory can
    alternate in one environment.

    Args:
        names: all commanders that may be used, as `heuristic:TIER` or a name for `opponent_of`.
        name, weapon_use: commander of the first battles, one of `names`, and its weapon use as in `Heuristic`; only
            scripted commanders have a weapon use.
        compiled: whether commanders run through torch.compile, see `compiled_commander`.
    """

    def __init__(
        self,
        env: EnvConfig,
        names: Sequence[str],
        name: str,
        weapon_use: float,
        device: torch.device,
        opponent_of: OpponentOf = scripted,
        compiled: bool = False,
    ) -> None:
        self.env, self.device, self.opponent_of, self.compiled = env, device, opponent_of, compiled
        self.names = tuple(dict.fromkeys(names))
        self.commanders = {key: opponent_of(key, env, device) for key in self.names}
        for key, commander in self.commanders.items():
            require(is_policy(commander), f"opponent_of result for {key!r}", "a policy of a team", commander)
            check_evaluation_mode(f"opponent_of result for {key!r}", commander)
        specs = {key: memory_spec_of(commander) for key, commander in self.commanders.items() if not is_scripted(key)}
        self.specs = {key: spec for key, spec in specs.items() if len(spec.keys()) > 0}
        self.calls: dict[str, Callable[[TensorDictBase], TensorDictBase]] = {}
        """Callable of each commander used so far: the commander or its compiled graph."""
        self.identities: dict[str, set[str]] = {}
        """Provenance entry of each commander used so far."""
        self.blocks, self.num_slots = 1, NUM_SLOTS
        self.slots = [name, name]
        """Name of the commander in each slot."""
        self._share = torch.zeros((), dtype=torch.float32, device=device)
        self.weapon_use = weapon_use
        self.newest = 0
        self.old_is_read = False
        self.requested = (name, weapon_use)

    @property
    def weapon_use(self) -> float:
        return self._weapon_use

    @weapon_use.setter
    def weapon_use(self, weapon_use: float) -> None:
        self._weapon_use = weapon_use
        # Update in place, because a CUDA graph reads this tensor.
        self._share.fill_(weapon_use)

    def graph_key(self) -> Hashable | None:
        """Key under which a CUDA graph is reused: the names of the commanders in use, and their own keys."""
        slots = self.slots if self.old_is_read else [self.slots[self.newest]]
        # The key of a scripted commander is its name: the graph reads the weapon use from a tensor.
        keys = [name if is_scripted(name) else graph_key_of(self._commander(name)) for name in slots]
        return None if None in keys else (self.newest, *slots, *keys)

    @property
    def is_pure(self) -> bool:
        """Whether all current commanders are scripted; scripted commanders draw no random numbers."""
        return all(map(is_scripted, self.slots))

    def memory_spec(self) -> Composite:
        """Spec with slot and weapon use of the battle, and the memory of every commander."""
        tier = next((name for name in self.names if is_scripted(name)), None)
        shared = {} if tier is None else dict(memory_spec_of(self.commanders[tier]).items())
        specs = {self._entry(name): spec for name, spec in self.specs.items()}
        return Composite(
            **dict.fromkeys((SLOT, WEAPON_USE), Unbounded((1,), device="cpu", dtype=torch.float32)), **shared, **specs
        )

    def _entry(self, name: str) -> str:
        return f"commander_{self.names.index(name)}"

    def opponents_seen(self) -> set[str]:
        """Return the provenance entries of the current commanders: names, or the sha256 of weights."""
        return {entry for name in self.slots for entry in self._identities(name)}

    def _identities(self, name: str) -> set[str]:
        if name not in self.identities:
            policy = self._commander(name)
            if isinstance(policy, ScenarioOpponents):
                self.identities[name] = {name, *policy.commanders}
            elif isinstance(policy, ActorCritic):
                self.identities[name] = {weight_hash(policy.state_dict())}
            else:
                self.identities[name] = {name_entry(name)}
        return self.identities[name]

    def description(self) -> dict[str, Any]:
        """Return what must be equal, besides the config, to resume running battles: all commanders' names, unless all
        are scripted.
        """
        return {} if all(map(is_scripted, self.names)) else {"commanders": list(self.names)}

    def set_opponent(self, name: str, weapon_use: float) -> None:
        """Request a commander and weapon use for new battles; both apply as soon as a slot is free."""
        self.requested = (name, weapon_use)
        self._update_slots()

    def refresh(self, readers: list[list[int]]) -> None:
        """Assign the requested commander to a free slot. Call this between rollouts.

        Args:
            readers: number of battles that use each slot, `[1, 2]`, see `count_readers`.
        """
        self.old_is_read = readers[0][1 - self.newest] > 0
        self._update_slots()

    def _update_slots(self) -> None:
        name, weapon_use = self.requested
        if name == self.slots[self.newest]:
            self.weapon_use = weapon_use
        elif not self.old_is_read:
            self.newest = 1 - self.newest
            self.slots[self.newest] = name
            self.weapon_use = weapon_use
            self.old_is_read = True

    def state_dict(self) -> StateDict:
        name, weapon_use = self.requested
        facts = {"tiers": list(self.slots), "newest": self.newest, "old_is_read": self.old_is_read}
        shares = {"weapon_use": float(self._weapon_use), "next_weapon_use": float(weapon_use)}
        return StateDict(facts={**facts, **shares, "next_tier": name})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the state from a checkpoint. The names in the checkpoint must be among the run's names; nothing is
        imported.
        """
        stored = [*state_dict.row("tiers", of_type(str), NUM_SLOTS), state_dict.fact("next_tier", str)]
        names = [full_name(name) for name in stored]
        shares = [float(state_dict.fact(key, number(0, 1))) for key in ("weapon_use", "next_weapon_use")]
        known = set(self.names)
        if any(map(is_scripted, known)):
            known |= set(map(full_name, TIERS))
        expect(set(names) <= known, f"{state_dict.name}.tiers", f"of {', '.join(sorted(known))}", stored)
        self.slots, self.newest = names[:NUM_SLOTS], state_dict.fact("newest", integer(0, NUM_SLOTS - 1))
        self.old_is_read = state_dict.fact("old_is_read", bool)
        self.weapon_use, self.requested = shares[0], (names[NUM_SLOTS], shares[1])

    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        begins = team.get(("memory", SLOT)) == 0
        slot = current_slot(team.get(("memory", SLOT)), self.newest)
        weapon_use = torch.where(begins, self._share, team.get(("memory", WEAPON_USE)))
        newest = self._act(self.newest, team, weapon_use)
        if self.old_is_read:
            older = self._act(1 - self.newest, team, weapon_use)
            is_new = slot[..., 0] == self.newest + 1
            newest = newest.apply(lambda new, old: torch.where(expand_as_right(is_new, new), new, old), older)
        team.set("action", newest.get("action"))
        team.set(("next", "memory"), newest.get("memory"))
        return team.set(("next", "memory", SLOT), slot).set(("next", "memory", WEAPON_USE), weapon_use)

    def _act(self, slot: int, team: TensorDictBase, weapon_use: Tensor) -> TensorDictBase:
        """Return `action` and the next `memory` of all commanders, batch `[B, A]`, as if the commander in `slot` played
        every battle.
        """
        name, memory = self.slots[slot], team.get("memory").copy()
        commander = self._commander(name)
        if isinstance(commander, Heuristic):
            commander.weapon_use = weapon_use
        if is_scripted(name):
            entry = memory
        elif name in self.specs:
            entry = memory.get(self._entry(name))
        else:
            entry = TensorDict({}, team.batch_size, device=team.device)
        if name not in self.calls:
            self.calls[name] = compiled_commander(commander, self.device) if self.compiled else commander
        output = self.calls[name](team.copy().set("memory", entry.copy()))
        if isinstance(commander, Heuristic):
            # Drop the tensor `weapon_use`: it is in the CUDA graph's memory, which must not be read later.
            commander.weapon_use = 1.0
        next_memory = output.get(("next", "memory"), None)
        if next_memory is not None:
            entry.update(next_memory.select(*entry.keys(include_nested=True, leaves_only=True), strict=False))
        return TensorDict({"action": output.get("action"), "memory": memory}, team.batch_size, device=team.device)

    def _commander(self, name: str) -> TeamPolicy:
        """Return the policy called `name`, which in a checkpoint may be a scripted tier outside the run's names."""
        if name not in self.commanders:
            self.commanders[name] = self.opponent_of(name, self.env, self.device)
        return self.commanders[name]
