# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# cmake --install: the program, and its libraries for other projects, as taugrid::kernels and taugrid::suite. A
# project that uses them is in tests/install.
include(CMakePackageConfigHelpers)
foreach(layer kernels suite)
  add_library(taugrid_${layer} INTERFACE)
  set_target_properties(taugrid_${layer} PROPERTIES EXPORT_NAME ${layer})
  install(TARGETS taugrid_${layer} EXPORT taugrid)
  # Public headers; those of folders called detail are nobody else's.
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${layer}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/taugrid"
    FILES_MATCHING PATTERN "*.hpp" PATTERN detail EXCLUDE PATTERN bench EXCLUDE PATTERN plan EXCLUDE
    PATTERN program EXCLUDE)
endforeach()
target_link_libraries(taugrid_kernels INTERFACE taugrid_kernels_weights taugrid_kernels_autodiff
  taugrid_kernels_spectral taugrid_kernels_tangent taugrid_kernels_metrics
  taugrid::kokkos)  # which callers of the weight-space kernels start
target_link_libraries(taugrid_suite INTERFACE taugrid_kernels taugrid_suite_experiments)

# The internal targets that the exported ones name.
set_target_properties(taugrid_options PROPERTIES EXPORT_NAME options)
install(TARGETS taugrid_options taugrid_version EXPORT taugrid)

set_target_properties(taugrid PROPERTIES INSTALL_RPATH "${TAUGRID_TORCH_ROOT}/lib")
install(TARGETS taugrid RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

set(folder "${CMAKE_INSTALL_LIBDIR}/cmake/taugrid")
install(EXPORT taugrid NAMESPACE taugrid:: FILE taugridTargets.cmake DESTINATION "${folder}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/taugridConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/taugridConfig.cmake" INSTALL_DESTINATION "${folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/taugridConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
# LibTorch and Kokkos are found anew: they may lie elsewhere by then.
install(FILES "${PROJECT_SOURCE_DIR}/cmake/taugrid_torch.cmake" "${PROJECT_SOURCE_DIR}/cmake/taugrid_kokkos.cmake"
  DESTINATION "${folder}")
install(FILES "${PROJECT_BINARY_DIR}/taugridConfig.cmake" "${PROJECT_BINARY_DIR}/taugridConfigVersion.cmake"
  DESTINATION "${folder}")
