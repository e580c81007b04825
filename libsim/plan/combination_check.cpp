#include "libsim/plan/combination_check.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft {
namespace {

/// The node at a dotted key.
ConfigNode node_at(ConfigNode const& root, std::string_view key) {
  ConfigNode node = root;
  for (std::size_t from = 0; from <= key.size();) {
    std::size_t const end = std::min(key.find('.', from), key.size());
    node = node.child(key.substr(from, end - from));
    from = end + 1;
  }
  return node;
}

}  // namespace

void report(ScheduleError const& error, ConfigNode const& node) {
  std::string const text = error.what();  // "x: found y; accepted: z", or who waits for whom
  std::string const middle = "; accepted: ";
  std::size_t const end = text.find(middle);
  if (end == std::string::npos) {
    node.report(text, "an order in which no ranks wait for each other in a circle");
    return;
  }
  std::string found = text.substr(0, end);
  if (found.rfind("schedule: found ", 0) == 0) found.erase(0, 16);
  if (std::size_t const at = found.find(": found "); at != std::string::npos) {
    found.replace(at, 8, " ");
  }
  node.report(std::move(found), text.substr(end + middle.size()));
}

bool CombinationCheck::sound(std::initializer_list<std::string_view> keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return root_.diagnostics().is_sound(key); });
}

void CombinationCheck::refuse(std::string_view key,
                              std::string_view value,
                              std::string accepted) const {
  ConfigNode const node = node_at(root_, key);
  std::string found = "'" + std::string{value} + "'";
  if (node.exists()) {
    found = node.found();
  } else if (root_.place().origin) {
    found += " (the default)";
  }
  node.report(std::move(found), std::move(accepted));
}

void CombinationCheck::refuse(std::string_view key,
                              std::int64_t value,
                              std::string accepted) const {
  refuse(key, std::to_string(value), std::move(accepted));
}

}  // namespace stagecraft
