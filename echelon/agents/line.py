"""A commander that plays a line: a list of scripted steps, each with conditions, for every mech of a set piece. The
commander uses observations only, has no memory, and copies nothing to the host.

The commander evaluates all steps of all mechs at once; each mech executes its first step whose conditions are true.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torch.nn.functional import pad
from torchrl.data import Composite

from echelon.agents.view import Target, View, aim_at, column, float_table, look, sign
from echelon.env.observation import layout
from echelon.rules.actions import PREFERENCES, TRIGGER_COLUMNS, Act
from echelon.rules.catalog import Hull, Trigger
from echelon.rules.config import EnvConfig
from echelon.runtime import exact
from echelon.runtime.errors import require
from echelon.runtime.geometry import TINY, length, to_body, unit
from echelon.scenarios.piece import ANY_HULL, FAR_VOX, Line, Piece, Step, find_piece, weapons_on

AIMED_RAD = 0.12
"""Largest bearing at which a mech counts as facing its target."""
POINT_RAD = 0.03
"""The same for a point."""
EMITS = {"": -1.0, "ecm": 0.25, "eccm": 1.0}
"""Values of the secondary trigger of a mech with an emitter."""
TARGET_IS = {"": 0, "known": 1, "clear": 2, "painted": 3}
NO_MATCH = -2 * FAR_VOX
"""Score of contacts that do not match, below that of any contact."""
SOON_S = 0.01
"""Time tolerance: far above a float32 clock's error, far below a decision."""
WHOLE = (0.0, 0.0, FAR_VOX)
"""A circle that contains the whole map."""
Fact = Callable[[Step], float | Sequence[float]]
FACTS: dict[str, Fact] = {
    "from_s": lambda step: step.from_s,
    "until_s": lambda step: step.until_s,
    "heat_above": lambda step: step.heat_above,
    "heat_below": lambda step: step.heat_below,
    "range_above": lambda step: step.range_above,
    "range_below": lambda step: step.range_below,
    "target_is": lambda step: TARGET_IS[step.target_is],
    "inside": lambda step: step.inside or WHOLE,
    "target": lambda step: [float(step.target in (ANY_HULL, hull.name.lower())) for hull in Hull],
    "walks": lambda step: bool(step.to),
    "to": lambda step: step.to or (0.0, 0.0),
    "keep": lambda step: step.keep,
    "rear": lambda step: step.rear,
    "turns": lambda step: bool(step.face),
    "face": lambda step: step.face or (0.0, 0.0),
    "vent": lambda step: step.vent,
    "jets": lambda step: step.jets,
    "emit": lambda step: EMITS[step.emit],
}
"""The numeric fields of a step, except its weapons."""


class LineCommander(TensorDictModuleBase):
    """A team policy that plays scripted lines: mech i follows the steps of `lines[i]`; mechs without steps stand still.

    Args:
        lines: the steps of each mech.
        hulls: the hull of each mech.
        config: config of the battle.
    """

    size: Tensor

    def __init__(self, lines: Sequence[Line], hulls: Sequence[str], config: EnvConfig) -> None:
        super().__init__()
        self.in_keys = [("observation", name) for name in ("ego", "contacts", "squad", "comms", "local_map")]
        self.out_keys = ["action"]
        self.longest_vox, self.comm_dim = float(config.world.longest_side), config.comm_dim
        self.longest_s, self.decision_s = config.rules.max_episode_s, config.rules.decision_s
        specs = [config.catalog.hulls[hull] for hull in hulls]
        tables = {
            "size": float_table([config.world.size_x, config.world.size_y]),
            "top_speed": float_table([spec.max_speed_vox_per_s for spec in specs]),
            "yaw_rate": float_table([spec.yaw_rate_rad_per_s for spec in specs]),
            "has_emitter": float_table([float(spec.ewar) for spec in specs]),
            "straight": float_table([[waits(hull, trigger, config) for trigger in Trigger] for hull in hulls]),
        }
        longest = max(len(line) for line in lines)
        # Shorter scripted lines are padded with steps that end at time 0 s, so these steps are never carried out.
        padded = [(*line, *[Step(until_s=0.0)] * (longest - len(line))) for line in lines]
        for name, read in FACTS.items():
            tables[f"step_{name}"] = float_table([[read(step) for step in line] for line in padded])
        fires = [[fired(step, hull, config) for step in line] for line, hull in zip(padded, hulls, strict=True)]
        tables["step_fire"] = float_table(fires)
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def memory_spec(self) -> Composite:
        """Return an empty spec."""
        return Composite()

    def graph_key(self) -> Hashable:
        """Return a constant, because decisions depend on tensors alone."""
        return type(self).__name__

    def facts(self, name: str, mechs: int) -> Tensor:
        """Return the table `name` with one row per mech, `[mechs, ...]`; rows of mechs without steps are 0."""
        table: Tensor = getattr(self, name)[:mechs]
        return pad(table, (*[0, 0] * (table.dim() - 1), 0, mechs - table.shape[0]))

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide the actions of `[..., A]` mechs, with any batch dimensions before A."""
        view = look(team, self.size, self.longest_vox)
        time_s = column(team.get(("observation", "ego")), layout.EGO, "time") * self.longest_s
        slots, has_target = self.choose(view)
        which, holds = self.step_of(view, time_s, slots, has_target)

        def of_step(values: Tensor) -> Tensor:
            return values.gather(-1, which[..., None]).squeeze(-1)

        target, known = aim_at(view.contacts, of_step(slots)), of_step(has_target) & holds
        team.set("action", self.act(view, target, known, which, holds))
        return team

    def fact_of(self, name: str, which: Tensor) -> Tensor:
        """Return the field `name` of each mech's step, `[..., A, ...]`; `which [..., A]` holds the index of the
        step."""
        table = self.facts(f"step_{name}", which.shape[-1])  # [A, S, ...]
        mechs = torch.arange(which.shape[-1], device=which.device)
        return table[mechs, which]

    def choose(self, view: View) -> tuple[Tensor, Tensor]:
        """Return the contact slot of the nearest hostile that matches each step, `[..., A, S]` int64, and whether
        such a hostile exists."""
        contacts, mechs = view.contacts, view.heat.shape[-1]
        hostile, clear, painted = contacts.hostile, contacts.clear, contacts.painted
        candidates = torch.stack((hostile, hostile, hostile & clear, hostile & painted), -2)  # [..., A, 4, K]
        kinds = self.facts("step_target_is", mechs).long()[..., None]
        kinds = kinds.expand(*candidates.shape[:-2], kinds.shape[-2], candidates.shape[-1])
        classes = self.facts("step_target", mechs)  # [A, S, 4]
        is_of_class = exact.sum(classes[..., :, None, :] * contacts.hull[..., None, :, :], -1) > 0
        matches = candidates.gather(-2, kinds) & is_of_class  # [..., A, S, K]
        nearness = torch.where(matches, -contacts.distance[..., None, :], NO_MATCH)
        return nearness.argmax(-1), matches.any(-1)

    def step_of(self, view: View, time_s: Tensor, slots: Tensor, has_target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the index `[..., A]` of the first step whose conditions are true, and whether such a step exists."""
        mechs = time_s.shape[-1]

        def fact(name: str) -> Tensor:
            return self.facts(f"step_{name}", mechs)

        distance = torch.where(has_target, view.contacts.distance.gather(-1, slots), FAR_VOX)
        circle, heat, time = fact("inside"), view.heat[..., None], time_s[..., None] + SOON_S
        to_center = length(view.position[..., None, :] - circle[..., :2])
        holds = (time >= fact("from_s")) & (time < fact("until_s"))
        holds = holds & (heat >= fact("heat_above")) & (heat <= fact("heat_below"))
        holds = holds & (distance >= fact("range_above")) & (distance <= fact("range_below"))
        holds = holds & ((fact("target_is") == 0) | has_target) & (to_center <= circle[..., 2])
        return holds.long().argmax(-1), holds.any(-1)

    def act(self, view: View, target: Target, known: Tensor, which: Tensor, holds: Tensor) -> Tensor:
        """Return the action `[..., A, D]` of the step `which [..., A]`; zeros where `holds` is false."""
        action = view.heat.new_zeros((*which.shape, layout.action_width(self.comm_dim)))
        action[..., Act.FORWARD : Act.VERTICAL] = self.walk(view, target, known, which)
        action[..., Act.VERTICAL] = self.fact_of("jets", which)
        bearing, is_faced = self.bearing(view, target, known, which)
        rate = self.facts("yaw_rate", which.shape[-1]).clamp_min(TINY) * self.decision_s
        action[..., Act.YAW_RATE] = (bearing / rate).clamp(-1, 1)
        waits_for_aim = self.facts("straight", which.shape[-1]) > 0
        pressed = (self.fact_of("fire", which) > 0) & (~waits_for_aim | is_faced[..., None])
        for trigger, act in TRIGGER_COLUMNS.items():
            action[..., act] = sign(pressed[..., int(trigger)])
        emits = self.facts("has_emitter", which.shape[-1]) > 0
        action[..., Act.SECONDARY] = torch.where(emits, self.fact_of("emit", which), action[..., Act.SECONDARY])
        action[..., Act.VENT] = sign(self.fact_of("vent", which) > 0)
        slots = torch.arange(PREFERENCES, device=which.device)
        action[..., Act.PREFER_0 : Act.SORT_CLOSEST] = ((target.slot[..., None] == slots) & known[..., None]).float()
        action[..., Act.SORT_CLOSEST].fill_(1.0)
        return action * holds[..., None]

    def walk(self, view: View, target: Target, known: Tensor, which: Tensor) -> Tensor:
        """Return the walk command `[..., A, 2]`, forward and left, as shares of the top speed."""
        to = to_body(self.fact_of("to", which) - view.position, view.heading)
        keep = self.fact_of("keep", which)[..., None]
        offset = target.offset[..., :2]
        distance = length(offset).clamp_min(TINY)[..., None]
        beyond = offset * (1 - keep / distance)
        # The mech walks around the target to its back. `round_by` is positive if the mech is left of the target.
        outwards = -offset / distance
        round_by = target.facing[..., :1] * outwards[..., 1:] - target.facing[..., 1:] * outwards[..., :1]
        behind = exact.sum(target.facing * outwards, -1)[..., None]
        rest = torch.where(behind > 0, 1.0, round_by.abs())
        left = torch.stack((-outwards[..., 1], outwards[..., 0]), -1)
        around = beyond + torch.where(round_by < 0, -left, left) * rest * distance * (behind > -0.98)
        follow = torch.where(self.fact_of("rear", which)[..., None] > 0, around, beyond)
        follow = follow * ((keep >= 0) & known[..., None])
        goal = torch.where(self.fact_of("walks", which)[..., None] > 0, to, follow)
        stride = (self.facts("top_speed", which.shape[-1]) * self.decision_s).clamp_min(TINY)
        return unit(goal) * (length(goal) / stride).clamp_max(1.0)[..., None]

    def bearing(self, view: View, target: Target, known: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Return the bearing `[..., A]` of the faced point or target in radians to the left, and whether the mech faces
        it.

        Without a point and a target, the bearing is 0.
        """
        at_point = self.fact_of("turns", which) > 0
        point = to_body(self.fact_of("face", which) - view.position, view.heading)
        ahead, left = torch.where(at_point[..., None], point, target.offset[..., :2]).unbind(-1)
        bearing = exact.atan2(left.contiguous(), ahead.contiguous()) * (at_point | known)
        tolerance = torch.where(at_point, POINT_RAD, AIMED_RAD)
        return bearing, (bearing.abs() < tolerance) & (at_point | known)


def waits(hull: str, trigger: Trigger, config: EnvConfig) -> float:
    """Return 1 if a weapon on this trigger of the hull fires even without a target, else 0."""
    weapons = [weapon for mount, weapon in weapons_on(hull, config).values() if mount == trigger]
    return float(any(not weapon.needs for weapon in weapons))


def fired(step: Step, hull: str, config: EnvConfig) -> list[float]:
    """Return a number for each trigger: 1 if the step pulls the trigger, else 0."""
    pressed = {trigger for name, (trigger, _) in weapons_on(hull, config).items() if name in step.fire}
    return [float(trigger in pressed) for trigger in Trigger]


def line_of(piece: Piece, config: EnvConfig) -> LineCommander:
    """Build the commander that plays the line of a set piece in battles of `config`.

    Raises:
        ConfigError: if neither team of the battles has the hulls of the set piece.
    """
    is_cast = piece.hulls in (config.blue, config.red)
    require(
        is_cast, f"line:{piece.name}", f"a commander of a team of {', '.join(piece.hulls)}", (config.blue, config.red)
    )
    return LineCommander(piece.line, piece.hulls, config)


def line_factory(name: str) -> Callable[[EnvConfig], LineCommander]:
    """Return a function that builds the commander for the line of the set piece `name` from a battle's config."""
    piece = find_piece(name)
    return lambda config: line_of(piece, config)
