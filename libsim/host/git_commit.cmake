# Writes what is checked out in `source` to `header`, which is touched only where it changes.
# Without git, or in a source that is no repository of its own, the commit is empty.
function(git output)
  execute_process(COMMAND git --no-optional-locks ${ARGN} WORKING_DIRECTORY ${source}
                  OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    set(text "")
  endif()
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

git(prefix rev-parse --show-prefix)  # empty in the topmost folder of a repository
git(commit rev-parse --verify HEAD)
set(has_changes false)
if(prefix)
  set(commit "")
elseif(commit)
  git(changes status --porcelain --untracked-files=no)
  if(changes)
    set(has_changes true)
  endif()
endif()
file(CONFIGURE OUTPUT ${header} @ONLY CONTENT [[
#pragma once

namespace stagecraft {

inline constexpr char const* git_commit = "@commit@";
inline constexpr bool git_has_changes = @has_changes@;

}  // namespace stagecraft
]])
