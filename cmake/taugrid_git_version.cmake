# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Writes taugrid_version.hpp with the git revision, "-dirty" where the tree has changes. Run as a
# script at every build (see the target below), it rewrites the file only when its text changes.
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git describe --always --dirty --abbrev=12
    WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE revision
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT revision)
    set(revision "unknown")
  endif()
  configure_file("${SOURCE_DIR}/cmake/taugrid_version.hpp.in" "${OUTPUT}" @ONLY)
  return()
endif()
set(version_header "${PROJECT_BINARY_DIR}/generated/taugrid_version.hpp")
add_custom_target(taugrid_git_version
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${version_header}
          -DVERSION=${PROJECT_VERSION} -DBUILD_TYPE=${CMAKE_BUILD_TYPE}
          -DCOMPILER=${CMAKE_CXX_COMPILER_ID}\ ${CMAKE_CXX_COMPILER_VERSION}
          -P ${PROJECT_SOURCE_DIR}/cmake/taugrid_git_version.cmake
  BYPRODUCTS ${version_header})
add_library(taugrid_version INTERFACE)
target_include_directories(taugrid_version INTERFACE "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
add_dependencies(taugrid_version taugrid_git_version)
