#pragma once

#include <string>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/import/omissions.hpp"
#include "libsim/import/shell/script_doubt.hpp"

namespace stagecraft {

/// Leaves out the flags that a launch script has only if it goes on in a way that is not known, or
/// reports them if the omissions are strict. A doubt about flags without effect becomes a note.
void leave_out_doubts(std::vector<ScriptDoubt> const& doubts,
                      std::string const& origin,
                      Omissions& omissions,
                      Diagnostics& diagnostics,
                      std::vector<std::string>& notes);

/// The problems of a run; those of flags on which there is a doubt say what decides it.
std::vector<Problem> with_doubts(std::vector<Problem> problems,
                                 std::vector<ScriptDoubt> const& doubts);

}  // namespace stagecraft
