#include "apps/stagecraft-exec/end_signals.hpp"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace stagecraft {
namespace {

std::atomic<int> noted_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "signal handlers may take no locks");

extern "C" void note_end(int signal) {
  noted_signal = signal;
  constexpr std::string_view text =
      "stagecraft-exec: will save and end after this iteration; another signal ends at once\n";
  [[maybe_unused]] ssize_t const written = ::write(STDERR_FILENO, text.data(), text.size());
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

EndSignals::EndSignals() {
  noted_signal = 0;
  std::signal(SIGINT, note_end);
  std::signal(SIGTERM, note_end);
}

EndSignals::~EndSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

std::atomic<int> const& EndSignals::noted() const { return noted_signal; }

}  // namespace stagecraft
