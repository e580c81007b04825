#pragma once

#include <string_view>

namespace stagecraft {

// The files of web/, as they were when the program was built; their order is CMakeLists.txt's.

/// Skeleton of a report, with {{places}} for what differs.
std::string_view page_html();
std::string_view page_css();
/// All scripts, one after another.
std::string_view page_script();

}  // namespace stagecraft
