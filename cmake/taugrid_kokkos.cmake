# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Kokkos as taugrid::kokkos. Debian's package names an include folder that does not exist,
# so the folder is taken from where Kokkos_Core.hpp really is when the package's own is wrong.
find_package(Kokkos REQUIRED)
add_library(taugrid::kokkos INTERFACE IMPORTED GLOBAL)
find_path(TAUGRID_KOKKOS_INCLUDE Kokkos_Core.hpp
          HINTS "${Kokkos_DIR}/../../../include" PATH_SUFFIXES kokkos trilinos)
if(NOT TAUGRID_KOKKOS_INCLUDE)
  message(FATAL_ERROR "Kokkos_Core.hpp was not found near ${Kokkos_DIR}. Name its folder with TAUGRID_KOKKOS_INCLUDE.")
endif()
target_include_directories(taugrid::kokkos INTERFACE "${TAUGRID_KOKKOS_INCLUDE}")
# CMake refuses imported targets with folders that are not there.
foreach(library Kokkos::kokkos Kokkos::kokkoscore kokkoscore kokkoscontainers kokkosalgorithms kokkossimd)
  if(TARGET ${library})
    get_target_property(folders ${library} INTERFACE_INCLUDE_DIRECTORIES)
    foreach(folder IN LISTS folders)
      if(folder AND NOT folder MATCHES "^\\$<" AND NOT EXISTS "${folder}")
        set_target_properties(${library} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${TAUGRID_KOKKOS_INCLUDE}")
      endif()
    endforeach()
  endif()
endforeach()
if(TARGET Kokkos::kokkos)
  target_link_libraries(taugrid::kokkos INTERFACE Kokkos::kokkos)
else()
  target_link_libraries(taugrid::kokkos INTERFACE kokkoscore)
endif()
