#pragma once

#include <string>
#include <vector>

#include "libsim/page/page_trace.hpp"

namespace stagecraft {

/// One HTML file about one or several traces, which needs only a browser: no network, no
/// library. Its Content-Security-Policy allows no script but its own.
///
/// `difference` is a paragraph on how the traces differ, or empty. It and `title` are plain text,
/// as is everything that comes from the traces. Pre: there is at least one trace, and each has at
/// least one rank.
std::string report_page(std::vector<PageTrace> const& traces,
                        std::string const& title,
                        std::string const& difference);

}  // namespace stagecraft
