#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# What one paper measures, on the default tasks: bash jobs/paper.sh NAME, where jobs/papers/NAME is the paper's folder. It
# ends with each of the paper's tables, published numbers beside ours, and with where its figures are. NAME/original is what
# takes several runs in the paper's own setting, for a cluster. docs/start.md says how long it takes; run it again to go on
# after an interruption. RUN=FOLDER and RANKS=N choose another folder and number of ranks, SEED=N another seed, whose runs
# lie in runs/papers/NAME_seedN. jobs/papers/NAME/paper.toml lists the steps, jobs/paper.py goes through them.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
python="${TAUGRID_VENV:-.venv}/bin/python"
[ -x "$python" ] || python=python3
unset PYTHONDONTWRITEBYTECODE  # see jobs/steps.sh
exec "$python" jobs/paper.py "$@"
