"""Replacement of tensors in a state."""

import pytest
import torch

from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig
from echelon.state import Mechs, State


def test_replaced_fields_are_new_and_others_are_shared():
    state = EchelonEnv(EnvConfig.small(), 2, "cpu", seed=0).state
    heat = torch.ones_like(state.mechs.heat)
    after = state.replace(mechs=state.mechs.replace(heat=heat))
    assert isinstance(after, State) and isinstance(after.mechs, Mechs) and after.shape == state.shape
    assert after.mechs.heat is heat and after.mechs.hp is state.mechs.hp and after.shots.pos is state.shots.pos
    assert not state.mechs.heat.any(), "the one before stays what it was"
    assert isinstance(after[1:].clone().mechs, Mechs) and after[1:].mechs.heat.all()
    with pytest.raises(AttributeError, match="Mechs has no field hat, hot"):
        state.mechs.replace(hot=heat, hat=heat)
    with pytest.raises(RuntimeError, match=r"Mechs.heat must begin with \(2,\), got \(1, 10\)"):
        state.mechs.replace(heat=heat[:1])
