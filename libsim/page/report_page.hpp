#pragma once

#include <string>
#include <vector>

#include "libsim/page/page_trace.hpp"

namespace stagecraft {

/// One HTML file about one or several traces, which needs nothing but a browser: no network, no
/// library. Its policy (Content-Security-Policy) lets no script run but its own.
///
/// `title`: of the page; `difference`: a paragraph on how the traces differ, may be empty. Both are
/// plain text, as is everything that comes from the traces. Pre: at least one trace, each with a
/// rank.
std::string report_page(std::vector<PageTrace> const& traces,
                        std::string const& title,
                        std::string const& difference);

}  // namespace stagecraft
