"""Time, physics and victory conditions of a battle: all constants of the rules that are not in the catalog."""

from dataclasses import dataclass
from typing import Annotated

from echelon.rules import limits
from echelon.runtime.errors import require, short_repr
from echelon.runtime.limits import SHARE, Limits, check_settings


@dataclass(frozen=True)
class RulesConfig:
    """Time, physics and victory conditions. Distances are in voxels, times in seconds, heat in heat points.

    Raises:
        ConfigError: if a value is outside its limits, or a battle is shorter than one decision.
    """

    dt_s: Annotated[float, Limits(0.001, 1, "s")] = 0.05
    """Duration of a substep of the simulation."""
    decision_repeat: Annotated[int, Limits(1, 1000, "substeps")] = 5
    """Number of substeps per decision."""
    max_episode_s: Annotated[float, Limits(0.001, 86_400, "s")] = 60.0
    """Time limit of a battle."""
    gravity_vox_per_s2: Annotated[float, Limits(0, 1e3, "vox/s²")] = 9.81
    velocity_damping: Annotated[float, SHARE] = 0.98
    """Share of the velocity that remains after each substep."""
    shutdown_damping: Annotated[float, SHARE] = 0.8
    """Share of the horizontal velocity of a shut-down mech that remains after each substep."""
    step_up_vox: Annotated[float, Limits(0, 31, "vox")] = 1.1
    """Maximum height that a mech can step up while walking."""
    water_speed: Annotated[float, limits.FACTOR] = 0.6
    """Factor on the speed of a mech in water."""
    legged_speed: Annotated[float, limits.FACTOR] = 0.4
    """Factor on the speed of a mech without legs."""
    legged_jet: Annotated[float, limits.FACTOR] = 0.5
    """Factor on the jet thrust of a mech without legs."""
    jet_heat_per_s: Annotated[float, limits.HEAT_PER_S] = 15.0
    """Heat per second of jets at full thrust."""
    vent_factor: Annotated[float, limits.FACTOR] = 2.0
    """Additional heat dissipation of a venting mech, as a multiple of its normal dissipation."""
    heat_ceiling: Annotated[float, limits.FACTOR] = 2.0
    """Maximum heat, as a multiple of the heat capacity."""
    lava_heat_per_s: Annotated[float, limits.HEAT_PER_S] = 40.0
    """Heat per second of a mech in lava."""
    lava_damage_per_s: Annotated[float, Limits(0, 1e3, "hit points a second")] = 5.0
    """Damage per second to a mech in lava, hit points."""
    water_heat_per_s: Annotated[float, limits.HEAT_PER_S] = -30.0
    """Heat per second of a mech in water."""
    stability_cap: Annotated[float, Limits(0.001, 1e6)] = 100.0
    """Maximum and initial stability."""
    stability_regen_per_s: Annotated[float, Limits(0, 1e6)] = 10.0
    """Regeneration of stability per second."""
    legged_unsteadiness: Annotated[float, SHARE] = 0.5
    """Share of the regeneration that a mech without legs loses."""
    walking_unsteadiness: Annotated[float, SHARE] = 0.5
    """Share of the regeneration that a mech faster than `steady_vox_per_s` loses."""
    suppressed_unsteadiness: Annotated[float, SHARE] = 0.75
    """Share of the regeneration that a suppressed mech loses. These three shares are added."""
    least_regeneration: Annotated[float, SHARE] = 0.1
    """Minimum share of the regeneration that remains."""
    steady_vox_per_s: Annotated[float, Limits(0, 1e3, "vox/s")] = 1.0
    legged_stability: Annotated[float, SHARE] = 0.5
    """Factor on `stability_cap` of a mech without legs."""
    risen_stability: Annotated[float, SHARE] = 0.5
    """Share of its stability cap that a mech has after it stands up."""
    fall_s: Annotated[float, limits.SECONDS] = 3.0
    """Time until a fallen mech stands up."""
    rear_arc_cos: Annotated[float, Limits(-1, 1)] = 0.707
    """A hit is from behind if the cosine between its direction and the target's heading is above this value."""
    rear_factor: Annotated[float, limits.FACTOR] = 1.5
    """Factor on the damage and stability loss of a hit from behind."""
    leg_height: Annotated[float, SHARE] = 0.3
    """Hits below this share of the hull height are leg hits."""
    leg_hit_share: Annotated[float, SHARE] = 0.5
    """Share of the damage of leg hits that the hull takes too."""
    jam_loss: Annotated[float, limits.FACTOR] = 0.85
    """Loss of sensor quality under full jamming; the undisturbed quality is 1."""
    eccm_gain: Annotated[float, limits.FACTOR] = 0.65
    """Gain of sensor quality by the ECCM of an adjacent teammate."""
    blind_quality: Annotated[float, limits.FACTOR] = 0.25
    """Minimum sensor quality, and the quality of mechs that are shut down."""
    best_quality: Annotated[float, Limits(0.001, 1e3)] = 1.5
    """Maximum sensor quality."""
    bloom_heat: Annotated[float, limits.FACTOR] = 0.8
    """An enemy hotter than this share of its heat capacity is visible through walls."""
    muffled_noise: Annotated[float, SHARE] = 0.2
    """Factor on the loudness of a noise behind cover."""
    under_fire_s: Annotated[float, limits.SECONDS] = 1.0
    """Time for which a mech counts as under fire after a hit."""
    zone_score_to_win_s: Annotated[float, Limits(0.001, 1e9, "s")] = 20.0
    """Seconds of zone control that win. At 30 s, one in five battles of trained teams reached the time limit."""
    zone_ceiling_vox: Annotated[float, limits.RANGE] = 4.0
    """A mech counts in the zone only if the bottom of its hull is below this height."""
    contested_share: Annotated[float, SHARE] = 0.25
    """Minimum control of a team that shares the zone, reached if it does not outweigh the other team."""
    time_up_terminates: bool = False
    """If True, the time limit terminates the episode and the winner is rewarded; else it truncates the episode."""

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
        """Duration of a decision, s."""
        return self.dt_s * self.decision_repeat

    @property
    def max_decisions(self) -> int:
        """Number of decisions in a battle that reaches the time limit."""
        return self.decisions(self.max_episode_s)

    def decisions(self, seconds: float) -> int:
        """Return the number of decisions nearest to `seconds`."""
        return round(seconds / self.decision_s)

    def substeps(self, seconds: float) -> int:
        """Return the number of substeps nearest to `seconds`. Timers are integers, because floats would drift."""
        return round(seconds / self.dt_s)
