"""Clock, physics and victory of a battle: every number of the rules that is no row of the catalog."""

from dataclasses import dataclass
from typing import Annotated

from echelon.rules import limits
from echelon.runtime.errors import require, short_repr
from echelon.runtime.limits import SHARE, Limits, check_settings


@dataclass(frozen=True)
class RulesConfig:
    """Clock, physics and victory. Distances in voxels, times in seconds, heat in heat points.

    Raises:
        ConfigError: a number is outside its limits, or a battle is shorter than one decision.
    """

    dt_s: Annotated[float, Limits(0.001, 1, "s")] = 0.05
    """Length of a substep of the simulation."""
    decision_repeat: Annotated[int, Limits(1, 1000, "substeps")] = 5
    """Substeps in a decision."""
    max_episode_s: Annotated[float, Limits(0.001, 86_400, "s")] = 60.0
    """When the clock ends a battle."""
    gravity_vox_per_s2: Annotated[float, Limits(0, 1e3, "vox/s²")] = 9.81
    velocity_damping: Annotated[float, SHARE] = 0.98
    """Share of the velocity kept each substep."""
    shutdown_damping: Annotated[float, SHARE] = 0.8
    """Share of the planar velocity a shut-down mech keeps each substep."""
    step_up_vox: Annotated[float, Limits(0, 31, "vox")] = 1.1
    """Height of terrain that a mech steps onto while walking."""
    water_speed: Annotated[float, limits.FACTOR] = 0.6
    """Factor on the speed of a mech in water."""
    legged_speed: Annotated[float, limits.FACTOR] = 0.4
    """Factor on the speed of a mech whose legs are shot off."""
    legged_jet: Annotated[float, limits.FACTOR] = 0.5
    """Factor on the thrust of its jets."""
    jet_heat_per_s: Annotated[float, limits.HEAT_PER_S] = 15.0
    """Heat of jets at full thrust."""
    vent_factor: Annotated[float, limits.FACTOR] = 2.0
    """Times its dissipation that a venting mech sheds on top of it."""
    heat_ceiling: Annotated[float, limits.FACTOR] = 2.0
    """Heat stays below this many heat capacities."""
    lava_heat_per_s: Annotated[float, limits.HEAT_PER_S] = 40.0
    """Heat of a mech that stands in lava."""
    lava_damage_per_s: Annotated[float, Limits(0, 1e3, "hit points a second")] = 5.0
    """Hit points that it loses."""
    water_heat_per_s: Annotated[float, limits.HEAT_PER_S] = -30.0
    """Heat of a mech that stands in water."""
    stability_cap: Annotated[float, Limits(0.001, 1e6)] = 100.0
    """Stability of a mech that nothing hit."""
    stability_regen_per_s: Annotated[float, Limits(0, 1e6)] = 10.0
    """Stability that returns."""
    legged_unsteadiness: Annotated[float, SHARE] = 0.5
    """Share of it that does not return to a mech whose legs are shot off."""
    walking_unsteadiness: Annotated[float, SHARE] = 0.5
    """Share that does not return to one that is faster than `steady_vox_per_s`."""
    suppressed_unsteadiness: Annotated[float, SHARE] = 0.75
    """Share that does not return to one that is suppressed; the shares add up."""
    least_regeneration: Annotated[float, SHARE] = 0.1
    """Share that returns whatever happens."""
    steady_vox_per_s: Annotated[float, Limits(0, 1e3, "vox/s")] = 1.0
    legged_stability: Annotated[float, SHARE] = 0.5
    """Factor on the stability cap of a mech whose legs are shot off."""
    risen_stability: Annotated[float, SHARE] = 0.5
    """Share of its cap that a mech has when it stands up."""
    fall_s: Annotated[float, limits.SECONDS] = 3.0
    """How long a mech lies that lost all stability."""
    rear_arc_cos: Annotated[float, Limits(-1, 1)] = 0.707
    """A hit comes from behind where the cosine between its direction and the target's facing is above this."""
    rear_factor: Annotated[float, limits.FACTOR] = 1.5
    """Factor on damage and lost stability of such a hit."""
    leg_height: Annotated[float, SHARE] = 0.3
    """Hits below this share of the hull height strike the legs."""
    leg_hit_share: Annotated[float, SHARE] = 0.5
    """Share of their damage that the hull takes too."""
    jam_loss: Annotated[float, limits.FACTOR] = 0.85
    """Quality of sensors, 1 undisturbed, that full jamming takes away."""
    eccm_gain: Annotated[float, limits.FACTOR] = 0.65
    """Quality that the ECCM of a comrade beside it adds."""
    blind_quality: Annotated[float, limits.FACTOR] = 0.25
    """Lowest quality, which mechs that are shut down also have."""
    best_quality: Annotated[float, Limits(0.001, 1e3)] = 1.5
    """Highest quality."""
    bloom_heat: Annotated[float, limits.FACTOR] = 0.8
    """A hostile hotter than this share of its capacity is seen through walls."""
    muffled_noise: Annotated[float, SHARE] = 0.2
    """Share of a noise that is heard from behind cover."""
    under_fire_s: Annotated[float, limits.SECONDS] = 1.0
    """How long a mech is told that it is under fire after a hit."""
    zone_score_to_win_s: Annotated[float, Limits(0.001, 1e9, "s")] = 20.0
    """Seconds of zone control; at 30 s one in five battles between trained teams went to the clock."""
    zone_ceiling_vox: Annotated[float, limits.RANGE] = 4.0
    """A mech holds the zone while the bottom of its hull is below this height."""
    contested_share: Annotated[float, SHARE] = 0.25
    """Share of the zone's tick for a team that shares it without outweighing the other."""
    time_up_terminates: bool = False
    """Whether the clock is part of the game: its end terminates and pays the winner, else it truncates."""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_settings(self)
        limit = f">= {self.decision_s:g} s (one decision)"
        require(self.max_decisions >= 1, "RulesConfig.max_episode_s", limit, self.max_episode_s)
        substeps, longest = self.substeps(self.max_episode_s), limits.LONGEST_BATTLE_SUBSTEPS
        require(substeps <= longest, "RulesConfig.max_episode_s / dt_s", f"<= {longest} substeps", substeps)
        lowest, highest = self.blind_quality, self.best_quality
        require(lowest <= highest, "RulesConfig.blind_quality", f"<= best_quality, {highest:g}", lowest)

    @property
    def decision_s(self) -> float:
        """Seconds one decision holds."""
        return self.dt_s * self.decision_repeat

    @property
    def max_decisions(self) -> int:
        """Decisions in a full battle."""
        return round(self.max_episode_s / self.decision_s)

    def substeps(self, seconds: float) -> int:
        """Whole substeps nearest to `seconds`: timers are integers, a float one would drift."""
        return round(seconds / self.dt_s)
