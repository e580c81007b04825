#pragma once

#include <string>
#include <vector>

#include "libsim/page/page_trace.hpp"

namespace stagecraft {

/// Facts of one trace as a list of cards; of several as a table with a column a trace. HTML.
std::string summary_html(std::vector<PageTrace> const& traces);

/// A row a shown rank: times, and memory at its peak by category, in units that fit; as a table
/// with the trace's `name` and the units as its caption. HTML.
std::string stage_table_html(PageTrace const& trace, std::string const& name);

}  // namespace stagecraft
