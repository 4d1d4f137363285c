"""The documented Slurm script on a `slurmctld` and two `slurmd`, each on a separate machine."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from nodes import can_make_networks, network
from page_commands import blocks_of
from runs import TINY, without_clock

from echelon.learn.metrics import read_table

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="needs Slurm: apt-get install slurm-wlm munge"),
    pytest.mark.skipif(not can_make_networks(), reason="needs root, for networks of its own"),
]
ITERATIONS = 6
SETTINGS = """
ClusterName=echelon
SlurmctldHost=first
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
NodeName=first,second CPUs=2 RealMemory=2000
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@pytest.fixture
def cluster(tmp_path):
    """Two machines with Slurm; the first is the controller."""
    settings, key = tmp_path / "slurm.conf", tmp_path / "munge.key"
    settings.write_text(SETTINGS.format(folder=tmp_path))
    key.write_bytes(bytes(range(128)))
    key.chmod(0o400)
    tmp_path.chmod(0o755)
    with network(tmp_path, 2) as (first, second):
        for node in (first, second):
            (tmp_path / f"spool.{node.name}").mkdir()
            node.variables["SLURM_CONF"] = str(settings)
        places = {
            "socket": "munge.socket",
            "pid-file": "munged.pid",
            "log-file": "munged.log",
            "seed-file": "munged.seed",
        }
        own = [f"--{name}={tmp_path / file}" for name, file in places.items()]
        first.start("munged", "--foreground", "--force", f"--key-file={key}", *own)
        while not (tmp_path / "munge.socket").exists():
            time.sleep(0.02)
        first.start("slurmctld", "-D")
        for node in (first, second):
            node.start("slurmd", "-D")
        while say(first, "sinfo", "--noheader", "--format=%D %t").split() != ["2", "idle"]:
            assert all(process.poll() is None for node in (first, second) for process in node.started[:3]), logs(
                tmp_path
            )
            time.sleep(0.2)
        yield first


def logs(folder: Path) -> list[str]:
    return [log.read_text() for log in folder.glob("*.log")]


def say(node, *words: str) -> str:
    return node.start(*words).communicate()[0]


def script(folder: Path) -> str:
    """The documented script, with a tiny run."""
    (text,) = [block for block in blocks_of("MANY_MACHINES.md", "sh") if block.startswith("#!/bin/bash")]
    tiny = " ".join([*TINY, "--checkpoint-every", "1", "--total-agent-steps", str(2 * 160 * ITERATIONS)])
    for ours, theirs in (
        ("--gpus-per-node=8 --cpus-per-task=32", "--cpus-per-task=1"),
        ("--nproc-per-node 8", "--nproc-per-node 1"),
        ("--shutdown-timeout 110", "--shutdown-timeout 3600"),
        ("/shared/", f"{folder}/"),
        ("--resume auto", f"--resume auto {tiny}"),
    ):
        assert text.count(ours) == 1, ours
        text = text.replace(ours, theirs)
    return text


def submit(node, folder: Path) -> str:
    """Return the job's number."""
    (folder / "train.sbatch").write_text(script(folder))
    words = ["sbatch", "--parsable", "--job-name=mine", f"--output={folder}/%j.log", str(folder / "train.sbatch")]
    return say(node, *words).strip()


def is_over(node, job: str) -> bool:
    return say(node, "squeue", "--noheader", f"--jobs={job}").strip() == ""


def test_requeued_slurm_job_resumes(cluster, tmp_path):
    shared = tmp_path / "shared"
    (shared / "runs").mkdir(parents=True)
    job, table = submit(cluster, shared), shared / "runs" / "mine" / "metrics.csv"
    while len(read_table(table)) < 2:
        assert not is_over(cluster, job), (shared / f"{job}.log").read_text()
        time.sleep(0.1)
    say(cluster, "scancel", "--signal=TERM", job)
    while not is_over(cluster, job):
        time.sleep(0.2)
    said = (shared / f"{job}.log").read_text()
    assert "SIGTERM: stopped after iteration" in said and "torchrun --nnodes 2" in said, said
    assert 2 <= len(read_table(table)) < ITERATIONS
    job = submit(cluster, shared)
    while not is_over(cluster, job):
        time.sleep(0.2)
    said = (shared / f"{job}.log").read_text()
    assert [float(row["iteration"]) for row in without_clock(table)] == list(range(1, ITERATIONS + 1)), said
    assert subprocess.run(["grep", "-q", "^checkpoint ", shared / f"{job}.log"]).returncode == 0, said
