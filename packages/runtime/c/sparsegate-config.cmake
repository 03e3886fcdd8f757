# find_package(sparsegate) gives the target sparsegate::sparsegate, and sparsegate::static.
get_filename_component(_sparsegate_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET sparsegate::sparsegate)
  add_library(sparsegate::sparsegate SHARED IMPORTED)
  set_target_properties(sparsegate::sparsegate PROPERTIES
    IMPORTED_LOCATION "${_sparsegate_prefix}/lib/libsparsegate.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${_sparsegate_prefix}/include")
  add_library(sparsegate::static STATIC IMPORTED)
  set_target_properties(sparsegate::static PROPERTIES
    IMPORTED_LOCATION "${_sparsegate_prefix}/lib/libsparsegate.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_sparsegate_prefix}/include"
    INTERFACE_LINK_LIBRARIES "gomp;m")
endif()
unset(_sparsegate_prefix)
