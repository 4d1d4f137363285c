"""The reward for following orders."""

import dataclasses

import pytest
import torch
from builders import scene

from echelon import CommandConfig, EnvConfig
from echelon.command.rewards import ARRIVED, following
from echelon.env.outcome import judge
from echelon.rules.orders import PLACE, OrderField, OrderKind

CONFIG = dataclasses.replace(
    EnvConfig.small(),
    map_pool=2,
    blue=("medium", "light"),
    red=("medium",),
    command=CommandConfig(enabled=True, reach_vox=4.0),
)


def test_following_rewards_approach_and_arrival():
    one = scene(CONFIG).place(0, 10, 10).place(1, 29, 10).place(2, 30, 30)
    sent = one.state.orders_heard.clone()
    sent[:, :2, OrderField.KIND], sent[:, :2, OrderField.ISSUED] = float(OrderKind.MOVE), 0.0
    sent[:, :2, PLACE] = torch.tensor([30.0, 10.0])
    before = one.state.replace(orders_heard=sent)
    mechs = before.mechs.replace(pos=before.mechs.pos + torch.tensor([4.0, 0.0, 0.0]))
    after = before.replace(mechs=mechs)
    paid = following(before, after, judge(after, one.sim_model), one.sim_model)
    # One mech starts 20 vox away, 16 beyond the arrival radius, and walks 4 on a map of 40; the other has arrived.
    assert paid[0].tolist() == pytest.approx([4 / 40, ARRIVED, 0.0])
    assert following(one.state, after.replace(orders_heard=one.state.orders_heard), None, one.sim_model).tolist() == [
        [0, 0, 0]
    ]
