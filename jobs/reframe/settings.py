# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""ReFrame's view of a machine: `local` starts by mpirun where one is logged in, `slurm` and `squeue` submit. A centre
has its own; the checks ask for no more than this."""

site_configuration = {
    "systems": [
        {
            "name": "local",
            "descr": "This machine",
            "hostnames": [".*"],
            "partitions": [
                {"name": "default", "scheduler": "local", "launcher": "mpirun", "environs": ["built"], "max_jobs": 1},
            ],
        },
        {
            "name": "slurm",
            "descr": "A cluster",
            "hostnames": [".*"],
            "partitions": [
                {"name": "default", "scheduler": "slurm", "launcher": "srun", "environs": ["built"], "max_jobs": 4},
            ],
        },
        {
            "name": "squeue",
            "descr": "A cluster whose Slurm keeps no accounts (sacct)",
            "hostnames": [".*"],
            "partitions": [
                {"name": "default", "scheduler": "squeue", "launcher": "srun", "environs": ["built"], "max_jobs": 4},
            ],
        },
    ],
    "environments": [{"name": "built", "cc": "mpicc", "cxx": "mpicxx", "ftn": "mpif90"}],
    "logging": [
        {
            "handlers": [{"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}],
            "handlers_perflog": [
                {
                    "type": "filelog",
                    "prefix": "%(check_system)s/%(check_partition)s",
                    "level": "info",
                    "format": "%(check_job_completion_time)s,%(version)s,%(check_display_name)s,%(check_result)s,"
                    "%(check_perfvalues)s",
                    "format_perfvars": "%(check_perf_value)s,%(check_perf_unit)s,",
                    "append": True,
                }
            ],
        }
    ],
}
