#pragma once

#include <string_view>

namespace stagecraft {

// The files of web/ at the time of the build, in the order of CMakeLists.txt.

/// The skeleton of a report, with {{places}} for what differs.
std::string_view page_html();
std::string_view page_css();
/// The skeleton of a page that compares plans.
std::string_view page_plans();
/// All scripts, one after another.
std::string_view page_script();

}  // namespace stagecraft
