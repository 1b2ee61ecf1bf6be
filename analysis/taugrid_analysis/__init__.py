# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables, figures and the report of a taugrid run, all from its results.h5."""
