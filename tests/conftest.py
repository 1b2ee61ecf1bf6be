# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
import gc

import pytest

ALL_SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported stays to the end: collections of garbage need not walk through it each time."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A session that skipped every test has tried nothing, and does not count as passed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    stats = reporter.stats if reporter else {}  # pytest-xdist's processes have none: the one that started them decides
    if exitstatus == pytest.ExitCode.OK and stats.get("skipped") and not stats.get("passed"):
        session.exitstatus = ALL_SKIPPED
