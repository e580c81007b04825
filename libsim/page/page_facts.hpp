#pragma once

#include <string>
#include <vector>

#include "libsim/page/page_trace.hpp"

namespace stagecraft {

/// A summary of a trace in words that need no knowledge of pipelines: four facts, each a number and
/// a sentence or two. They claim no more than the clock and the device of the trace allow.
struct PageFact {
  std::string heading;   ///< "Fullest stage"
  std::string value;     ///< "60.1 GiB"
  std::string sentence;  ///< plain text
  bool is_alarming = false;
};
std::vector<PageFact> facts_of(PageTrace const& trace);

/// What the stage with the least margin has on its device, as it is predicted, and whether the run
/// fits; says so if that is not known.
PageFact device_fact(PageTrace const& trace);

}  // namespace stagecraft
