# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Labelled texts of packages, of the papers and of the user, to one packed file a task; the models that make heads."""
