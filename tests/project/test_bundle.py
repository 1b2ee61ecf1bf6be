# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""jobs/bundle.sh: its archive runs beside a Python that has torch, and takes no library of the system but the C
library's and the C++ compiler's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT / "tests" / "e2e"))  # its little world of tasks

# What belongs to the system: the loader, the C library and its parts, the compiler's own.
SYSTEM = re.compile(r"/(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libutil|libresolv|libmvec|libstdc\+\+"
                    r"|libgcc_s)\.so\.\d+$")
MOST_BYTES = 60e6


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "bundle.tar.xz"
    done = subprocess.run(["bash", PROJECT / "jobs/bundle.sh", path], text=True, capture_output=True, check=False,
                          env=os.environ | {"PROGRAM": os.environ["TAUGRID"], "TAUGRID_VENV": sys.prefix})
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size < MOST_BYTES
    return path


@pytest.fixture(scope="module")
def folder(archive: Path) -> Path:
    """The archive, unpacked elsewhere."""
    subprocess.run(["tar", "-xf", archive, "-C", archive.parent], check=True)
    return archive.parent / "taugrid"


def run(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """In the environment of someone who has just logged in."""
    few = {"PATH": "/usr/bin:/bin", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}
    return subprocess.run(command, env=few, text=True, capture_output=True, stdin=subprocess.DEVNULL, check=False)


def test_it_holds_no_path_of_the_machine_that_made_it(folder: Path) -> None:
    for program in folder.glob("bin/*/taugrid"):
        dynamic = subprocess.run(["readelf", "-d", program], text=True, capture_output=True, check=True).stdout
        assert "RUNPATH" not in dynamic and "RPATH" not in dynamic


def test_two_ranks_run_an_experiment_with_its_own_libraries(folder: Path, tmp_path: Path) -> None:
    import world as worlds

    world = worlds.make(tmp_path / "world")
    logs = tmp_path / "logs"
    logs.mkdir()
    done = run(folder / "mpirun.sh", "--torch", sys.executable, "-q", "-n", "2", "--oversubscribe", "--bind-to", "none",
               folder / "taugrid.sh", "run", world.experiment, "--run-dir", tmp_path / "run",
               LD_DEBUG="files", LD_DEBUG_OUTPUT=str(logs / "loaded"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "results.h5").exists()
    assert not [line for line in done.stderr.splitlines() if "mca" in line or "PMIx" in line], done.stderr

    begin = f"initialize program: {folder}/bin/"  # before it, the shell that became the program
    ours = [text.split(begin, 1)[1] for path in logs.iterdir() if begin in (text := path.read_text(errors="replace"))]
    assert len(ours) >= 3  # the launcher and its ranks
    environment = Path(sys.prefix).resolve()
    loaded = {name for text in ours for name in re.findall(r"calling init: (/\S+)", text)}
    foreign = [name for name in loaded if not Path(name).resolve().is_relative_to(folder.resolve())
               and not Path(name).resolve().is_relative_to(environment) and not SYSTEM.search(name)]
    assert foreign == []


# What a Debian has before anything is installed, but for the C++ library, and Python: of each package the files.
BARE = ["base-files", "base-passwd", "bash", "coreutils", "dash", "grep", "libacl1", "libattr1", "libc-bin", "libc6",
        "libexpat1", "libgmp10", "libpcre2-8-0", "libpython3.11-minimal", "libpython3.11-stdlib", "libselinux1",
        "libtinfo6", "mawk", "python3.11-minimal", "python3-minimal", "sed", "zlib1g"]
INSIDE = """
root=$1 environment=$2 bundle=$3 world=$4; shift 4
for folder in proc dev sys tmp opt/taugrid "$environment"; do mkdir -p "$root/$folder"; done
mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/tmp" || exit
mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" || exit
mount --bind "$environment" "$root$environment" && mount --bind "$bundle" "$root/opt/taugrid" || exit
mkdir -p "$root$world" && mount --bind "$world" "$root$world" || exit
exec /usr/sbin/chroot "$root" "$@"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of these packages and nothing else, as a root."""
    folder = tmp_path_factory.mktemp("root")
    for link in ("bin", "lib", "lib64", "sbin"):
        (folder / "usr" / link).mkdir(parents=True)
        (folder / link).symlink_to(f"usr/{link}")
    listed = subprocess.run(["dpkg", "-L", *BARE], text=True, capture_output=True, check=True).stdout
    named = {line for line in listed.splitlines() if line.startswith("/") and not line.startswith("/usr/share/")}
    named |= {"/etc/alternatives/awk", "/usr/bin/awk", "/etc/ld.so.cache"}
    files = sorted(name for name in named if os.path.islink(name) or os.path.isfile(name))
    links = {"/bin", "/lib", "/lib64", "/sbin"}
    (folder / "files").write_text("".join(f"{name}\n" for name in files if name not in links))
    subprocess.run(f"tar -C / -cf - -T {folder}/files 2>/dev/null | tar -C {folder} --keep-directory-symlink -xf -",
                   shell=True, check=True)
    (folder / "etc/ld.so.cache").unlink()
    (folder / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    return folder


def in_root(root: Path, folder: Path, world: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """The command with that root, in which the bundle lies in /opt/taugrid."""
    apart = ["unshare", "--mount", "--pid", "--fork", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    return run(*apart, "bash", "-c", INSIDE, "bash", root, sys.prefix, folder, world, *command, TMPDIR="/tmp")


def test_a_fresh_root_with_nothing_else_installed_runs_it(root: Path, folder: Path, tmp_path: Path) -> None:
    """Neither Open MPI nor a C++ library is there, nor ssh."""
    import world as worlds

    world = worlds.make(tmp_path / "world")
    bare = in_root(root, folder, tmp_path, "/bin/sh", "-c",
                   "for name in sh mpirun c++ gcc; do command -v $name; done; ls /usr/lib/*/libstdc++*")
    assert bare.stdout == "/usr/bin/sh\n", bare.stdout + bare.stderr
    python = f"{sys.prefix}/bin/python"
    done = in_root(root, folder, tmp_path, "/opt/taugrid/mpirun.sh", "--torch", python, "-q", "-n", "2",
                   "--oversubscribe", "--bind-to", "none", "/opt/taugrid/taugrid.sh", "run", str(world.experiment),
                   "--run-dir", str(tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "run" / "results.h5").exists()
    info = in_root(root, folder, tmp_path, "/opt/taugrid/taugrid.sh", "--torch", python, "info")
    assert info.returncode == 0 and "libtorch" in info.stdout, info.stdout + info.stderr


@pytest.mark.parametrize(("arguments", "expected"), [
    (["--torch", "/bin/false", "info"], "/bin/false has no torch; name a Python that has torch 2."),
    (["--torch"], "--torch names no Python; expected --torch PYTHON"),
])
def test_a_python_without_torch_is_said(folder: Path, arguments: list[str], expected: str) -> None:
    for program in ("taugrid.sh", "mpirun.sh"):
        done = run(folder / program, *arguments)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("taugrid: error: " + expected)


def test_another_torch_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho /somewhere/torch\necho 2.99.0+cpu\n")
    other.chmod(0o755)
    done = run(folder / "taugrid.sh", "--torch", other, "info")
    assert done.returncode == 2
    assert done.stderr.startswith(f"taugrid: error: {other} has torch 2.99.0+cpu; this bundle needs 2.")
    assert done.stderr.count("\n") == 1


def test_a_day_with_a_gpu_is_rehearsed_to_its_summary(archive: Path, tmp_path: Path) -> None:
    """What can be tried without a GPU: the machine, and a model's every unit on the device that pretends to be one."""
    done = run("bash", PROJECT / "jobs/gpu_day.sh", "--bundle", archive, "--torch", sys.executable, "--device",
               "rehearsal", "--only", "machine large", "--out", tmp_path / "out",
               TAUGRID_REHEARSAL=os.environ["TAUGRID_REHEARSAL"])
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "out" / "summary.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert " done " in rows["machine"] and " done " in rows["large"], text
    assert "A model of the papers' size, on rehearsal:0" in text
    assert {"finetune/linear", "disentanglement/standard", "smoothness/standard", "ntk/pretrained"} <= rows.keys()


@pytest.mark.parametrize(("words", "expected"), [
    ((), "'' is no file; expected --bundle ARCHIVE"),
    (("--bundle", "/dev/null"), "'/dev/null' is no file"),
    (("--bundle",), "--bundle needs a value"),
    (("--minutes", "many"), "--minutes many; expected a number"),
    (("--sudo", "1"), "unknown argument --sudo"),
])
def test_wrong_words_for_the_day(words: tuple[str, ...], expected: str) -> None:
    done = run("bash", PROJECT / "jobs/gpu_day.sh", *words)
    assert done.returncode == 2 and done.stderr.startswith("gpu_day: ") and expected in done.stderr
    assert done.stderr.count("\n") == 1
