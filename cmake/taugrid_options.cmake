# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Compile options of every target of ours, and how a folder becomes a library.
add_library(taugrid_options INTERFACE)
target_include_directories(taugrid_options INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor $<$<BOOL:${TAUGRID_ENABLE_WERROR}>:-Werror>)
# The level of a target is what this variable says in its folder. Kernels loop over numbers, and are compiled at -O3. All
# else calls them, and LibTorch: it runs as fast at -O1, and takes two thirds of the time to compile. Tests are compiled
# more often than they run: -Og takes no longer than -O0, and they run faster. TAUGRID_PCH is a level's precompiled header.
set(TAUGRID_LEVEL -O1)
set(TAUGRID_PCH taugrid_pch)
define_property(TARGET PROPERTY TAUGRID_LEVEL INITIALIZE_FROM_VARIABLE TAUGRID_LEVEL)
# How others compile their code is theirs to say.
target_compile_options(taugrid_options INTERFACE
  "$<BUILD_INTERFACE:${warnings}>"
  "$<BUILD_INTERFACE:$<$<CONFIG:Release>:$<TARGET_PROPERTY:TAUGRID_LEVEL>>>"
  "$<BUILD_INTERFACE:$<$<BOOL:${TAUGRID_ENABLE_NATIVE}>:-march=native>>")
# A linker that takes a tenth of the time, where there is one: forty programs of the tests are linked.
find_program(TAUGRID_MOLD mold DOC "The linker mold")
if(TAUGRID_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1
   AND NOT TAUGRID_ENABLE_SANITIZERS)
  # Where .tbss ends up in the last bytes of a page, mold 1.10 begins the segment of RELRO on a page that nobody maps, and
  # the program ends before main(): "cannot apply additional memory protection after relocation".
  add_link_options(-fuse-ld=mold -Wl,-z,norelro)
endif()
if(TAUGRID_ENABLE_SANITIZERS)
  # The warning is wrong about code that is instrumented.
  target_compile_options(taugrid_options INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(taugrid_options INTERFACE -fsanitize=address,undefined)
endif()
if(TAUGRID_ENABLE_FUZZERS)
  # unreachable: toml++ 3.3 declares its answer about letters beyond ASCII so, and takes the next one: no white space.
  target_compile_options(taugrid_options INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize-recover=all
    -fno-sanitize=unreachable)
  # toml++ compiled with the fuzzers, not taken from its library: its branches are to be seen as well.
  set_target_properties(tomlplusplus::tomlplusplus PROPERTIES INTERFACE_COMPILE_OPTIONS "")
endif()

# taugrid_precompiled(NAME HEADER…): a precompiled header of what sources use of LibTorch (torch/torch.h is twice as large,
# and twice as slow), and of these. Each source includes what it uses all the same: test sources_include.
function(taugrid_precompiled name)
  add_library(${name} OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_link_libraries(${name} PUBLIC taugrid_options taugrid::torch nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} PRIVATE <ATen/ATen.h> <ATen/CPUGeneratorImpl.h>
    <ATen/core/grad_mode.h> ${ARGN})
endfunction()
taugrid_precompiled(taugrid_pch <nlohmann/json.hpp>)

# Messages' formats, from the headers that LibTorch brings: they stand before the system's, which are older.
add_library(taugrid_fmt STATIC "${PROJECT_SOURCE_DIR}/cmake/fmt.cpp")
add_library(taugrid::fmt ALIAS taugrid_fmt)
target_link_libraries(taugrid_fmt PUBLIC taugrid_options taugrid::torch)
set_target_properties(taugrid_fmt PROPERTIES EXPORT_NAME fmt)
install(TARGETS taugrid_fmt EXPORT taugrid)

# taugrid_library(kernels weights SOURCES … LIBRARIES … [TORCH] [INTERNAL]): the library of one folder.
# TORCH: its sources see LibTorch, through the precompiled header. INTERNAL: not installed.
function(taugrid_library layer name)
  cmake_parse_arguments(ARG "TORCH;INTERNAL" "" "SOURCES;LIBRARIES" ${ARGN})
  set(target taugrid_${layer}_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  set_property(GLOBAL APPEND PROPERTY TAUGRID_LIBRARIES ${target})
  add_library(taugrid::${layer}::${name} ALIAS ${target})
  target_link_libraries(${target} PUBLIC taugrid_options ${ARG_LIBRARIES})
  if(ARG_TORCH)
    target_link_libraries(${target} PUBLIC taugrid::torch PRIVATE taugrid::fmt)
    target_precompile_headers(${target} REUSE_FROM ${TAUGRID_PCH})
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${layer}::${name})
  target_include_directories(${target} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/taugrid>")
  if(NOT ARG_INTERNAL)
    install(TARGETS ${target} EXPORT taugrid)
  endif()
endfunction()
