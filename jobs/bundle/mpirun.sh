#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# The bundle's launcher: ./mpirun.sh [--torch PYTHON] -n 2 ./taugrid.sh run …
bundle="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
source "$bundle/share/environment.sh"
exec "$bundle/bin/orterun" --prefix "$bundle" ${arguments[@]+"${arguments[@]}"}
