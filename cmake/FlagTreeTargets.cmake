# How every target of this tree is declared: one function per kind, so that the
# warning and sanitizer flags are stated once.

find_package(Threads REQUIRED)

add_library(FlagTreeFlags INTERFACE)
target_include_directories(FlagTreeFlags INTERFACE "${CMAKE_SOURCE_DIR}/include")
target_compile_options(FlagTreeFlags INTERFACE
  -Wall -Wextra -Wnon-virtual-dtor -Wimplicit-fallthrough
  $<$<BOOL:${FLAGTREE_WERROR}>:-Werror>)
target_link_libraries(FlagTreeFlags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(FLAGTREE_SANITIZER)
  list(JOIN FLAGTREE_SANITIZER "," sanitizers)
  target_compile_options(FlagTreeFlags INTERFACE
    -fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(FlagTreeFlags INTERFACE -fsanitize=${sanitizers})
endif()

# flagtree_add_library(NAME SOURCES file... [LINK target...])
# A static library of the Python-free core.
function(flagtree_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC FlagTreeFlags ${ARG_LINK})
endfunction()

# flagtree_add_tool(NAME SOURCES file... [LINK target...])
# A command-line tool, placed in <build>/bin.
function(flagtree_add_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE FlagTreeFlags ${ARG_LINK})
endfunction()

# flagtree_add_unittest(NAME SOURCES file... [LINK target...])
# A GoogleTest program, registered with ctest.
function(flagtree_add_unittest name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE FlagTreeFlags GTest::gtest_main ${ARG_LINK})
  add_test(NAME ${name} COMMAND ${name})
endfunction()
