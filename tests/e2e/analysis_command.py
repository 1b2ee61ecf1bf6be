# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The analysis' command line."""

import contextlib
import gc
import io
import subprocess
import sys
from pathlib import Path

from launch import PATIENCE
from taugrid_analysis.cli import main


def started(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Starts the analysis as a user does, in a process of its own, which loads PyTorch or pandas for seconds."""
    return subprocess.run([sys.executable, "-m", "taugrid_analysis", *arguments], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


def called(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The same command in this process, with what it would have printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main([str(word) for word in arguments])
    gc.collect()  # closes what the command leaves open for the end of its process
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
