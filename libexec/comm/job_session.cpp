#include "libexec/comm/job_session.hpp"

namespace stagecraft {

using std::chrono::nanoseconds;

std::int64_t nanoseconds_now() {
  return nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

nanoseconds offset_of_clock(std::function<std::int64_t()> const& ask) {
  std::int64_t shortest = nanoseconds::max().count();
  std::int64_t offset = 0;
  for (int i = 0; i < time_questions; ++i) {
    std::int64_t const begin = nanoseconds_now();
    std::int64_t const theirs = ask();
    std::int64_t const took = nanoseconds_now() - begin;
    if (took >= shortest) continue;
    shortest = took;
    offset = theirs - (begin + took / 2);
  }
  return nanoseconds{offset};
}

}  // namespace stagecraft
