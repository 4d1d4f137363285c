"""The scripted commanders: five skill tiers that read only observations, walk to the zone, hold it and fight for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.data import Composite, Unbounded

from echelon.agents import teamwork
from echelon.agents.gunnery import Fire, Gunner, loadouts
from echelon.agents.steering import Helm
from echelon.agents.teamwork import Radio, Spotter
from echelon.agents.tiers import STYLES, TIERS, Tier
from echelon.agents.view import Target, View, aim_at, hull_table, look, sign
from echelon.agents.wayfinding import Wayfinder
from echelon.env.observation import layout
from echelon.rules import versions
from echelon.rules.actions import CONTROLS, PREFERENCES, TRIGGER_COLUMNS, Act
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.geometry import length, unit

TURN_GAIN = 4.0
STUCK_AFTER_S = 0.75
"""Seconds without progress before a mech sidesteps with its jets on."""
SIDESTEP_S = 1.0
HEADWAY = 0.2
"""Progress means a speed above this share of the top speed."""
MEMORY = {"stuck_s": 1, "target_at": 2, "jammed_s": 1, "shots_due": 1}
"""Fields of a mech's memory, with their widths."""


class Heuristic(TensorDictModuleBase):
    """The scripted commander of a team. The commander's decisions are deterministic, and it decides for all battles of
    a batch at once.

    Args:
        config: config of the battle; provides the map's size and the decision interval.
        tier: a name in `TIERS`, or a custom `Tier`.
        weapon_use: share of the decisions in which triggers are allowed, a handicap for training opponents.
    """

    size: Tensor
    top_speed: Tensor
    emits: Tensor

    def __init__(self, config: EnvConfig, tier: str | Tier = "normal", weapon_use: float = 1.0) -> None:
        super().__init__()
        require(isinstance(tier, Tier) or tier in TIERS, "a heuristic's tier", f"one of {tuple(TIERS)}", tier)
        require(0 <= weapon_use <= 1, "a heuristic's weapon_use", "0..1", weapon_use)
        self.tier = tier if isinstance(tier, Tier) else TIERS[tier]
        self.weapon_use: float | Tensor = weapon_use
        """A number, or a tensor `[B, A, 1]`."""
        self.longest_vox = float(config.world.longest_side)
        self.decision_s = config.rules.decision_s
        self.comm_dim = config.comm_dim
        self.in_keys = [("observation", name) for name in ("ego", "contacts", "squad", "comms", "local_map")]
        self.in_keys += [("memory", name) for name in MEMORY]
        self.out_keys = ["action", *(("next", "memory", name) for name in MEMORY)]
        size = torch.tensor([config.world.size_x, config.world.size_y], dtype=torch.float32, device="cpu")
        self.register_buffer("size", size, persistent=False)
        armed = loadouts(config)
        top_speed = hull_table({kind: loadout.hull.max_speed_vox_per_s for kind, loadout in armed.items()})
        self.register_buffer("top_speed", top_speed, persistent=False)
        emits = hull_table({kind: float(loadout.hull.ewar) for kind, loadout in armed.items()})
        self.register_buffer("emits", emits, persistent=False)
        self.radio = Radio(size, self.comm_dim)
        self.spotter = Spotter(self.tier, armed, config)
        self.gunner = Gunner(self.tier, armed, config)
        self.helm = Helm(self.tier)
        self.ways = Wayfinder(armed)

    def memory_spec(self) -> Composite:
        """Return the spec of a mech's memory.

        The memory contains the seconds without progress, the last target's position, the seconds until jamming counts
        as over, and the sum of `weapon_use` that is not yet spent on shots.
        """
        return Composite(
            {name: Unbounded((width,), device="cpu", dtype=torch.float32) for name, width in MEMORY.items()}
        )

    def graph_key(self) -> Hashable:
        """Return the handicap `weapon_use` if it is a number, or None if it is a tensor."""
        return None if isinstance(self.weapon_use, Tensor) else self.weapon_use

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide the actions of `[..., A]` mechs, with any batch dimensions before A."""
        memory = {name: team.get(("memory", name)) for name in MEMORY}
        view = look(team, self.size, self.longest_vox)
        calls = self.radio.decode_messages(team.get(("observation", "comms")))
        target = aim_at(view.contacts, self.spotter.pick(view, calls, memory["target_at"]))

        direction, stuck_s = self.steer(view, target, memory["stuck_s"].squeeze(-1))
        jammed_s = teamwork.jammed_for(view, memory["jammed_s"].squeeze(-1), self.decision_s)
        target_at = teamwork.on_map(view, target.offset[..., None, :2]).squeeze(-2) * target.exists[..., None]
        shots_due = memory["shots_due"] + self.weapon_use
        may_fire = shots_due.squeeze(-1) >= 1

        action = self.walk(view, target, direction, jets=stuck_s > STUCK_AFTER_S)
        self.pull(action, self.gunner(view, target), self.spotter.smokes(view, target), may_fire)
        self.signal(action, view, target, target_at, jammed_s)
        team.set("action", action)
        outputs = {
            "stuck_s": stuck_s[..., None],
            "target_at": target_at,
            "jammed_s": jammed_s[..., None],
            "shots_due": shots_due - may_fire[..., None].float(),
        }
        for name, value in outputs.items():
            team.set(("next", "memory", name), value)
        return team

    def steer(self, view: View, target: Target, stuck_s: Tensor) -> tuple[Tensor, Tensor]:
        """Return the walk direction `[B, A, 2]` and the seconds without progress `[B, A]`."""
        direction = self.helm(view, target)
        stuck_s = self.count_stuck(view, direction, stuck_s)
        if self.tier.finds_ways:
            direction = self.ways(view, direction)
        sidesteps = stuck_s > STUCK_AFTER_S
        to_the_left = torch.stack((-direction[..., 1], direction[..., 0]), -1)
        return torch.where(sidesteps[..., None], to_the_left, direction), stuck_s

    def count_stuck(self, view: View, direction: Tensor, stuck_s: Tensor) -> Tensor:
        """Return the seconds without progress, `[B, A]`; the count restarts after a sidestep."""
        if not self.tier.works_free:
            return torch.zeros_like(stuck_s)
        no_headway = (length(direction) > 0) & (view.speed < HEADWAY * view.of_hull(self.top_speed))
        sidestepping = stuck_s > STUCK_AFTER_S
        counted = torch.where(no_headway | sidestepping, stuck_s + self.decision_s, 0.0)
        return torch.where(counted > STUCK_AFTER_S + SIDESTEP_S, 0.0, counted)

    def walk(self, view: View, target: Target, direction: Tensor, jets: Tensor) -> Tensor:
        """Return actions `[B, A, D]` that walk along `direction [B, A, 2]`, face the target and prefer its contact
        slot."""
        faces_target = target.exists & self.tier.faces_target
        face = torch.where(faces_target[..., None], target.offset[..., :2], view.path)
        ahead, left = unit(face).unbind(-1)
        # If the target is behind the mech, the sine of its angle is small, so the mech turns at its full rate instead.
        turn = torch.where(ahead < 0, sign(left >= 0), (TURN_GAIN * left).clamp(-1, 1))
        action = ahead.new_zeros((*ahead.shape, layout.action_width(self.comm_dim)))
        action[..., Act.FORWARD : Act.VERTICAL] = direction.clamp(-1, 1)
        action[..., Act.VERTICAL] = jets.float()
        action[..., Act.YAW_RATE] = turn
        slots = torch.arange(PREFERENCES, device=ahead.device)
        action[..., Act.PREFER_0 : Act.SORT_CLOSEST] = (target.slot[..., None] == slots).float()
        action[..., Act.SORT_CLOSEST].fill_(1.0)
        return action

    def pull(self, action: Tensor, fire: Fire, smokes: Tensor, may_fire: Tensor) -> None:
        """Write the triggers and the vent command into `action [B, A, D]`."""
        presses = [*zip(self.gunner.triggers, fire.guns.unbind(-1), strict=True)]
        presses += zip(self.spotter.triggers, smokes.unbind(-1), strict=True)
        for trigger, column in TRIGGER_COLUMNS.items():
            fires = [sign(pressed & may_fire) for t, pressed in presses if t == trigger]
            if fires:
                action[..., column] = torch.stack(fires).amax(0)
        action[..., Act.VENT] = sign(fire.vents)

    def signal(self, action: Tensor, view: View, target: Target, target_at: Tensor, jammed_s: Tensor) -> None:
        """Write the jamming command and the message to the pack into `action [B, A, D]`."""
        if self.tier.jams:
            emits = teamwork.emit(view.contacts, jammed_s, self.tier.screens)
            action[..., Act.SECONDARY] = torch.where(view.of_hull(self.emits) > 0, emits, action[..., Act.SECONDARY])
        if self.tier.talks:
            action[..., CONTROLS:] = self.radio.say(target, target_at)


def is_scripted(name: str) -> bool:
    """Return whether a commander's full name is that of a scripted commander, `heuristic:TIER`."""
    return name.partition(":")[0] == "heuristic"


def full_name(name: str) -> str:
    """Return the full name of a scripted commander; other names are returned unchanged.

    `TIER` becomes `heuristic:TIER`, and `heuristic` becomes `heuristic:normal`. A suffix `@VERSION` is removed if it
    names the current rules version.
    """
    kind, colon, tier = name.partition(":")
    if is_scripted(name):
        return f"{kind}:{tier.removesuffix(f'@{versions.RULES_VERSION}') if colon else 'normal'}"
    return f"heuristic:{name}" if name in TIERS else name


def scripted(name: str, config: EnvConfig, device: torch.device) -> Heuristic:
    """Build the scripted commander of any name that `full_name` accepts."""
    full = full_name(name)
    tier, _, rules = full.partition(":")[2].partition("@")
    require(is_scripted(full) and tier in TIERS, "a scripted commander", f"heuristic:{'|'.join(TIERS)}", name)
    limit = f"of rules {versions.RULES_VERSION} of this Echelon, heuristic:{tier}"
    require(not rules, "a scripted commander", limit, name)
    return Heuristic(config, tier).to(device)


def style_factory(name: str) -> Callable[[EnvConfig], Heuristic]:
    """Return a function that builds the scripted commander of the style `name` in `STYLES` from a battle's config."""
    require(name in STYLES, "a style", f"one of {', '.join(STYLES)}", name)
    return lambda config: Heuristic(config, STYLES[name])
