"""Encoders of sets and maps."""

import pytest
import torch
from tiny_runs import TINY
from torch.nn import functional as F

from echelon.env.observation import layout
from echelon.learn.loops.packing import padded_count
from echelon.learn.models.encoder import BattlePooling, Encoder, GridEncoder, MaskedPool, SetEncoder
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.policy_layout import PolicyLayout
from echelon.runtime import jit

pytestmark = pytest.mark.quick


def streams(*batch: int, mechs: int = 5, members: int = 4) -> dict[str, torch.Tensor]:
    """A random observation."""
    side, cells = layout.LOCAL_MAP_CELLS, layout.TELEMETRY_CELLS
    return {
        "contacts": torch.randn(*batch, mechs, members, layout.width(layout.CONTACT)),
        "contacts_mask": torch.rand(*batch, mechs, members) < 0.6,
        "squad": torch.randn(*batch, mechs, members, layout.width(layout.SQUAD)),
        "squad_mask": torch.rand(*batch, mechs, members) < 0.6,
        "ego": torch.randn(*batch, mechs, layout.width(layout.EGO)),
        "comms": torch.randn(*batch, mechs, layout.PACK_SIZE, 8),
        "local_map": torch.rand(*batch, mechs, side, side),
        "telemetry": torch.rand(*batch, cells, cells),
    }


def test_encoder_ignores_order_and_padding_of_sets():
    torch.manual_seed(0)
    encoder = Encoder(TINY, specs=8)
    seen = streams(3)
    plain = encoder(**seen)
    order = [2, 0, 3, 1]
    shuffled = {**seen, "comms": seen["comms"][..., [4, 1, 0, 3, 2], :]}
    for name in ("contacts", "squad"):
        shuffled[name] = seen[name][..., order, :]
        shuffled[f"{name}_mask"] = seen[f"{name}_mask"][..., order]
    torch.testing.assert_close(encoder(**shuffled), plain)
    wider = dict(seen)
    for name in ("contacts", "squad"):
        wider[name] = torch.cat((seen[name], 100 * torch.randn_like(seen[name])), -2)
        mask = seen[f"{name}_mask"]
        wider[f"{name}_mask"] = torch.cat((mask, torch.zeros_like(mask)), -1)
    wider["comms"] = torch.cat((seen["comms"], torch.zeros_like(seen["comms"])), -2)
    torch.testing.assert_close(encoder(**wider), plain)


def test_masked_pool_gradient_matches_autograd():
    torch.manual_seed(0)
    x = torch.randn(6, 4, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(6, 4) < 0.6
    mask[0] = False  # an empty set

    def plain(x: torch.Tensor) -> torch.Tensor:
        filled = F.relu(x) * mask[..., None]
        return torch.cat((filled.sum(-2) / mask.sum(-1, keepdim=True).clamp_min(1), filled.amax(-2)), -1)

    torch.testing.assert_close(MaskedPool.apply(x, mask)[0], plain(x))
    weight = torch.randn(6, 6, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((out * weight).sum(), x)[0] for out in (MaskedPool.apply(x, mask)[0], plain(x)))
    torch.testing.assert_close(ours, theirs)
    assert torch.autograd.gradcheck(lambda x: MaskedPool.apply(x, mask)[0], (x,), check_undefined_grad=False)


def test_pool_gradients_under_vmap_match_single_calls():
    """As in `torch.vmap` over stacked weights, or over one set with several masks."""
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(3, 4, 5, 6, generator=generator), torch.randn(4, 12, generator=generator)
    mask = torch.rand(3, 4, 5, generator=generator) < 0.6

    def gradient(x, mask):
        return torch.func.grad(lambda x: (MaskedPool.apply(x, mask)[0] * weight).sum())(x)

    alone = [gradient(*case) for case in zip(x, mask, strict=True)]
    torch.testing.assert_close(torch.vmap(gradient)(x, mask), torch.stack(alone), atol=0, rtol=0)
    shared = [gradient(x[0], case) for case in mask]
    torch.testing.assert_close(torch.vmap(gradient, (None, 0))(x[0], mask), torch.stack(shared), atol=0, rtol=0)
    leaf = x.clone().requires_grad_()
    (torch.vmap(lambda x, mask: MaskedPool.apply(x, mask)[0])(leaf, mask) * weight).sum().backward()
    torch.testing.assert_close(leaf.grad, torch.stack(alone))


def test_packed_pool_matches_padded_pool(monkeypatch):
    torch.manual_seed(0)
    encoder, members, mask = SetEncoder(6, 5), torch.randn(80, 4, 6), torch.rand(80, 4) < 0.4
    mask[:3], mask[-1] = False, False
    assert int(mask.sum()) < padded_count(int(mask.sum()), mask.numel()), "there are padding rows"
    weight, results = torch.randn(80, 10), []
    for packed in (True, False):
        monkeypatch.setattr(jit, "HAS_LOOPS", packed)
        encoder.zero_grad()
        out = encoder(members, mask)
        (out * weight).sum().backward()
        results.append((out.detach(), *(p.grad.clone() for p in encoder.parameters())))
    for packed, dense in zip(*results, strict=True):
        torch.testing.assert_close(packed, dense)
    assert (results[0][0][2] == 0).all()


def test_padded_count_takes_few_values():
    counts = range(1, 2**14 + 1)
    padded = [padded_count(count, 2**14) for count in counts]
    assert all(count <= more <= count * 9 / 8 for count, more in zip(counts, padded, strict=True))
    assert len(set(padded)) == 8 + 8 * 11
    assert padded_count(0, 7) == 0
    assert padded_count(250, 251) == 251, "at most the number of entries"


def test_grid_encoder_matches_conv2d():
    torch.manual_seed(0)
    grid = GridEncoder(11, 6)
    with torch.no_grad():
        grid.bias.normal_()
    maps = torch.rand(3, 11, 11)
    convolved = F.conv2d(maps[:, None], grid.kernel.view(-1, 1, 3, 3), grid.bias.squeeze(1), stride=2)
    torch.testing.assert_close(grid(maps), F.relu(grid.project(F.relu(convolved).flatten(1))))


def test_telemetry_map_is_encoded_once_per_battle():
    torch.manual_seed(0)
    encoder = Encoder(TINY, specs=8)
    rows = []
    encoder.telemetry.register_forward_hook(lambda module, args, out: rows.append(len(args[0])))
    seen = streams(2, 3)
    assert encoder(**seen).shape == (2, 3, 5, 16)
    assert rows == [6], "2 x 3 battles of 5 mechs"


def test_hidden_path_columns_have_no_effect():
    torch.manual_seed(0)
    seen = streams(2)
    other = {**seen, "ego": seen["ego"].clone()}
    for name in ("path_direction", "path_length"):
        other["ego"][..., layout.columns(layout.EGO, name)] += 1.0
    blind, sighted = (
        Encoder(LSTMConfig(**{**vars(TINY), "path_observed": observed}), specs=8) for observed in (False, True)
    )
    assert torch.equal(blind(**seen), blind(**other))
    assert not torch.allclose(sighted(**seen), sighted(**other))


def test_no_message_encoder_without_messages():
    encoder = Encoder(TINY, specs=0)
    assert encoder.message is None
    seen = streams(2)
    assert encoder(**{**seen, "comms": torch.zeros(2, 5, 5, 0)}).shape == (2, 5, 16)


def test_central_critic_is_invariant_to_mech_order():
    torch.manual_seed(0)
    gathering = BattlePooling(8, PolicyLayout.current(8))
    own, enemy = (torch.rand(2, count, layout.width(layout.EGO)) for count in (5, 4))
    seen = gathering(own, enemy)
    assert seen.shape == (2, 32)
    torch.testing.assert_close(gathering(own[:, [4, 2, 0, 1, 3]], enemy[:, [3, 1, 0, 2]]), seen)
    assert not torch.allclose(gathering(own, enemy * 0.5), seen)


@pytest.mark.requirement("R46")
def test_fused_features_use_layer_norm_and_relu():
    """The encoder uses layer norm and ReLU, not tanh, which would bound the features."""
    torch.manual_seed(0)
    encoder, fed = Encoder(TINY, specs=8), []
    encoder.fuse.register_forward_hook(lambda module, given, found: fed.append(found))
    fused = encoder(**streams(64))
    expected = F.relu(F.layer_norm(fed[0], (TINY.hidden,))).view_as(fused)
    torch.testing.assert_close(fused, expected)
    assert fused.max() > 1.5
