# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers with their errors: sampling, correlation, means. Nothing here knows of runs."""
