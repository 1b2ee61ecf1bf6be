# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of the default tasks, of the field's data sets and of the user, to one packed file a task."""
