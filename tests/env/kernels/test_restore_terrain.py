"""The ground of battles that restart: the loop against the dense form."""

import torch
from kernel_cases import BATTLES, standard_maps

from echelon.env.kernels.restore_terrain import restore_terrain_dense, restore_terrain_loops
from echelon.state import untouched


def test_both_forms_restore_the_chosen_battles_and_leave_the_others():
    maps, generator = standard_maps(), torch.Generator().manual_seed(1)
    map_id = torch.arange(BATTLES).flip(0)
    which = torch.rand(BATTLES, generator=generator) < 0.5
    whole = untouched(map_id, maps)
    fought = whole.clone()
    for name in ("solid", "opaque", "rubble"):
        getattr(fought, name).bitwise_xor_(torch.randint(0, 1 << 30, whole.solid.shape, generator=generator).int())
    fought.damage.fill_(3)
    by_loop, dense = fought.clone(), fought.clone()
    own = (by_loop.solid, by_loop.opaque, by_loop.rubble, by_loop.damage)
    restore_terrain_loops(*own, which, map_id, maps.solid, maps.opaque)
    restore_terrain_dense(dense, which, map_id, maps)
    for name in ("solid", "opaque", "rubble", "damage"):
        found, other = getattr(by_loop, name), getattr(dense, name)
        assert torch.equal(found, other)
        assert torch.equal(found[which], getattr(whole, name)[which])
        assert torch.equal(found[~which], getattr(fought, name)[~which])
