# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# The fuzz targets, in a build of their own by clang; only the folders that they need are compiled.
include(ProcessorCount)
ProcessorCount(cores)
execute_process(COMMAND ${CMAKE_COMMAND} --preset fuzz -DCMAKE_CXX_COMPILER=${CLANGXX} -DTAUGRID_TORCH_ROOT=${TORCH}
  "-DCMAKE_PREFIX_PATH=${PREFIX}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --parallel ${cores} --target fuzzers
  COMMAND_ERROR_IS_FATAL ANY)
