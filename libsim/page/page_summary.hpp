#pragma once

#include <string>
#include <vector>

#include "libsim/page/page_trace.hpp"

namespace stagecraft {

/// What a trace says in words that need no knowledge of pipelines: four facts, each a number and a
/// sentence or two.
struct PageFact {
  std::string heading;   ///< "Fullest stage"
  std::string value;     ///< "60.1 GiB"
  std::string sentence;  ///< plain text
  bool is_alarming = false;
};
std::vector<PageFact> facts_of(PageTrace const& trace);

/// What was run on what: model, machine, layout; empty where the configuration does not load.
std::string setting_of(PageTrace const& trace);

/// Facts of one trace as a list of cards; of several as a table with a column a trace. HTML.
std::string summary_html(std::vector<PageTrace> const& traces);

/// A row a shown rank: times, and memory at its peak by category, as a table. HTML.
std::string stage_table_html(PageTrace const& trace, std::string const& caption);

}  // namespace stagecraft
