"""The network: its memory, its sets, and its seat in the environment."""

import torch
from conftest import TINY
from tensordict import TensorDict
from torchrl.modules import set_recurrent_mode

from echelon.config import EnvConfig
from echelon.env import layout
from echelon.learn.policy import Encoder, MaskedLSTM, MechPolicy


def test_one_pass_over_a_sequence_equals_stepping_it_with_resets_inside():
    torch.manual_seed(0)
    lstm = MaskedLSTM(6, 5)
    features = torch.randn(4, 9, 6)
    is_init = torch.rand(4, 9, 1) < 0.3
    h, c = torch.randn(4, 5), torch.randn(4, 5)
    memory = {"h": h[:, None].expand(4, 9, 5), "c": c[:, None].expand(4, 9, 5)}
    with set_recurrent_mode(True):
        data = TensorDict({"features": features, "is_init": is_init, "memory": memory}, [4, 9])
        whole = lstm(data)["embed"]
    for t in range(9):
        keep = (~is_init[:, t]).float()
        step = TensorDict({"features": features[:, t], "memory": {"h": h * keep, "c": c * keep}}, [4])
        out = lstm(step)
        h, c = out["next", "memory", "h"], out["next", "memory", "c"]
        torch.testing.assert_close(whole[:, t], h)


def test_order_and_number_of_contacts_and_comrades_do_not_matter():
    torch.manual_seed(0)
    encoder = Encoder(TINY, comm_dim=8)
    contacts = torch.randn(3, 4, layout.width(layout.CONTACT))
    mask = torch.tensor([True, True, True, False]).expand(3, 4)
    comrades = torch.randn(3, 4, layout.width(layout.SQUAD))
    rest = (torch.randn(3, layout.width(layout.EGO)), torch.randn(3, 5, 8), torch.randn(3, 11, 11))
    plain = encoder(contacts, mask, comrades, mask, *rest)
    order = [2, 3, 0, 1]
    shuffled = contacts[:, order], mask[:, order], comrades[:, order], mask[:, order]
    torch.testing.assert_close(encoder(*shuffled, *rest), plain)
    wider = torch.cat((mask, mask & False), 1)
    many = torch.cat((contacts, torch.randn_like(contacts)), 1), wider, comrades, mask
    torch.testing.assert_close(encoder(*many, *rest), plain)
    many = contacts, mask, torch.cat((comrades, torch.randn_like(comrades)), 1), wider
    torch.testing.assert_close(encoder(*many, *rest), plain)


def test_memory_begins_by_remembering():
    gates = MaskedLSTM(6, 5).from_input.bias.split(5)
    assert [g.unique().item() for g in gates] == [0.0, 1.0, 0.0, 0.0]


def test_size_is_that_of_the_config():
    policy = MechPolicy(TINY, EnvConfig.small().comm_dim)
    assert {k: v.shape for k, v in policy.memory_spec().items()} == {"h": (16,), "c": (16,)}
    assert policy.num_parameters() == sum(p.numel() for p in policy.parameters())
