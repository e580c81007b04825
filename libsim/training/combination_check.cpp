#include "libsim/training/combination_check.hpp"

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
  Problem const& problem = error.problem();
  bool const is_named_by_node = problem.key == "schedule";
  node.report(is_named_by_node ? problem.found : problem.key + " " + problem.found,
              problem.accepted);
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
