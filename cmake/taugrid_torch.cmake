# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# LibTorch as taugrid::torch, from the folder of a PyTorch wheel or a LibTorch archive.
# Its own package configuration stops where no CUDA toolkit is installed, although a program
# that calls no CUDA function needs none; so the targets are defined here.
find_path(TAUGRID_TORCH_INCLUDE torch/torch.h REQUIRED NO_DEFAULT_PATH
          PATHS "${TAUGRID_TORCH_ROOT}/include/torch/csrc/api/include"
          DOC "Folder of torch/torch.h; set TAUGRID_TORCH_ROOT")
foreach(name torch torch_cpu c10)
  find_library(TAUGRID_LIB_${name} ${name} REQUIRED NO_DEFAULT_PATH PATHS "${TAUGRID_TORCH_ROOT}/lib")
endforeach()
add_library(taugrid::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(taugrid::torch INTERFACE
  "${TAUGRID_TORCH_ROOT}/include" "${TAUGRID_TORCH_INCLUDE}")
target_link_libraries(taugrid::torch INTERFACE
  "${TAUGRID_LIB_torch_cpu}" "${TAUGRID_LIB_c10}")
target_link_options(taugrid::torch INTERFACE "LINKER:-rpath,${TAUGRID_TORCH_ROOT}/lib"
  "LINKER:-rpath-link,${TAUGRID_TORCH_ROOT}/lib")
file(READ "${TAUGRID_TORCH_ROOT}/include/torch/headeronly/version.h" version_text)
string(REGEX MATCH "TORCH_VERSION_MAJOR ([0-9]+)" _ "${version_text}")
set(TAUGRID_TORCH_VERSION "${CMAKE_MATCH_1}")
string(REGEX MATCH "TORCH_VERSION_MINOR ([0-9]+)" _ "${version_text}")
string(APPEND TAUGRID_TORCH_VERSION ".${CMAKE_MATCH_1}")
message(STATUS "LibTorch ${TAUGRID_TORCH_VERSION}: ${TAUGRID_TORCH_ROOT}")

include(CheckIncludeFileCXX)
# Headers of NCCL and of the CUDA runtime, as a PyTorch wheel with CUDA brings them or a toolkit does.
find_path(TAUGRID_NCCL_INCLUDE nccl.h HINTS "${TAUGRID_TORCH_ROOT}/../nvidia/nccl/include"
          /usr/local/cuda/include DOC "Folder of nccl.h")
find_path(TAUGRID_CUDA_INCLUDE cuda_runtime.h HINTS "${TAUGRID_TORCH_ROOT}/../nvidia/cu13/include"
          "${TAUGRID_TORCH_ROOT}/../nvidia/cuda_runtime/include" /usr/local/cuda/include
          DOC "Folder of cuda_runtime.h")
# Wheels of the CUDA runtime lack headers that theirs include: nvidia-cuda-crt and nvidia-cuda-cccl have them.
if(TAUGRID_NCCL_INCLUDE AND TAUGRID_CUDA_INCLUDE)
  set(CMAKE_REQUIRED_INCLUDES "${TAUGRID_NCCL_INCLUDE}" "${TAUGRID_CUDA_INCLUDE}")
  if(NOT TAUGRID_NCCL_COMPILES)
    unset(TAUGRID_NCCL_COMPILES CACHE)  # they may have come since
  endif()
  check_include_file_cxx(nccl.h TAUGRID_NCCL_COMPILES)
  unset(CMAKE_REQUIRED_INCLUDES)
endif()
if(TAUGRID_NCCL_COMPILES)
  message(STATUS "NCCL headers: ${TAUGRID_NCCL_INCLUDE}")
elseif(TAUGRID_NCCL_INCLUDE AND TAUGRID_CUDA_INCLUDE)
  message(WARNING "NCCL's headers in ${TAUGRID_NCCL_INCLUDE} do not compile with CUDA's in ${TAUGRID_CUDA_INCLUDE} "
    "(see CMakeConfigureLog or CMakeError.log): tensors of GPUs will go through MPI")
else()
  message(STATUS "NCCL headers: none, so tensors of GPUs will go through MPI")
endif()
