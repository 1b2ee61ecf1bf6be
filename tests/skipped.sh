#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# What a run of the tests skipped, and why, from ctest's log: bash tests/skipped.sh LOG
set -euo pipefail
reasons="$(sed -nE 's/^SKIPPED (\[[0-9]+\] )?([^ ]+\.py(:[0-9]+)?: )?/  /p' "$1" | sort | uniq)"
[ -z "$reasons" ] || printf 'Not tried on this machine:\n%s\n' "$reasons"
