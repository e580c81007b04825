#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft explain CONFIG`: why the fullest stage of a run is full, what its iteration consists
/// of, and what each single change would do. \return exit code
int explain_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
