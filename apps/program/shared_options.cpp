#include "apps/program/shared_options.hpp"

#include <algorithm>
#include <thread>

namespace stagecraft {

Option json_option() { return {.name = "json", .description = "print one JSON document"}; }

Option jobs_option() {
  return {.name = "jobs", .value = Value::text("J"), .description = "threads (default: all cores)"};
}

int jobs_of(CommandLine const& line) {
  return line.has("jobs") ? line.whole_number("jobs", 1, 1024) : core_count();
}

int core_count() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace stagecraft
