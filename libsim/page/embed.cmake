# Writes a C++ source in which the files of web/ are arrays of characters.
#
# usage: cmake -D output=FILE -D folder=FOLDER -D "html=A.html" -D "css=A.css" -D "plans=B.html" -D "script=A.js,B.js" -P embed.cmake

function(add_array name files)
  set(bytes "")
  string(REPLACE "," ";" files "${files}")
  foreach(file IN LISTS files)
    file(READ ${folder}/${file} hex HEX)
    string(APPEND bytes ${hex})
  endforeach()
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  # One line per file makes compilers complain about columns.
  string(REGEX REPLACE "(('[^']*',){32})" "\\1\n" bytes "${bytes}")
  string(APPEND text "constexpr char ${name}_bytes[] = {\n${bytes}};\n")
  string(APPEND accessors "std::string_view page_${name}() { return {${name}_bytes, sizeof ${name}_bytes}; }\n")
  set(text "${text}" PARENT_SCOPE)
  set(accessors "${accessors}" PARENT_SCOPE)
endfunction()

set(text "")
set(accessors "")
add_array(html "${html}")
add_array(css "${css}")
add_array(plans "${plans}")
add_array(script "${script}")
file(WRITE ${output} "// Made by embed.cmake.
#include \"libsim/page/page_files.hpp\"

namespace stagecraft {

namespace {

${text}
}  // namespace

${accessors}
}  // namespace stagecraft
")
