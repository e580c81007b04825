#pragma once

#include <string>
#include <vector>

#include "libsim/page/page_facts.hpp"
#include "libsim/page/page_trace.hpp"

namespace stagecraft {

/// HTML: facts as a list of cards.
std::string cards_html(std::vector<PageFact> const& facts);

/// HTML: the facts of one trace as a list of cards, of several as a table with a column per trace.
std::string summary_html(std::vector<PageTrace> const& traces);

/// HTML: a table with one row per shown rank, with times and the memory at its peak by category in
/// units that fit. Its caption has the `name` of the trace and the units.
std::string stage_table_html(PageTrace const& trace, std::string const& name);

}  // namespace stagecraft
