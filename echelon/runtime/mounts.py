"""Network file systems, on which SQLite's write-ahead log does not work between machines."""

from __future__ import annotations

import functools
import logging
import re
import tempfile
from pathlib import Path

MOUNTS = Path("/proc/mounts")
NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "pvfs2"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "panfs"),
}
"""Types of file systems, as the table of mounts names them."""
logger = logging.getLogger(__name__)


def network_type(path: Path, table: str) -> str | None:
    """The type of the network file system that a path is on, None for a local one.

    Args:
        table: the table of mounts, a line each of device, mount point and type, the later over the earlier.
    """
    place, best, found = path.absolute(), -1, ""
    for line in table.splitlines():
        device, point, kind = (*line.split()[:3], "", "", "")[:3]
        # A space in a name is \040.
        mounted = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))
        if device and place.is_relative_to(mounted) and len(mounted.parts) >= best:
            best, found = len(mounted.parts), kind
    return found if found in NETWORK else None


@functools.cache
def warn_of_network(folder: Path) -> None:
    """Log, once, that a folder with a database is on a network file system, and name a local folder to use."""
    try:
        table = MOUNTS.read_text(errors="replace")
    except OSError:
        return
    kind = network_type(folder.resolve(), table)
    if kind is None:
        return
    places = (Path.home(), Path("/var/tmp"), Path(tempfile.gettempdir()))
    local = next((place for place in places if network_type(place.resolve(), table) is None), places[-1])
    logger.warning(
        "%s: on a network file system (%s), where a database may be spoiled: keep it in a local folder, such as %s",
        *(folder, kind, local / folder.resolve().name),
    )
