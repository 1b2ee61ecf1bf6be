# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Kokkos as taugrid::kokkos. Debian's package names an include folder that does not exist,
# so the folder is taken from where Kokkos_Core.hpp really is when the package's own is wrong.
find_package(Kokkos REQUIRED)
add_library(taugrid_kokkos INTERFACE)
add_library(taugrid::kokkos ALIAS taugrid_kokkos)
find_path(TAUGRID_KOKKOS_INCLUDE Kokkos_Core.hpp
          HINTS "${Kokkos_DIR}/../../../include" PATH_SUFFIXES kokkos trilinos)
foreach(candidate Kokkos::kokkoscore kokkoscore)
  if(TARGET ${candidate})
    get_target_property(folders ${candidate} INTERFACE_INCLUDE_DIRECTORIES)
    set(missing OFF)
    foreach(folder IN LISTS folders)
      if(NOT folder MATCHES "\\$<" AND NOT EXISTS "${folder}/Kokkos_Core.hpp")
        set(missing ON)
      endif()
    endforeach()
    if(missing AND TAUGRID_KOKKOS_INCLUDE)
      set_target_properties(${candidate} PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${TAUGRID_KOKKOS_INCLUDE}")
    endif()
  endif()
endforeach()
if(TARGET Kokkos::kokkos)
  target_link_libraries(taugrid_kokkos INTERFACE Kokkos::kokkos)
else()
  target_link_libraries(taugrid_kokkos INTERFACE kokkoscore)
  target_include_directories(taugrid_kokkos SYSTEM INTERFACE "${TAUGRID_KOKKOS_INCLUDE}")
endif()
