#pragma once

#include <string>
#include <vector>

#include "libsim/page/page_trace.hpp"

namespace stagecraft {

/// What a trace says in words that need no knowledge of pipelines: four facts, each a number and a
/// sentence or two. They say no more than its clock and device allow: of what ran where.
struct PageFact {
  std::string heading;   ///< "Fullest stage"
  std::string value;     ///< "60.1 GiB"
  std::string sentence;  ///< plain text
  bool is_alarming = false;
};
std::vector<PageFact> facts_of(PageTrace const& trace);

}  // namespace stagecraft
