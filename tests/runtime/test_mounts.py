"""Detection of network file systems in the mount table."""

from pathlib import Path

import pytest

from echelon.runtime.files import network_type

TABLE = """\
/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
server:/export /data nfs4 rw,vers=4.2 0 0
/dev/sdb1 /data/local xfs rw 0 0
//server/share /mnt/our\\040share cifs rw 0 0
user@host:/ /mnt/far fuse.sshfs rw 0 0
/dev/sdc1 /mnt/twice ext4 rw 0 0
server:/twice /mnt/twice nfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/league", None),
        ("/tmp/league", None),
        ("/data/league", "nfs4"),
        ("/database/league", None),
        ("/data/local/league", None),
        ("/mnt/our share/league", "cifs"),
        ("/mnt/far", "fuse.sshfs"),
        ("/mnt/twice/league", "nfs"),
    ],
)
def test_file_system_of_a_path(path, kind):
    assert network_type(Path(path), TABLE) == kind
