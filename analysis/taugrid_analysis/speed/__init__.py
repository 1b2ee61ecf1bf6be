# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Is it slower than before? Times of `taugrid bench --json` and of runs, judged against their noise."""
